"""DLPack for Python: capsules that carry tensors between libraries without a copy.

Streams and requires_grad are not in it and are passed beside it.
"""
from __future__ import annotations

from typing import Any, Optional, Tuple

from . import _abi, _capsule
from ._abi import Status
from ._library import Error, lib, new
from .context import Context, Device, Stream, default_context
from .tensor import Tensor

_CPU, _CUDA = 1, 2
_PINNED = (3, 11)  # host memory too

def _consumer_stream(tensor: Tensor, stream: Optional[int]) -> Optional[Stream]:
    """What the array API says a consumer's stream number means: None the legacy default stream, -1 no ordering."""
    if tensor.device.info.dlpack_device_type != _CUDA:
        if stream is not None and stream != -1:
            raise BufferError(f"{tensor!r}: stream must be None")
        return None
    if stream == 0:
        raise BufferError("stream 0 is ambiguous: 1 is CUDA's legacy default stream, 2 the per-thread default stream")
    return tensor.device.wrap_stream(0 if stream in (None, 1) else stream)


def export(tensor: Tensor, stream: Optional[int], max_version: Optional[Tuple[int, int]],
           dl_device: Optional[Tuple[int, int]], copy: Optional[bool]) -> Any:
    """A capsule with the tensor; see Tensor.__dlpack__."""
    _capsule.sweep()
    if copy:
        raise BufferError("a copy is not made here; copy first")
    if dl_device is not None and tuple(dl_device) != tensor.__dlpack_device__():
        raise BufferError(f"{tensor!r} is on DLPack device {tensor.__dlpack_device__()}, not on {tuple(dl_device)}")
    if tensor.requires_grad:
        raise BufferError(f"{tensor!r} requires a gradient, which DLPack does not carry; export tensor.detach()")
    consumer = None if stream == -1 else _consumer_stream(tensor, stream)
    versioned = max_version is not None and max_version[0] >= 1
    function = lib.ddisp_tensor_to_dlpack_versioned if versioned else lib.ddisp_tensor_to_dlpack
    try:
        managed = new(function, tensor._handle, None if consumer is None else consumer._handle)
    except Error as error:
        raise BufferError(str(error)) from error
    return _capsule.offer(managed, versioned)


def _device_for(context: Context, kind: int, number: int) -> Device:
    """The device whose memory this is."""
    kind, number = (_CPU, 0) if kind in _PINNED else (kind, number)
    for info in context.devices:
        if info.dlpack_device_type == kind and info.dlpack_device_id == number:
            return context.open(info.spec)
    raise Error(Status.NOT_FOUND, f"no device here uses memory of DLPack device type {kind}, number {number}: there are "
                f"{', '.join(info.spec for info in context.devices) or 'no devices'}")


def _capsule_of(source: Any, stream: Optional[int]) -> Any:
    arguments = {} if stream is None else {"stream": stream}
    try:
        return source.__dlpack__(max_version=(1, 1), **arguments)
    except TypeError:  # of before DLPack 1.0
        return source.__dlpack__(**arguments)


def from_dlpack(source: Any, device: Optional[Device] = None, requires_grad: Optional[bool] = None, read_only: bool = False,
                write_copy: bool = False, stream: Optional[int] = None) -> Tensor:
    """Takes a tensor from another library without a copy.

    source         something with __dlpack__ and __dlpack_device__
    device         whose memory it is; None: found in the default context
    requires_grad  of the new tensor; None: as source says, which is detached
    read_only      the new tensor is never written
    write_copy     what the producer flags as a copy may be written
    stream         on CUDA, number of the stream on which the elements will be used first; None: the legacy default stream
    """
    wants_grad = bool(getattr(source, "requires_grad", False)) if requires_grad is None else requires_grad
    if getattr(source, "requires_grad", False) and hasattr(source, "detach"):
        source = source.detach()
    kind, number = (int(part) for part in source.__dlpack_device__())
    if device is None:
        device = _device_for(default_context(), kind, number)
    ordered = None
    if kind == _CUDA:
        stream = 1 if stream is None else stream
        ordered = device.wrap_stream(0 if stream == 1 else stream)
    capsule = _capsule_of(source, stream if kind == _CUDA else None)
    found = _capsule.look(capsule)
    if found is None:
        raise BufferError("__dlpack__ gave no capsule that holds a tensor: it was taken before")
    name, managed = found
    flags = ((_abi.TENSOR_REQUIRES_GRAD if wants_grad else 0) | (_abi.TENSOR_READ_ONLY if read_only else 0)
             | (_abi.DLPACK_WRITE_COPY if write_copy else 0))
    function = lib.ddisp_tensor_from_dlpack_versioned if name == _capsule.VERSIONED else lib.ddisp_tensor_from_dlpack
    handle = new(function, device._handle, managed, flags, None if ordered is None else ordered._handle)
    _capsule.took(capsule, name)
    return Tensor(handle, device)
