"""Launches, prepared launches, and the report of what a launch did."""
from __future__ import annotations

import ctypes as C
import dataclasses
from typing import Any, List, Mapping, Optional, Sequence, Tuple, Union

from . import _abi
from ._abi import Backing, DType, Mode, Policy, Skip, Status, VariantOrigin
from ._library import Handle, described, lib, new, raw, text_of
from .context import Context, Device, Stream, handle_of
from .kernel import Kernel
from .tensor import Tensor, dtype_of, int64s

_SCALARS = {DType.BOOL: C.c_uint8, DType.U8: C.c_uint8, DType.I8: C.c_int8, DType.U16: C.c_uint16, DType.I16: C.c_int16,
            DType.U32: C.c_uint32, DType.I32: C.c_int32, DType.U64: C.c_uint64, DType.I64: C.c_int64, DType.F32: C.c_float,
            DType.F64: C.c_double}


@dataclasses.dataclass
class View:
    """A tensor described in place: memory of somebody else, which stays theirs and must outlast the work."""

    address: int
    dtype: Any
    shape: Sequence[int]
    strides: Optional[Sequence[int]] = None
    """In elements; None: dense row-major."""
    requires_grad: bool = False
    read_only: bool = False
    grad_dtype: Any = DType.ANY
    grad_add_strides: Optional[Sequence[int]] = None
    grad_read_strides: Optional[Sequence[int]] = None


@dataclasses.dataclass
class Arg:
    """An argument with more than a value."""

    value: Any
    policy: Policy = Policy.DEFAULT
    grad_add: int = 0
    """Address of the gradient to add to; 0: the tensor's own."""
    grad_read: int = 0
    """Address of the upstream gradient; 0: the tensor's own."""


@dataclasses.dataclass
class Bound:
    """Deterministic mode: what is known of the values that a launch adds to a gradient."""

    bound: float
    """No value is larger in magnitude; 0: the launch finds it by running the kernel once before, and waits for that."""
    adds: int = 0
    """Most values added to one element; 0: as many as there are work items."""


Bounds = Union[None, float, Bound, Mapping[str, Union[float, Bound]]]
"""One for every input, or one by the name of an input. What is not declared is found."""


def scalar_of(value: Any, dtype: DType, name: str) -> Any:
    """A number as the C type of its dtype."""
    if dtype not in _SCALARS:
        raise TypeError(f"parameter '{name}': numbers of dtype {dtype.name} are not taken")
    kind = _SCALARS[dtype]
    if kind not in (C.c_float, C.c_double):
        wide = int(value)
        if wide != value or kind(wide).value != wide:
            raise ValueError(f"parameter '{name}': {value!r} is not a number of dtype {dtype.name}")
        return kind(wide)
    return kind(value)


class _Arguments:
    """ddisp_arg for each argument; what they point to is kept as long as this."""

    def __init__(self, kernel: Kernel, arguments: Sequence[Any]):
        if len(arguments) != len(kernel.params):
            raise TypeError(f"{kernel!r} takes {len(kernel.params)} arguments, {len(arguments)} were given")
        self.kept: List[Any] = []
        self.array = (_abi.ddisp_arg * len(arguments))(*map(self.one, kernel.params, arguments))

    def one(self, param: Any, argument: Any) -> _abi.ddisp_arg:
        result = _abi.ddisp_arg()
        if isinstance(argument, Arg):
            result.policy, result.grad_add, result.grad_read = argument.policy, argument.grad_add, argument.grad_read
            argument = argument.value
        if isinstance(argument, Tensor):
            result.tensor = argument._handle
        elif isinstance(argument, View):
            result.view = C.pointer(self.view(argument))
        elif param.scalar:
            value = scalar_of(argument, param.dtype, param.name)
            self.kept.append(value)
            result.scalar, result.scalar_size = C.addressof(value), C.sizeof(value)
        else:
            raise TypeError(f"parameter '{param.name}' is a tensor; a {type(argument).__name__} was given")
        return result

    def view(self, view: View) -> _abi.ddisp_tensor_view:
        arrays = [int64s(values) for values in (view.shape, view.strides, view.grad_add_strides, view.grad_read_strides)]
        self.kept.append(arrays)
        result = _abi.ddisp_tensor_view(
            size=C.sizeof(_abi.ddisp_tensor_view), dtype=dtype_of(view.dtype), rank=len(view.shape),
            grad_dtype=DType.ANY if view.grad_dtype == DType.ANY else dtype_of(view.grad_dtype), address=view.address,
            flags=(_abi.VIEW_REQUIRES_GRAD if view.requires_grad else 0) | (_abi.VIEW_READ_ONLY if view.read_only else 0))
        result.shape, result.strides, result.grad_add_strides, result.grad_read_strides = [
            None if array is None else C.cast(array, C.POINTER(C.c_int64)) for array in arrays]
        self.kept.append(result)
        return result


