"""Kernels: declared differentiable functions, and the codes that implement them."""
from __future__ import annotations

import ctypes as C
import dataclasses
import os
import pathlib
from typing import Any, Callable, List, Optional, Sequence, Union

from . import _abi, _library
from ._abi import Access, DType, Mode, ParamKind, Source, Space, WriteMode
from ._library import Handle, described, lib, new, raw
from .context import Context
from .tensor import dtype_of

# Host functions written in Python. A launch may still be running when its kernel's object is collected, so they stay.
_python_functions: List[Any] = []


@dataclasses.dataclass
class Param:
    """A parameter of a kernel."""

    name: str
    access: Access = Access.IN
    dtype: Any = DType.ANY
    """A dtype or its name; ANY: any (tensors only)."""
    rank: Optional[int] = None
    """None: any."""
    differentiable: bool = False
    items: bool = False
    """Without explicit items, this parameter's element count is the number of work items."""
    scalar: bool = False

    def __post_init__(self) -> None:
        self.dtype = dtype_of(self.dtype) if self.dtype != DType.ANY else DType.ANY


def scalar(name: str, dtype: Any = DType.F32) -> Param:
    """A parameter that is one number."""
    return Param(name, Access.IN, dtype, 0, scalar=True)


@dataclasses.dataclass
class Native:
    """One argument of an existing kernel, and where it is filled from."""

    source: Source
    param: int = 0
    index: int = 0
    space: Space = Space.DEFAULT
    set: int = 0
    location: Optional[int] = None
    """Binding, byte offset or position; None: in list order."""
    size_bytes: int = 0


@dataclasses.dataclass
class Entry:
    """One entry point of a code."""

    mode: Mode
    name: str = ""
    """Symbol in the code; "{mask}" stands for the gradient mask in decimal."""
    function: Any = None
    """host-function: its address, a ctypes function, or a Python function of (block, begin, end)."""
    function_id: int = 0
    """host-function: identity of the function, stable over runs."""
    group_size: Sequence[int] = (0, 0, 0)
    mask: Optional[int] = None
    """The entry serves exactly this gradient mask."""
    loops: bool = False
    """The entry loops over the items by itself."""
    native: Optional[Sequence[Native]] = None
    """Arguments of an existing kernel; None: the standard argument block."""
    shared_bytes: int = 0


@dataclasses.dataclass
class CodeParam:
    """What a code does with one parameter, where it differs from the defaults."""

    param: int
    write_mode: WriteMode = WriteMode.ATOMIC_ADD
    grad_dtype: Any = DType.ANY
    layouts: int = 0
    grad_layouts: int = 0
    alignment: int = 0
    switch_id: int = 0


@dataclasses.dataclass
class Code:
    """Machine code or source for one backend."""

    backend: str
    format: str
    bytes: Union[bytes, bytearray, str, None] = None
    """The code; text as str. host-library: the path of a shared object. host-function: None."""
    entries: Sequence[Entry] = ()
    params: Sequence[CodeParam] = ()
    null_safe: bool = False
    """The code tests each gradient address before it touches it."""
    any_layout: bool = False
    pre_reduces: bool = False
    deterministic: bool = False
    """The code adds through add_grad of the device headers, which serves deterministic mode."""
    options: Optional[str] = None
    headers: Optional[dict[str, bytes]] = None
    """What source formats include, by the name in the source."""


def _param_of(param: _abi.ddisp_param) -> Param:
    return Param(param.name.decode(), Access(param.access), DType(param.dtype),
                 None if param.rank == _abi.RANK_ANY else param.rank, bool(param.flags & _abi.PARAM_DIFFERENTIABLE),
                 bool(param.flags & _abi.PARAM_ITEMS), param.kind == ParamKind.SCALAR)


