"""The staged bridge: kernels work on copies, which go through the host. For devices that share no memory with the tensors."""
from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

import torch

from .._library import last_error, lib
from ..context import Buffer
from .frame import Frame, launch
from .layout import EMPTY, Layout, dense_strides
from .once import once_only
from .quick import node_of


class StagedBridge:
    """Calls of one kernel on copies; `run` and `apply` as in the native bridge."""

    def __init__(self, layout: Layout):
        self.layout = layout
        self._widened = [layout.place(i).wide_gradient for i in layout.returned]
        bridge = self

        def forward(ctx: Any, *arguments: Any) -> Any:
            tensors, scalars = bridge._split(arguments)
            ctx.kept = bridge._forward(tensors, scalars)
            ctx.scalars = scalars
            ctx.set_materialize_grads(False)
            ctx.save_for_backward(*[tensors[i] if i < len(layout.inputs) else tensors[i].detach() for i in layout.kept])
            if layout.dirty:
                ctx.mark_dirty(*[tensors[i] for i in layout.dirty])
            if layout.frozen:
                ctx.mark_non_differentiable(*[tensors[i] for i in layout.frozen])
            return bridge._returned(tensors)

        def backward(ctx: Any, *upstreams: Optional[torch.Tensor]) -> Any:
            if torch.is_grad_enabled():
                return once(ctx, *upstreams)
            ctx.saved_tensors  # the copies are used; but torch says when one of the tensors was written meanwhile
            return bridge._backward(ctx.kept, upstreams, ctx.needs_input_grad, ctx.scalars)

        once = once_only(layout.kernel.name, backward)
        self.apply, self.apply_directly = node_of(layout.kernel.name, forward, backward)

    def run(self, *arguments: Any) -> Any:
        """A call without autograd."""
        tensors, scalars = self._split(arguments)
        self._forward(tensors, scalars)
        return self._returned(tensors)

    def synchronize(self) -> None:
        """Waits for all calls."""
        self.layout.device.synchronize()

    def _split(self, arguments: Sequence[Any]) -> Tuple[List[torch.Tensor], Sequence[Any]]:
        """All tensors in their order, outputs that were not given are made; and the numbers."""
        handed = self.layout.handed
        found = dict(zip(handed, arguments))
        for i in range(len(self.layout.order)):
            if i not in found:
                place = self.layout.place(i)
                found[i] = arguments[0].new_empty(place.shape, dtype=place.torch_dtype)
        return [found[i] for i in range(len(found))], arguments[len(handed):]

    def _returned(self, tensors: Sequence[torch.Tensor]) -> Any:
        returned = tuple([tensors[i] for i in self.layout.returned])
        return returned if len(returned) > 1 else returned[0]

    # ---- copies

    def _space(self, tensor: torch.Tensor) -> Buffer:
        return self.layout.device.buffer(tensor.numel() * tensor.element_size())

    def _upload(self, tensor: torch.Tensor) -> Buffer:
        host = tensor.detach().cpu().resolve_neg().contiguous()
        buffer = self._space(host)
        lib.ddisp_buffer_write(buffer.handle, 0, host.data_ptr(), buffer.size_bytes, None)
        return buffer

    def _download(self, buffer: Buffer, tensor: torch.Tensor) -> None:
        direct = tensor.device.type == "cpu" and tensor.is_contiguous()
        host = tensor if direct else torch.empty(tensor.shape, dtype=tensor.dtype)
        lib.ddisp_buffer_read(buffer.handle, 0, host.data_ptr(), buffer.size_bytes, None)
        if not direct:
            tensor.copy_(host)

    @staticmethod
    def _launch(frame: Frame, scalars: Sequence[Any]) -> None:
        for number, value in zip(frame.numbers, scalars):
            number[0] = value
        if launch(*frame.arguments, None):
            raise last_error()

    # ---- launches

    def _forward(self, tensors: Sequence[torch.Tensor], scalars: Sequence[Any]) -> List[Buffer]:
        """Fills the outputs. Returns the copies, which backward uses."""
        layout = self.layout
        buffers = [self._upload(tensor) if i < len(layout.inputs) else self._space(tensor) for i, tensor in enumerate(tensors)]
        frame = layout.forward_frame()
        for at, buffer in zip(layout.order, buffers):
            frame.words[frame.data[at]] = buffer.address
        self._launch(frame, scalars)
        for i in layout.returned:
            self._download(buffers[i], tensors[i])
        return buffers

    def _backward(self, kept: Sequence[Buffer], upstreams: Sequence[Optional[torch.Tensor]], needs: Sequence[bool],
                  scalars: Sequence[Any]) -> Any:
        """A fresh gradient for each input that needs one."""
        layout = self.layout
        upstreams = [upstream if upstream is None or not wide else upstream.float() for upstream, wide in zip(upstreams, self._widened)]
        needed = layout.needed(needs)
        frame = layout.backward_frame(needed, [None if upstream is None else dense_strides(upstream.shape) for upstream in upstreams])
        for at, buffer in zip(layout.order, kept):
            frame.words[frame.data[at]] = buffer.address
        gradients: List[Optional[torch.Tensor]] = [None] * len(needs)
        spaces = []
        for i in needed:
            place = layout.place(i)
            new = torch.zeros if place.repeated_never else torch.empty
            gradient = gradients[layout.handed.index(i)] = new(place.own_shape, dtype=place.gradient_dtype, device=layout.torch_device)
            if not place.repeated_never:
                spaces.append((self._space(gradient), gradient))
            frame.words[frame.add[layout.order[i]]] = spaces[-1][0].address or EMPTY if not place.repeated_never else EMPTY
        read = {i: self._upload(upstream) for i, upstream in zip(layout.returned, upstreams) if upstream is not None}
        for i, buffer in read.items():
            frame.words[frame.read[layout.order[i]]] = buffer.address
        self._launch(frame, scalars)
        for buffer, gradient in spaces:
            self._download(buffer, gradient)
        return tuple(gradients)
