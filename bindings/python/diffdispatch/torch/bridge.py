"""Bridges: how tensors of torch reach a device. A native bridge hands kernels the addresses of torch's memory; a staged one copies
through the host, for devices that share no memory with the tensors.

A bridge serves one kernel, one device and tensors of one set of dtypes, shapes and strides; it is found by those at each call. In come
tensors, all inputs and then all outputs that are not inputs too; out come filled outputs, and in backward a gradient per input.
"""
from __future__ import annotations

import ctypes as C
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch

from .. import _abi
from .._abi import Mode, Policy
from .._library import last_error, lib
from ..context import Buffer, Stream
from .frame import Frame, launch
from .layout import BackwardKind, Layout

_BACKWARD_FLAGS = _abi.LAUNCH_ZERO_UPSTREAM | _abi.LAUNCH_OVERWRITE
_EMPTY = 64  # the address of a gradient without elements; 0 would mean that there is none
_KINDS = 64  # kinds of backward launches that a bridge remembers

Tensors = Sequence[torch.Tensor]
Upstreams = Sequence[Optional[torch.Tensor]]
Gradients = List[Optional[torch.Tensor]]


def current_stream_of(device: torch.device) -> Optional[Callable[[], int]]:
    """What gives the number of torch's current stream; None on devices without streams."""
    if device.type != "cuda":
        return None
    index = device.index if device.index is not None else torch.cuda.current_device()
    raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    if raw is not None:
        return lambda: raw(index)
    return lambda: torch.cuda.current_stream(index).cuda_stream


class Bridge:
    """What both bridges share: frames, and the kinds of backward launches."""

    dense = False
    """Whether kernels see dense copies."""

    def __init__(self, layout: Layout):
        self.layout = layout
        self._order = layout.inputs + layout.made
        self.returned = [self._order.index(at) for at in layout.returned]
        self._described = [place.described(self.dense) for place in layout.places]
        self._widened = layout.widened
        self._frames: List[Frame] = []
        self._kinds: Dict[Any, Tuple[BackwardKind, List[Frame]]] = {}

    def _forward_frame(self) -> Frame:
        try:
            return self._frames.pop()
        except IndexError:
            layout = self.layout
            return Frame(layout.kernel, Mode.FORWARD, self._described, 0, Policy.DEFAULT, layout.device.handle, self._order)

    def _kind(self, needs: Tuple[bool, ...], strides: Tuple[Any, ...]) -> Tuple[BackwardKind, List[Frame]]:
        found = self._kinds.get((needs, strides))
        if found is None:
            if len(self._kinds) >= _KINDS:
                self._kinds.clear()
            found = self._kinds[needs, strides] = (BackwardKind(self.layout, needs, strides, self.dense), [])
        return found

    def _backward_frame(self, kind: BackwardKind, frames: List[Frame]) -> Frame:
        try:
            return frames.pop()
        except IndexError:
            layout = self.layout
            return Frame(layout.kernel, Mode.BACKWARD, kind.described, _BACKWARD_FLAGS, layout.policy, layout.device.handle,
                         self._order, kind.wanted_places, kind.read_places)

    def _widen(self, upstreams: Upstreams) -> Upstreams:
        return [upstream.float() if upstream is not None and i in self._widened else upstream
                for i, upstream in enumerate(upstreams)]

    def new_outputs(self, like: torch.Tensor) -> Tuple[torch.Tensor, ...]:
        """Tensors for the out parameters."""
        places = self.layout.places
        return tuple([like.new_empty(places[at].shape, dtype=places[at].torch_dtype) for at in self.layout.made])