def device_headers(include: Optional[str] = None) -> dict[str, bytes]:
    """The headers that cuda-c++ code includes, for Code(headers=...).

    include  folder that has diffdispatch/; None: of the tree that this package lies in, or of the library's installation
    """
    library = pathlib.Path(_library.library._name)
    places = [pathlib.Path(include)] if include else [
        pathlib.Path(__file__).resolve().parents[3] / "include", *[folder / "include" for folder in library.parents],
        pathlib.Path("/usr/local/include"), pathlib.Path("/usr/include")]
    for place in places:
        folder = place / "diffdispatch" / "device"
        if (folder / "ddisp.cuh").is_file():
            return {"diffdispatch/device/ddisp.cuh": (folder / "ddisp.cuh").read_bytes(),
                    "ddisp_add.cuh": (folder / "ddisp_add.cuh").read_bytes(), "ddisp_block.h": (folder / "ddisp_block.h").read_bytes()}
    raise FileNotFoundError("diffdispatch/device/ddisp.cuh is in none of: " + ", ".join(map(str, places)))


class _Builder:
    """C structs for a description; everything they point to is kept as long as the builder."""

    def __init__(self) -> None:
        self.kept: List[Any] = []

    def array(self, struct: Any, items: Sequence[Any]) -> Any:
        result = (struct * len(items))(*items)
        self.kept.append(result)
        return result

    def param(self, param: Param) -> _abi.ddisp_param:
        flags = (_abi.PARAM_DIFFERENTIABLE if param.differentiable else 0) | (_abi.PARAM_ITEMS if param.items else 0)
        return _abi.ddisp_param(
            name=param.name.encode(), kind=ParamKind.SCALAR if param.scalar else ParamKind.TENSOR, access=param.access,
            dtype=param.dtype, rank=_abi.RANK_ANY if param.rank is None else param.rank, flags=flags)

    def native(self, native: Native) -> _abi.ddisp_native_arg:
        placed = native.location is not None
        return _abi.ddisp_native_arg(
            source=native.source, param=native.param, index=native.index, space=native.space, set=native.set,
            location=native.location if placed else 0, size_bytes=native.size_bytes,
            flags=_abi.NATIVE_LOCATION if placed else 0)

    def function(self, function: Union[None, int, Callable[..., Any], Any]) -> Any:
        if function is None:
            return _abi.ddisp_host_function()
        if isinstance(function, int):
            return _abi.ddisp_host_function(function)
        if isinstance(function, (C._CFuncPtr, C._Pointer)):
            return C.cast(function, _abi.ddisp_host_function)
        callback = _abi.ddisp_host_function(function)
        _python_functions.append(callback)
        return callback

    def entry(self, entry: Entry) -> _abi.ddisp_entry:
        result = _abi.ddisp_entry(
            mode=entry.mode, group_size=tuple(entry.group_size), name=entry.name.encode(), function=self.function(entry.function),
            function_id=entry.function_id, mask=entry.mask or 0, shared_bytes=entry.shared_bytes,
            flags=(_abi.ENTRY_MASKED if entry.mask is not None else 0) | (_abi.ENTRY_LOOPS if entry.loops else 0))
        if entry.native is not None:
            result.native = self.array(_abi.ddisp_native_arg, [self.native(native) for native in entry.native])
            result.native_count = len(entry.native)
        return result

    def code_param(self, param: CodeParam) -> _abi.ddisp_code_param:
        return _abi.ddisp_code_param(
            param=param.param, write_mode=param.write_mode, layouts=param.layouts, grad_layouts=param.grad_layouts,
            grad_dtype=DType.ANY if param.grad_dtype == DType.ANY else dtype_of(param.grad_dtype), alignment=param.alignment,
            switch_id=param.switch_id)

    def code(self, code: Code) -> _abi.ddisp_code:
        result = _abi.ddisp_code(
            backend=code.backend.encode(), format=code.format.encode(),
            options=None if code.options is None else code.options.encode(),
            flags=(_abi.CODE_NULL_SAFE if code.null_safe else 0) | (_abi.CODE_ANY_LAYOUT if code.any_layout else 0)
            | (_abi.CODE_PRE_REDUCES if code.pre_reduces else 0) | (_abi.CODE_DETERMINISTIC if code.deterministic else 0))
        if code.bytes is not None:
            content = code.bytes.encode() if isinstance(code.bytes, str) else bytes(code.bytes)
            if code.format == "host-library":
                content = os.path.abspath(content).rstrip(b"\0") + b"\0"
            self.kept.append(content)
            result.bytes, result.size_bytes = C.cast(C.c_char_p(content), C.c_void_p), len(content)
        result.entries = self.array(_abi.ddisp_entry, [self.entry(entry) for entry in code.entries])
        result.entry_count, result.entry_size = len(code.entries), C.sizeof(_abi.ddisp_entry)
        if code.params:
            result.params = self.array(_abi.ddisp_code_param, [self.code_param(param) for param in code.params])
            result.param_count, result.param_size = len(code.params), C.sizeof(_abi.ddisp_code_param)
        if code.headers:
            headers = [_abi.ddisp_header(name=name.encode(), bytes=C.cast(C.c_char_p(content), C.c_void_p), size_bytes=len(content))
                       for name, content in code.headers.items()]
            self.kept.append(code.headers)
            result.headers = self.array(_abi.ddisp_header, headers)
            result.header_count, result.header_size = len(headers), C.sizeof(_abi.ddisp_header)
        return result