def _padded(values: Sequence[int]) -> Tuple[int, ...]:
    return tuple(values) + (0,) * (3 - len(values))


def bounds_of(kernel: Kernel, bounds: Bounds) -> Any:
    """ddisp_bound for each that was declared, as an array."""
    if bounds is None:
        bounds = {}
    names = [param.name for param in kernel.params]
    found = []
    for name, bound in bounds.items() if isinstance(bounds, Mapping) else [(None, bounds)]:
        if name is not None and name not in names:
            raise ValueError(f"{kernel.name}: bounds names '{name}'; parameters are {', '.join(names)}")
        bound = bound if isinstance(bound, Bound) else Bound(bound)
        found.append(_abi.ddisp_bound(param=_abi.BOUND_EVERY_PARAM if name is None else names.index(name), bound=bound.bound,
                                      adds=bound.adds))
    return (_abi.ddisp_bound * len(found))(*found)


def set_bounds(options: _abi.ddisp_launch_options, array: Any) -> None:
    """Points options to an array of bounds_of, which the caller keeps."""
    if len(array):
        options.bounds = C.cast(array, C.POINTER(_abi.ddisp_bound))
        options.bound_count, options.bound_size = len(array), C.sizeof(_abi.ddisp_bound)


class _Options:
    """ddisp_launch_options, and what they point to."""

    def __init__(self, kernel: Kernel, report: Optional[Report] = None, *, policy: Policy = Policy.DEFAULT, zero_upstream: bool = False,
                 keep_upstream: bool = False, overwrite: bool = False, no_alloc: bool = False, dry_run: bool = False,
                 deterministic: bool = False, bounds: Bounds = None, items: Sequence[int] = (), grid: Sequence[int] = (),
                 device: Optional[Device] = None):
        flags = 0
        for wanted, flag in ((zero_upstream, _abi.LAUNCH_ZERO_UPSTREAM), (keep_upstream, _abi.LAUNCH_KEEP_UPSTREAM),
                             (overwrite, _abi.LAUNCH_OVERWRITE), (no_alloc, _abi.LAUNCH_NO_ALLOC), (dry_run, _abi.LAUNCH_DRY_RUN),
                             (deterministic, _abi.LAUNCH_DETERMINISTIC)):
            flags |= flag if wanted else 0
        self.struct = _abi.ddisp_launch_options(
            size=C.sizeof(_abi.ddisp_launch_options), policy=policy, flags=flags, items=_padded(items), grid=_padded(grid),
            device=handle_of(device), report=handle_of(report))
        self.bounds = bounds_of(kernel, bounds)
        set_bounds(self.struct, self.bounds)


def launch(kernel: Kernel, mode: Mode, arguments: Sequence[Any], *, policy: Policy = Policy.DEFAULT, zero_upstream: bool = False,
           keep_upstream: bool = False, overwrite: bool = False, no_alloc: bool = False, dry_run: bool = False,
           deterministic: bool = False, bounds: Bounds = None, items: Sequence[int] = (), grid: Sequence[int] = (),
           device: Optional[Device] = None, report: Optional[Report] = None, stream: Optional[Stream] = None) -> None:
    """Launches a kernel.

    arguments      per parameter a Tensor, a View, a number, or an Arg around one
    policy         what backs the gradients of inputs that do not require one
    zero_upstream  an absent upstream gradient counts as zero
    keep_upstream  gradients of outputs stay in place
    overwrite      gradients of inputs are replaced instead of added to
    no_alloc       a missing gradient of an input is an error instead of being made
    dry_run        nothing is launched; the report is filled
    deterministic  gradients have the same bits in every run
    bounds         deterministic mode: Bounds, what is known of the values that are added to gradients. A launch that looks for a bound and
                   meets a value that is not finite raises Error with Status.BOUND_EXCEEDED; with a declared bound, the next wait for the
                   stream, or read on it, does so for values beyond it
    items, grid    number of work items, and of groups; empty: from the parameters
    device         where to run when no argument says so
    stream         None: the device's own
    """
    filled = _Arguments(kernel, arguments)
    options = _Options(kernel, report, policy=policy, zero_upstream=zero_upstream, keep_upstream=keep_upstream, overwrite=overwrite,
                       no_alloc=no_alloc, dry_run=dry_run, deterministic=deterministic, bounds=bounds, items=items, grid=grid, device=device)
    lib.ddisp_launch(kernel._handle, mode, filled.array, len(filled.array), C.byref(options.struct), handle_of(stream))


