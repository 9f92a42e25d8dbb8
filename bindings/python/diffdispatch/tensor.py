"""Tensors on a device, the state of their gradients, and their content as Python and NumPy see it."""
from __future__ import annotations

import ctypes as C
import struct
from typing import Any, List, Optional, Sequence, Tuple, Union

from . import _abi
from ._abi import DType, GradState, Status
from ._capsule import offered, sweep
from ._library import Error, Handle, described, lib, new, raw
from .context import Device, Stream, bytes_of, handle_of

# dtype: its name, its letter in struct and memoryview ("": none), its name in NumPy
_TYPES = {
    DType.BOOL: ("bool", "?", "bool"), DType.U8: ("u8", "B", "uint8"), DType.I8: ("i8", "b", "int8"),
    DType.U16: ("u16", "H", "uint16"), DType.I16: ("i16", "h", "int16"), DType.U32: ("u32", "I", "uint32"),
    DType.I32: ("i32", "i", "int32"), DType.U64: ("u64", "Q", "uint64"), DType.I64: ("i64", "q", "int64"),
    DType.F16: ("f16", "e", "float16"), DType.BF16: ("bf16", "", "bfloat16"), DType.F32: ("f32", "f", "float32"),
    DType.F64: ("f64", "d", "float64"),
}
_NAMES = {name: dtype for dtype, names in _TYPES.items() for name in (names[0], names[2])}
_SIZES = {dtype: raw.ddisp_dtype_size(dtype) for dtype in _TYPES}
_LETTERS = {"l": DType.I64, "L": DType.U64, **{names[1]: dtype for dtype, names in _TYPES.items() if names[1]}}


def dtype_of(value: Any) -> DType:
    """A dtype from itself, its name ("f32", "float32") or something named so, such as a NumPy or torch dtype."""
    if isinstance(value, DType):
        return value
    name = value if isinstance(value, str) else getattr(value, "name", None) or getattr(value, "__name__", None) or str(value)
    found = _NAMES.get(name.rpartition(".")[2])
    if found is None:
        raise TypeError(f"{value!r} is no dtype of diffdispatch; there are {', '.join(names[0] for names in _TYPES.values())}")
    return found


def shape_of(shape: Union[int, Sequence[int]]) -> Tuple[int, ...]:
    """A shape from one extent or several."""
    return (shape,) if isinstance(shape, int) else tuple(int(extent) for extent in shape)


def int64s(values: Optional[Sequence[int]]) -> Any:
    """An array for the library; None for None."""
    return None if values is None else (C.c_int64 * len(values))(*values)