class Kernel(Handle):
    """A declared differentiable function with one or more codes. Called forward and backward with tensors."""

    __slots__ = ("context", "name", "params", "_function")
    _release = staticmethod(raw.ddisp_kernel_release)

    def __init__(self, context: Context, name: str, params: Sequence[Param], codes: Sequence[Code], variant_budget: int = 0):
        """
        codes           in order of preference
        variant_budget  most compiled variants per mode and device; 0: the library's
        """
        builder = _Builder()
        desc = _abi.ddisp_kernel_desc(size=C.sizeof(_abi.ddisp_kernel_desc), variant_budget=variant_budget, name=name.encode())
        desc.params = builder.array(_abi.ddisp_param, [builder.param(param) for param in params])
        desc.param_count, desc.param_size = len(params), C.sizeof(_abi.ddisp_param)
        desc.codes = builder.array(_abi.ddisp_code, [builder.code(code) for code in codes])
        desc.code_count, desc.code_size = len(codes), C.sizeof(_abi.ddisp_code)
        super().__init__(new(lib.ddisp_kernel_create, context._handle, C.byref(desc)))
        self.context = context
        self.name = name
        self.params = list(params)

    @classmethod
    def from_desc(cls, context: Context, desc: _abi.ddisp_kernel_desc) -> Kernel:
        """A kernel that compiled code describes, such as one from a library of kernels loaded with ctypes."""
        kernel = cls.__new__(cls)
        Handle.__init__(kernel, new(lib.ddisp_kernel_create, context._handle, C.byref(desc)))
        kernel.context = context
        kernel.name = desc.name.decode()
        kernel.params = [_param_of(desc.params[index]) for index in range(desc.param_count)]
        return kernel

    def __repr__(self) -> str:
        return f"<kernel {self.name}({', '.join(param.name for param in self.params)})>"

    def __call__(self, *tensors: Any, **outputs: Any) -> Any:
        """The kernel as a function of torch tensors, with gradients: diffdispatch.torch.Function(kernel)(...)."""
        try:
            function = self._function
        except AttributeError:
            from .torch import Function
            function = self._function = Function(self)
        return function(*tensors, **outputs)

    @property
    def statistics(self) -> dict[str, int]:
        """Counters of the kernel."""
        found = described(lib.ddisp_kernel_get_statistics, _abi.ddisp_kernel_statistics, self._handle)
        return {name: getattr(found, name) for name, _ in found._fields_ if name not in ("size", "reserved")}

    def forward(self, *arguments: Any, **options: Any) -> None:
        """Computes outputs from inputs: one argument per parameter, in order. Options are those of launch()."""
        from .launch import launch
        launch(self, Mode.FORWARD, arguments, **options)

    def backward(self, *arguments: Any, **options: Any) -> None:
        """Takes the gradients of outputs and adds to those of inputs that require one. Options are those of launch()."""
        from .launch import launch
        launch(self, Mode.BACKWARD, arguments, **options)

    def plan(self, mode: Mode, *arguments: Any, **options: Any) -> Any:
        """A launch of these arguments, prepared for others of the same signature; see Plan."""
        from .launch import Plan
        return Plan(self, mode, arguments, **options)