class Plan(Handle):
    """A prepared launch: checked, resolved and built once, launched with tensors of the same signature. For one thread at a time."""

    __slots__ = ("kernel",)
    _release = staticmethod(raw.ddisp_plan_release)

    def __init__(self, kernel: Kernel, mode: Mode, arguments: Sequence[Any], *, policy: Policy = Policy.DEFAULT,
                 zero_upstream: bool = False, keep_upstream: bool = False, overwrite: bool = False, no_alloc: bool = False,
                 deterministic: bool = False, bounds: Bounds = None, items: Sequence[int] = (), grid: Sequence[int] = (),
                 device: Optional[Device] = None, stream: Optional[Stream] = None):
        """Options are those of launch()."""
        filled = _Arguments(kernel, arguments)
        options = _Options(kernel, policy=policy, zero_upstream=zero_upstream, keep_upstream=keep_upstream, overwrite=overwrite,
                           no_alloc=no_alloc, deterministic=deterministic, bounds=bounds, items=items, grid=grid, device=device)
        super().__init__(new(lib.ddisp_plan_create, kernel._handle, mode, filled.array, len(filled.array), C.byref(options.struct),
                             handle_of(stream)))
        self.kernel = kernel

    def launch(self, *arguments: Any, stream: Optional[Stream] = None) -> None:
        """Launches with these arguments; refused when their signature is another."""
        filled = _Arguments(self.kernel, arguments)
        lib.ddisp_plan_launch(self._handle, filled.array, len(filled.array), handle_of(stream))


@dataclasses.dataclass
class Slot:
    """One gradient slot of a launch."""

    param: str
    is_add: bool
    backing: Backing
    policy: Policy
    requires_grad: bool
    flags: int
    bytes: int
    reason: str


class Report(Handle):
    """What a launch did. One report serves many launches in turn."""

    __slots__ = ()
    _release = staticmethod(raw.ddisp_report_release)

    def __init__(self, context: Context):
        super().__init__(new(lib.ddisp_report_create, context._handle))

    def _info(self) -> _abi.ddisp_report_info:
        return described(lib.ddisp_report_get_info, _abi.ddisp_report_info, self._handle)

    def __str__(self) -> str:
        return text_of(raw.ddisp_report_format, self._handle)

    @property
    def label(self) -> str:
        """The launch's signature in one line."""
        return text_of(raw.ddisp_report_get_label, self._handle)

    @property
    def status(self) -> Status:
        """What the launch returned."""
        return Status(self._info().status)

    @property
    def launched(self) -> bool:
        """Whether the kernel was handed to the driver."""
        return bool(self._info().launched)

    @property
    def skip(self) -> Skip:
        """Why nothing was launched."""
        return Skip(self._info().skip)

    @property
    def variant(self) -> VariantOrigin:
        """How the compiled variant was come by."""
        return VariantOrigin(self._info().variant)

    @property
    def code(self) -> int:
        """Index of the code used."""
        return self._info().code

    @property
    def items(self) -> int:
        """Number of work items."""
        return self._info().items

    @property
    def mask(self) -> int:
        """Bit i: parameter i has a gradient in the variant."""
        return self._info().mask

    @property
    def extra_bytes(self) -> int:
        """Device memory taken for frozen inputs and absent upstreams."""
        return self._info().extra_bytes

    @property
    def signature(self) -> bytes:
        """Hash of the signature."""
        return bytes(self._info().signature)

    @property
    def slots(self) -> List[Slot]:
        """Every gradient slot, with its backing and the reason."""
        result = []
        for index in range(self._info().slot_count):
            slot = described(lib.ddisp_report_get_slot, _abi.ddisp_report_slot, self._handle, index)
            result.append(Slot(slot.param, bool(slot.is_add), Backing(slot.backing), Policy(slot.policy), bool(slot.requires_grad),
                               slot.flags, slot.bytes, slot.reason.decode()))
        return result