class Tensor(Handle):
    """dtype, shape and strides over device memory, one bit (requires_grad), and a gradient."""

    __slots__ = ("device", "dtype", "shape", "strides")
    _release = staticmethod(raw.ddisp_tensor_release)

    def __init__(self, handle: Any, device: Device):
        super().__init__(handle)
        info = self._info()
        self.device = device
        self.dtype = DType(info.dtype)
        self.shape: Tuple[int, ...] = tuple(info.shape[:info.rank])
        self.strides: Tuple[int, ...] = tuple(info.strides[:info.rank])
        """In elements."""

    def close(self) -> None:
        super().close()
        if offered:
            sweep()

    def _info(self) -> _abi.ddisp_tensor_info:
        return described(lib.ddisp_tensor_get_info, _abi.ddisp_tensor_info, self._handle)

    def __repr__(self) -> str:
        extents = ",".join(map(str, self.shape))
        return f"<tensor {_TYPES[self.dtype][0]}[{extents}] on {self.device.spec}{', requires grad' if self.requires_grad else ''}>"

    @property
    def numel(self) -> int:
        """Number of elements."""
        return self._info().numel

    @property
    def address(self) -> int:
        """Device address of element (0, ..., 0)."""
        return self._info().address

    @property
    def read_only(self) -> bool:
        """Whether the tensor is refused where it would be written."""
        return bool(self._info().flags & _abi.TENSOR_READ_ONLY)

    @property
    def requires_grad(self) -> bool:
        """Whether backward launches make a gradient for this tensor."""
        return bool(self._info().flags & _abi.TENSOR_REQUIRES_GRAD)

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        lib.ddisp_tensor_set_requires_grad(self._handle, int(value))

    @property
    def grad_state(self) -> GradState:
        """NONE, EMPTY (logically zero) or PRESENT."""
        return GradState(self._info().grad_state)

    @property
    def grad(self) -> Optional[Tensor]:
        """The gradient as a tensor, zeros when it is empty; None for a tensor that does not require one."""
        handle = C.c_void_p()
        status = raw.ddisp_tensor_grad(self._handle, C.byref(handle))
        if status == Status.NO_GRADIENT:
            return None
        if status:
            lib.ddisp_tensor_grad(self._handle, C.byref(handle))
        return Tensor(handle, self.device)

    @grad.setter
    def grad(self, value: Optional[Tensor]) -> None:
        lib.ddisp_tensor_set_grad(self._handle, handle_of(value))

    def clear_grad(self) -> None:
        """Makes the gradient empty."""
        lib.ddisp_tensor_clear_grad(self._handle)

    def detach(self) -> Tensor:
        """The same memory without a gradient."""
        return Tensor(new(lib.ddisp_tensor_detach, self._handle), self.device)

    def as_strided(self, shape: Sequence[int], strides: Sequence[int], offset: int = 0) -> Tensor:
        """A view, offset and strides in elements of the buffer; it shares the gradient."""
        shape = shape_of(shape)
        return Tensor(new(lib.ddisp_tensor_as_strided, self._handle, len(shape), int64s(shape), int64s(strides), offset),
                      self.device)

    # ---- content

    def write(self, data: Any, stream: Optional[Stream] = None) -> None:
        """Replaces the elements by those of a contiguous buffer of the same dtype, in row-major order."""
        with bytes_of(data) as (address, size_bytes):
            lib.ddisp_tensor_write(self._handle, address, size_bytes, handle_of(stream))

    def read(self, stream: Optional[Stream] = None) -> bytearray:
        """The elements as bytes, dense in row-major order."""
        result = bytearray(self.numel * _SIZES[self.dtype])
        address = C.addressof((C.c_char * len(result)).from_buffer(result)) if result else None
        lib.ddisp_tensor_read(self._handle, address, len(result), handle_of(stream))
        return result

    def fill(self, value: float, stream: Optional[Stream] = None) -> Tensor:
        """Stores one value into every element."""
        lib.ddisp_tensor_fill(self._handle, value, handle_of(stream))
        return self

    def copy_from(self, source: Tensor, stream: Optional[Stream] = None) -> None:
        """Copies the elements of a tensor that has this shape or broadcasts to it."""
        lib.ddisp_tensor_copy(self._handle, source._handle, handle_of(stream))

    def accumulate(self, source: Tensor, alpha: float = 1, deterministic: bool = False, stream: Optional[Stream] = None,
                   exclusive: bool = False) -> None:
        """self += alpha * source, broadcasting either way: what self has one of is summed. exclusive: nobody else adds to self meanwhile."""
        options = _options((_abi.ACCUMULATE_DETERMINISTIC if deterministic else 0) | (_abi.ACCUMULATE_EXCLUSIVE if exclusive else 0))
        lib.ddisp_tensor_accumulate(self._handle, source._handle, alpha, C.byref(options), handle_of(stream))

    def scatter_add(self, axis: int, index: Tensor, source: Tensor, deterministic: bool = False, checked: bool = False,
                    stream: Optional[Stream] = None) -> None:
        """self[..., index[i], ...] += source[..., i, ...]; indices out of range are skipped, or with checked an error."""
        options = _options((_abi.ACCUMULATE_DETERMINISTIC if deterministic else 0) | (_abi.ACCUMULATE_CHECKED if checked else 0))
        lib.ddisp_tensor_scatter_add(self._handle, axis, index._handle, source._handle, C.byref(options), handle_of(stream))

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers; a number for a tensor without axes."""
        content = self.read()
        if self.dtype == DType.BF16:
            flat = [struct.unpack("<f", b"\0\0" + bytes(content[i:i + 2]))[0] for i in range(0, len(content), 2)]
        else:
            flat = memoryview(content).cast(_TYPES[self.dtype][1]).tolist() if self.dtype != DType.F16 else [
                value for value, in struct.iter_unpack("<e", content)]
        return _nested(flat, self.shape)

    def item(self) -> Any:
        """The only element."""
        if self.numel != 1:
            raise ValueError(f"item() of a tensor of {self.numel} elements")
        value = self.tolist()
        while isinstance(value, list):
            value = value[0]
        return value

    def numpy(self) -> Any:
        """A NumPy array with a copy of the elements (bf16 as float32)."""
        import numpy
        if self.dtype == DType.BF16:
            wide = numpy.frombuffer(self.read(), dtype="<u2").astype("<u4") << 16
            return wide.view("<f4").reshape(self.shape)
        return numpy.frombuffer(self.read(), dtype=_TYPES[self.dtype][2]).reshape(self.shape)

    # ---- DLPack

    def __dlpack__(self, *, stream: Optional[int] = None, max_version: Optional[Tuple[int, int]] = None,
                   dl_device: Optional[Tuple[int, int]] = None, copy: Optional[bool] = None) -> Any:
        from .dlpack import export
        return export(self, stream, max_version, dl_device, copy)

    def __dlpack_device__(self) -> Tuple[int, int]:
        return self.device.info.dlpack_device_type, self.device.info.dlpack_device_id


def _options(flags: int) -> _abi.ddisp_accumulate_options:
    return _abi.ddisp_accumulate_options(size=C.sizeof(_abi.ddisp_accumulate_options), flags=flags)


def _nested(flat: List[Any], shape: Tuple[int, ...]) -> Any:
    if not shape:
        return flat[0]
    if len(shape) == 1:
        return list(flat)
    step = len(flat) // shape[0] if shape[0] else 0
    return [_nested(flat[i * step:(i + 1) * step], shape[1:]) for i in range(shape[0])]


def _flags(requires_grad: bool) -> int:
    return _abi.TENSOR_REQUIRES_GRAD if requires_grad else 0


def empty(device: Device, shape: Union[int, Sequence[int]], dtype: Any, requires_grad: bool) -> Tensor:
    """See Device.empty."""
    shape = shape_of(shape)
    return Tensor(new(lib.ddisp_tensor_create, device._handle, dtype_of(dtype), len(shape), int64s(shape),
                      _flags(requires_grad)), device)


def _flatten(data: Any) -> Tuple[List[Any], Tuple[int, ...]]:
    """Nested sequences as a flat list and a shape."""
    if not isinstance(data, (list, tuple)):
        return [data], ()
    parts = [_flatten(item) for item in data]
    shapes = {shape for _, shape in parts}
    if len(shapes) > 1:
        raise ValueError(f"nested lists of different lengths: {sorted(shapes)}")
    return [value for flat, _ in parts for value in flat], (len(data),) + (shapes.pop() if shapes else ())


def _bytes_of_numbers(flat: List[Any], dtype: DType) -> bytes:
    if dtype == DType.BF16:
        words = [struct.unpack("<I", struct.pack("<f", value))[0] for value in flat]
        return b"".join(struct.pack("<H", (word + 0x7fff + (word >> 16 & 1)) >> 16 & 0xffff) for word in words)
    return struct.pack(f"<{len(flat)}{_TYPES[dtype][1]}", *flat)


def copy_of(device: Device, data: Any, dtype: Any, requires_grad: bool) -> Tensor:
    """See Device.tensor."""
    wanted = None if dtype is None else dtype_of(dtype)
    if isinstance(data, (bool, int, float, list, tuple)):
        flat, shape = _flatten(data)
        if wanted is None:
            wanted = DType.F32
        content: Any = _bytes_of_numbers(flat, wanted)
    else:
        found, shape, content = _read(data)
        if wanted not in (None, found):
            raise TypeError(f"data is {_TYPES[found][0]}, dtype asks for {_TYPES[wanted][0]}; convert it first")
        wanted = found
    tensor = empty(device, shape, wanted, requires_grad)
    tensor.write(content)
    return tensor


def _read(data: Any) -> Tuple[DType, Tuple[int, ...], Any]:
    """dtype, shape and contiguous bytes of a buffer, or of a tensor in host memory that speaks DLPack."""
    try:
        view = memoryview(data)
    except TypeError:
        if not hasattr(data, "__dlpack__"):
            raise TypeError(f"cannot make a tensor of a {type(data).__name__}: numbers, nested lists, buffers and what speaks "
                            "DLPack in host memory are taken") from None
        from .dlpack import from_dlpack
        taken = from_dlpack(data, requires_grad=False)
        return taken.dtype, taken.shape, taken.read()
    letter = view.format.lstrip("@=<")
    if letter not in _LETTERS:
        raise TypeError(f"elements of format {view.format!r} are not taken")
    return _LETTERS[letter], tuple(view.shape), data if view.c_contiguous else view.tobytes()

