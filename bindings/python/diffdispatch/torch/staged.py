"""The staged bridge: kernels work on copies, which go through the host. For devices that share no memory with the tensors."""
from __future__ import annotations

from typing import Any, Callable, List, Optional, Sequence, Tuple

import torch

from .._library import last_error, lib
from ..context import Buffer
from .frame import Frame, launch
from .layout import Layout
from .native import _EMPTY


class StagedBridge:
    """Calls of one kernel on copies; `run` and `node` as in the native bridge."""

    def __init__(self, layout: Layout):
        self.layout = layout
        self._count = len(layout.inputs)
        self._handed = len(layout.order) if layout.given else self._count
        self._widened = [layout.place(i).wide_gradient for i in layout.returned]
        bridge = self

        def forward(ctx: Any, *arguments: Any) -> Any:
            tensors, scalars = bridge._split(arguments)
            ctx.kept = bridge._forward(tensors, scalars)
            ctx.scalars = scalars
            ctx.set_materialize_grads(False)
            made = [tensor.detach() for tensor in tensors[bridge._count:]] if layout.keep_outputs else []
            ctx.save_for_backward(*tensors[:bridge._count], *made)
            if layout.dirty:
                ctx.mark_dirty(*[tensors[i] for i in layout.dirty])
            if layout.frozen:
                ctx.mark_non_differentiable(*[tensors[i] for i in layout.frozen])
            return bridge._returned(tensors)

        def backward(ctx: Any, *upstreams: Optional[torch.Tensor]) -> Any:
            if torch.is_grad_enabled():
                return once(ctx, *upstreams)
            return bridge._backward(ctx.saved_tensors, ctx.kept, upstreams, ctx.needs_input_grad, ctx.scalars)

        once = torch.autograd.function.once_differentiable(backward)
        self.node = type(layout.kernel.name, (torch.autograd.Function,), {
            "forward": staticmethod(forward), "backward": staticmethod(backward)})

    def run(self, *arguments: Any) -> Any:
        """A call without autograd."""
        tensors, scalars = self._split(arguments)
        self._forward(tensors, scalars)
        return self._returned(tensors)

    def _split(self, arguments: Sequence[Any]) -> Tuple[List[torch.Tensor], Sequence[Any]]:
        """All tensors, outputs that were not given are made; and the numbers."""
        tensors = list(arguments[:self._handed])
        for i in range(self._handed, len(self.layout.order)):
            place = self.layout.place(i)
            tensors.append(tensors[0].new_empty(place.shape, dtype=place.torch_dtype))
        return tensors, arguments[self._handed:]

    def _returned(self, tensors: Sequence[torch.Tensor]) -> Any:
        returned = tuple([tensors[i] for i in self.layout.returned])
        return returned if len(returned) > 1 else returned[0]

    # ---- copies

    def _space(self, tensor: torch.Tensor) -> Buffer:
        return self.layout.device.buffer(tensor.numel() * tensor.element_size())

    def _upload(self, tensor: torch.Tensor) -> Buffer:
        host = tensor.detach().cpu().contiguous()
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
        buffers = [self._upload(tensor) if i < self._count else self._space(tensor) for i, tensor in enumerate(tensors)]
        frame = layout.forward_frame()
        for at, buffer in zip(layout.order, buffers):
            frame.words[frame.data[at]] = buffer.address
        self._launch(frame, scalars)
        for i in layout.returned:
            self._download(buffers[i], tensors[i])
        return buffers

    def _backward(self, saved: Sequence[torch.Tensor], kept: Sequence[Buffer], upstreams: Sequence[Optional[torch.Tensor]],
                  needs: Sequence[bool], scalars: Sequence[Any]) -> Any:
        """A fresh gradient for each input that needs one. saved: looked at so that torch says when one was written meanwhile."""
        layout = self.layout
        upstreams = [upstream if upstream is None or not wide else upstream.float() for upstream, wide in zip(upstreams, self._widened)]
        strides = [None if upstream is None else _dense(upstream) for upstream in upstreams]
        frame = layout.backward_frame(needs[:self._count], strides)
        for at, buffer in zip(layout.order, kept):
            frame.words[frame.data[at]] = buffer.address
        gradients: List[Optional[torch.Tensor]] = [None] * len(needs)
        spaces = {}
        for i in range(self._count):
            if needs[i]:
                place = layout.place(i)
                gradients[i] = gradient = saved[0].new_empty(place.own_shape, dtype=place.gradient_dtype)
                spaces[i] = self._space(gradient)
                frame.words[frame.add[layout.order[i]]] = spaces[i].address or _EMPTY
        read = {i: self._upload(upstream) for i, upstream in zip(layout.returned, upstreams) if upstream is not None}
        for i, buffer in read.items():
            frame.words[frame.read[layout.order[i]]] = buffer.address
        self._launch(frame, scalars)
        for i, buffer in spaces.items():
            self._download(buffer, gradients[i])  # type: ignore[arg-type]
        return tuple(gradients)


def _dense(tensor: torch.Tensor) -> Tuple[int, ...]:
    from .layout import dense_strides
    return dense_strides(tensor.shape)