class NativeBridge(Bridge):
    """Kernels work on torch's own memory, in order of torch's current stream."""

    def __init__(self, layout: Layout):
        super().__init__(layout)
        self._current = current_stream_of(layout.torch_device)
        self._streams: Dict[int, Tuple[Stream, C.c_void_p]] = {}

    def _launch(self, frame: Frame, scalars: Sequence[Any]) -> None:
        for place, value in zip(frame.scalars, scalars):
            place[0] = value
        stream = None
        if self._current is not None:
            number = self._current()
            found = self._streams.get(number)
            if found is None:
                wrapped = self.layout.device.wrap_stream(number)
                found = self._streams[number] = (wrapped, C.c_void_p(wrapped.handle))
            stream = found[1]
        if launch(*frame.arguments, stream):
            raise last_error()

    def forward(self, tensors: Tensors, scalars: Sequence[Any]) -> None:
        """Fills the outputs. Returns what backward is handed besides tensors: nothing."""
        frame = self._forward_frame()
        words = frame.words
        for at, tensor in zip(frame.data, tensors):
            words[at] = tensor.data_ptr()
        self._launch(frame, scalars)
        self._frames.append(frame)

    def backward(self, tensors: Tensors, upstreams: Upstreams, needs: Tuple[bool, ...], scalars: Sequence[Any],
                 kept: None) -> Gradients:
        """A fresh gradient for each input that needs one. tensors: those of forward, without outputs that were not kept."""
        if self._widened:
            upstreams = self._widen(upstreams)
        kind, frames = self._kind(needs, tuple([None if upstream is None else upstream.stride() for upstream in upstreams]))
        frame = self._backward_frame(kind, frames)
        words = frame.words
        if len(tensors) < len(self._order):
            tensors = (*tensors, *self._stand_ins(tensors[0], upstreams))
        for at, tensor in zip(frame.data, tensors):
            words[at] = tensor.data_ptr()
        gradients: Gradients = [None] * len(needs)
        for at, wanted in zip(frame.add, kind.wanted):
            gradient = gradients[wanted.input] = tensors[0].new_empty(wanted.shape, dtype=wanted.dtype)
            words[at] = gradient.data_ptr() or _EMPTY
        for at, output in zip(frame.read, kind.read):
            words[at] = upstreams[output].data_ptr()  # type: ignore[union-attr]
        self._launch(frame, scalars)
        frames.append(frame)
        return gradients

    def _stand_ins(self, like: torch.Tensor, upstreams: Upstreams) -> List[torch.Tensor]:
        """Memory for outputs whose values backward does not read, so that their addresses are good ones."""
        result = []
        for at in self.layout.made:
            upstream = upstreams[self.layout.returned.index(at)]
            place = self.layout.places[at]
            result.append(upstream if upstream is not None and upstream.is_contiguous()
                          else like.new_empty(place.shape, dtype=place.torch_dtype))
        return result


class StagedBridge(Bridge):
    """Kernels work on copies, which go through the host."""

    dense = True

    def _upload(self, tensor: torch.Tensor) -> Buffer:
        host = tensor.detach().cpu().contiguous()
        size_bytes = host.numel() * host.element_size()
        buffer = self.layout.device.buffer(size_bytes)
        lib.ddisp_buffer_write(buffer.handle, 0, host.data_ptr(), size_bytes, None)
        return buffer

    def _download(self, buffer: Buffer, tensor: torch.Tensor) -> None:
        direct = tensor.device.type == "cpu" and tensor.is_contiguous()
        host = tensor if direct else torch.empty(tensor.shape, dtype=tensor.dtype)
        lib.ddisp_buffer_read(buffer.handle, 0, host.data_ptr(), host.numel() * host.element_size(), None)
        if not direct:
            tensor.copy_(host)

    def _space(self, tensor: torch.Tensor) -> Buffer:
        return self.layout.device.buffer(tensor.numel() * tensor.element_size())

    def _launch(self, frame: Frame, scalars: Sequence[Any]) -> None:
        for place, value in zip(frame.scalars, scalars):
            place[0] = value
        if launch(*frame.arguments, None):
            raise last_error()

    def forward(self, tensors: Tensors, scalars: Sequence[Any]) -> List[Buffer]:
        """Fills the outputs. Returns the copies, which backward is handed."""
        layout = self.layout
        count = len(layout.inputs)
        buffers = [self._upload(tensor) if i < count else self._space(tensor) for i, tensor in enumerate(tensors)]
        frame = self._forward_frame()
        for at, buffer in zip(frame.data, buffers):
            frame.words[at] = buffer.address
        self._launch(frame, scalars)
        self._frames.append(frame)
        for at, buffer, tensor in zip(self._order, buffers, tensors):
            if layout.places[at].is_output:
                self._download(buffer, tensor)
        return buffers

    def backward(self, tensors: Tensors, upstreams: Upstreams, needs: Tuple[bool, ...], scalars: Sequence[Any],
                 kept: List[Buffer]) -> Gradients:
        """A fresh gradient for each input that needs one."""
        upstreams = self._widen(upstreams)
        kind, frames = self._kind(needs, tuple([None if upstream is None else () for upstream in upstreams]))
        frame = self._backward_frame(kind, frames)
        for at, buffer in zip(frame.data, kept):
            frame.words[at] = buffer.address
        gradients: Gradients = [None] * len(needs)
        spaces = []
        for at, wanted in zip(frame.add, kind.wanted):
            gradient = gradients[wanted.input] = tensors[0].new_empty(wanted.shape, dtype=wanted.dtype)
            spaces.append((self._space(gradient), gradient))
            frame.words[at] = spaces[-1][0].address or _EMPTY
        read = [self._upload(upstreams[output]) for output in kind.read]  # type: ignore[arg-type]
        for at, buffer in zip(frame.read, read):
            frame.words[at] = buffer.address
        self._launch(frame, scalars)
        frames.append(frame)
        for buffer, gradient in spaces:
            self._download(buffer, gradient)
        return gradients
