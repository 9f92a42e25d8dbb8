"""Frames: the arguments of one launch, laid out in C's form once and launched many times with other addresses.

In comes what stays the same for all launches of a kind (shapes, strides, dtypes, flags); out comes a block of memory with every struct
that ddisp_launch reads, in which a launch changes only addresses and numbers. A frame serves one launch at a time; whoever launches
takes one out of a pool, so any number of threads may.
"""
from __future__ import annotations

import ctypes as C
import dataclasses
from typing import Any, Callable, List, Optional, Sequence

from .. import _abi
from .._abi import DType, Mode, Policy
from .._library import library
from ..kernel import Kernel, Param
from ..launch import Bounds, bounds_of, set_bounds

launch = library["ddisp_launch"]
"""The C function without argument types: it is handed C objects made beforehand."""
launch.restype = C.c_uint32

# Arguments in the form that ctypes hands over as it is; any other it converts anew for each call.
pointer: Callable[[int], Any] = C.c_void_p.from_param
_u32: Callable[[int], Any] = C.c_uint32.from_param

# Letters of memoryview by dtype of a scalar.
_LETTERS = {DType.BOOL: "?", DType.U8: "B", DType.I8: "b", DType.U16: "H", DType.I16: "h", DType.U32: "I", DType.I32: "i",
            DType.U64: "Q", DType.I64: "q", DType.F32: "f", DType.F64: "d"}
_SIZES = {"?": 1, "B": 1, "b": 1, "H": 2, "h": 2, "I": 4, "i": 4, "f": 4, "Q": 8, "q": 8, "d": 8}


@dataclasses.dataclass
class Described:
    """What a tensor argument is, but for its addresses."""

    dtype: int
    shape: Sequence[int]
    strides: Optional[Sequence[int]] = None
    requires_grad: bool = False
    grad_dtype: int = DType.ANY
    add_strides: Optional[Sequence[int]] = None
    read_strides: Optional[Sequence[int]] = None


class Frame:
    """The arguments of one launch."""

    def __init__(self, kernel: Kernel, mode: Mode, tensors: Sequence[Described], flags: int, policy: Policy, device: int, bounds: Bounds = None):
        count = len(kernel.params)
        arrays = [array for tensor in tensors
                  for array in (tensor.shape, tensor.strides, tensor.add_strides, tensor.read_strides) if array]
        sizes = [count * C.sizeof(_abi.ddisp_arg), len(tensors) * C.sizeof(_abi.ddisp_tensor_view),
                 C.sizeof(_abi.ddisp_launch_options), 8 * count, 8 * sum(map(len, arrays))]
        starts = [sum(sizes[:i]) for i in range(len(sizes))]
        self._memory = bytearray(sum(sizes))
        self._free = starts[4]
        self.words = memoryview(self._memory).cast("Q")
        """The frame's memory in units of 64 bits. The places of addresses in it, per tensor:"""
        self.data: List[int] = []
        self.add: List[int] = []
        self.read: List[int] = []
        self.numbers: List[Any] = []
        """Per scalar parameter an array of one number."""
        args = (_abi.ddisp_arg * count).from_buffer(self._memory, starts[0])
        views = (_abi.ddisp_tensor_view * len(tensors)).from_buffer(self._memory, starts[1])
        described = iter(enumerate(tensors))
        for index, param in enumerate(kernel.params):
            if param.scalar:
                self._scalar(args[index], param, starts[3] + 8 * index)
                continue
            at, tensor = next(described)
            self._view(views[at], tensor)
            args[index].view = C.pointer(views[at])
            arg = starts[0] + index * C.sizeof(_abi.ddisp_arg)
            self.data.append((starts[1] + at * C.sizeof(_abi.ddisp_tensor_view) + _abi.ddisp_tensor_view.address.offset) // 8)
            self.add.append((arg + _abi.ddisp_arg.grad_add.offset) // 8)
            self.read.append((arg + _abi.ddisp_arg.grad_read.offset) // 8)
        options = _abi.ddisp_launch_options.from_buffer(self._memory, starts[2])
        options.size, options.policy, options.flags, options.device = C.sizeof(options), policy, flags, device
        self._bounds = bounds_of(kernel, bounds)
        set_bounds(options, self._bounds)
        self.arguments = (pointer(kernel.handle), _u32(mode), pointer(C.addressof(args)), _u32(count), pointer(C.addressof(options)))
        """All arguments of ddisp_launch but the stream."""

    def _scalar(self, arg: _abi.ddisp_arg, param: Param, offset: int) -> None:
        letter = _LETTERS.get(DType(param.dtype))
        if letter is None:
            raise TypeError(f"parameter '{param.name}': numbers of dtype {DType(param.dtype).name} are not taken")
        arg.scalar, arg.scalar_size = C.addressof(C.c_char.from_buffer(self._memory, offset)), _SIZES[letter]
        self.numbers.append(memoryview(self._memory)[offset:offset + _SIZES[letter]].cast(letter))

    def _array(self, values: Optional[Sequence[int]]) -> Any:
        if not values:
            return None
        array = (C.c_int64 * len(values)).from_buffer(self._memory, self._free)
        array[:] = values
        self._free += C.sizeof(array)
        return C.cast(array, C.POINTER(C.c_int64))

    def _view(self, view: _abi.ddisp_tensor_view, tensor: Described) -> None:
        view.size, view.dtype, view.rank, view.grad_dtype = C.sizeof(view), tensor.dtype, len(tensor.shape), tensor.grad_dtype
        view.flags = _abi.VIEW_REQUIRES_GRAD if tensor.requires_grad else 0
        view.shape, view.strides = self._array(tensor.shape), self._array(tensor.strides)
        view.grad_add_strides, view.grad_read_strides = self._array(tensor.add_strides), self._array(tensor.read_strides)
