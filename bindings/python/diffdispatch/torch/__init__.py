"""Kernels as functions of PyTorch tensors, with gradients.

    mul = diffdispatch.torch.Function(kernel)
    y = mul(a, b)              # a.requires_grad, b frozen
    y.sum().backward()         # a.grad is there, b.grad is None

Every call is a node of autograd: inputs that do not need a gradient get none and cost nothing, an output that nobody differentiated
counts as zero, gradients are fresh tensors that torch accumulates. Tensors are taken as they lie: transposed, sliced, expanded.
docs/python.md says what is refused, and why.
"""
from __future__ import annotations

import re
from typing import Any, Callable, Dict, Mapping, Optional, Sequence, Tuple, Union

import torch

from .._abi import Access, DType, Policy
from ..context import Device
from ..kernel import Kernel, Param
from ..launch import Bounds, bounds_of
from . import quick
from .layout import Layout, Place, dense_strides
from .native import NativeBridge, compiled
from .staged import StagedBridge

__all__ = ["Function", "device_for", "dtype_of"]

_DTYPES = {getattr(torch, name): dtype for name, dtype in (
    ("bool", DType.BOOL), ("uint8", DType.U8), ("int8", DType.I8), ("uint16", DType.U16), ("int16", DType.I16),
    ("uint32", DType.U32), ("int32", DType.I32), ("uint64", DType.U64), ("int64", DType.I64), ("float16", DType.F16),
    ("bfloat16", DType.BF16), ("float32", DType.F32), ("float64", DType.F64)) if hasattr(torch, name)}
_TORCH_DTYPES = {dtype: torch_dtype for torch_dtype, dtype in _DTYPES.items()}
_DLPACK_TYPES = {"cpu": 1, "cuda": 2}
_BRIDGES = 256  # a function remembers so many sets of dtypes, shapes and strides

Bridge = Union[NativeBridge, StagedBridge]
Shape = Union[str, Callable[..., Sequence[int]]]
Call = Tuple[quick.Check, Callable[..., Any], Callable[..., Any]]
"""Whether tensors are like those that it was made for; the call without gradients; the call with them."""


def dtype_of(dtype: torch.dtype) -> Optional[DType]:
    """The library's dtype; None where it has none."""
    return _DTYPES.get(dtype)


def _shares_memory(device: Device, other: torch.device) -> bool:
    kind = _DLPACK_TYPES.get(other.type)
    return (kind is not None and device.info.dlpack_device_type == kind
            and device.info.dlpack_device_id == (other.index or 0))


def device_for(context: Any, device: torch.device) -> Device:
    """The device whose memory tensors on a device of torch use."""
    for info in context.devices:
        if info.dlpack_device_type == _DLPACK_TYPES.get(device.type, -1) and info.dlpack_device_id == (device.index or 0):
            return context.open(info.spec)
    found = ", ".join(info.spec for info in context.devices) or "none"
    raise RuntimeError(f"no device of diffdispatch uses the memory of tensors on {device}; devices here: {found}. "
                       "Name one with Function(..., device=...) to copy through the host")


def _plain(tensor: Any) -> Any:
    """The tensor itself, unless torch keeps it as the negative of its memory (an imaginary part of a conjugate)."""
    return tensor.resolve_neg() if isinstance(tensor, torch.Tensor) and tensor.is_neg() else tensor


class Function:
    """A kernel as a function of torch tensors.

    Called with one argument per in, inout and scalar parameter, in order, it returns the out and inout tensors, in order: one tensor,
    or a tuple. Outputs may be given by name, then they are written in place.
    """

    def __init__(self, kernel: Kernel, *, device: Union[None, str, Device] = None, bridge: str = "auto",
                 shapes: Optional[Mapping[str, Shape]] = None, keep_outputs: bool = True, policy: Policy = Policy.DEFAULT,
                 deterministic: bool = False, bounds: Bounds = None):
        """
        device        where the kernel runs, or its spec; None: the device whose memory the tensors are in
        bridge        "native": on torch's memory; "staged": on copies through the host; "auto": native where device and tensors
                      share memory
        shapes        per output the name of an input whose shape it has, or a function of the input shapes that gives its shape.
                      None: the inputs are broadcast, and outputs have that shape
        keep_outputs  backward reads the values of outputs. False saves their memory
        policy        what backs the gradients of inputs that do not need one
        deterministic, bounds
                      as for launch(): gradients have the same bits in every run. What a declared bound was too small for is an error of
                      synchronize()
        """
        if bridge not in ("auto", "native", "staged"):
            raise ValueError(f"bridge is {bridge!r}; it can be 'auto', 'native' or 'staged'")
        self.kernel = kernel
        self._device = kernel.context.open(device) if isinstance(device, str) else device
        self._bridge_kind, self._shapes, self._keep_outputs, self._policy = bridge, shapes, keep_outputs, policy
        self._deterministic, self._bounds = deterministic, bounds
        bounds_of(kernel, bounds)  # names are checked here
        tensors = [param for param in kernel.params if not param.scalar]
        arguments = [param for param in kernel.params if param.access & Access.IN]
        self._inputs = [i for i, param in enumerate(tensors) if param.access & Access.IN]
        self._made = [i for i, param in enumerate(tensors) if param.access == Access.OUT]
        self._tensors = tensors
        self._names = [tensors[i].name for i in self._inputs]
        self._made_names = [tensors[i].name for i in self._made]
        self._argument_names = [param.name for param in arguments]
        self._tensor_arguments = [i for i, param in enumerate(arguments) if not param.scalar]
        self._scalar_arguments = [i for i, param in enumerate(arguments) if param.scalar]
        self._undifferentiable = [i for i, at in enumerate(self._inputs) if not tensors[at].differentiable]
        self._in_place = [i for i, at in enumerate(self._inputs) if tensors[at].access == Access.INOUT]
        if not self._inputs:
            raise TypeError(f"{kernel!r} has no tensor among its inputs")
        self._bridges: Dict[Any, Bridge] = {}
        self._calls: Dict[Any, Call] = {}
        self._latest: Call = (quick.never, quick.never, quick.never)
        if not self._in_place:
            self.__class__ = type("Function", (type(self),), {"__call__": self._compile(), "__module__": __name__})

    def __repr__(self) -> str:
        return f"<function of {self.kernel!r}>"

    def __call__(self, *arguments: Any, **outputs: torch.Tensor) -> Any:
        return self._call(arguments, outputs)

    def synchronize(self) -> None:
        """Waits for all calls so far. Raises Error with Status.BOUND_EXCEEDED when deterministic launches could not add all values."""
        for bridge in list(self._bridges.values()):
            bridge.synchronize()

    def _call(self, arguments: Sequence[Any], outputs: Mapping[str, torch.Tensor]) -> Any:
        """Any call."""
        if len(arguments) != len(self._argument_names):
            raise TypeError(f"{self.kernel.name} takes {', '.join(self._argument_names)}; {len(arguments)} arguments were given")
        inputs = tuple([arguments[i] if at in self._in_place else _plain(arguments[i])
                        for at, i in enumerate(self._tensor_arguments)])
        scalars = [arguments[i] for i in self._scalar_arguments]
        given = self._given(outputs)
        bridge = self._bridge(inputs, given)
        recording = torch.is_grad_enabled()
        if recording:
            self._check(inputs, given)
        tensors = inputs + given
        handed = [tensors[i] for i in bridge.layout.handed]
        if recording and any(tensor.requires_grad for tensor in inputs):
            return bridge.apply(*handed, *scalars)
        if not bridge.layout.dirty:
            return bridge.run(*handed, *scalars)
        # A node also notes that tensors were written; what it returns without autograd are others over the same memory.
        found = bridge.apply(*handed, *scalars)
        found = found if isinstance(found, tuple) else (found,)
        result = tuple([tensors[i] if i in bridge.layout.dirty else other for i, other in zip(bridge.layout.returned, found)])
        return result if len(result) > 1 else result[0]

    def _compile(self) -> Callable[..., Any]:
        """__call__ written out, for kernels whose calls without given outputs write nothing in place."""
        names = [f"{re.sub('[^A-Za-z0-9_]', '_', name)}_" for name in self._argument_names]
        if len(set(names)) < len(names):
            names = [f"argument_{i}_" for i in range(len(names))]
        tensors = [names[i] for i in self._tensor_arguments]
        listed = ", ".join(tensors)
        parts = ("__class__", "dtype", "device", "shape", "stride()", "requires_grad")  # as in _call_of
        search = ["try:",
                  f"    if {' or '.join(f'{name}.is_neg()' for name in tensors)}:",
                  f"        {listed} = {', '.join(f'{name}.resolve_neg()' for name in tensors)}",
                  f"    call = calls[{', '.join(f'{name}.{part}' for name in tensors for part in parts)}]",
                  "except Missing:", f"    call = self._call_of(({listed},))"]
        if quick.transforms_active:
            search[:0] = ["if transforms_active():", f"    return self._call(({', '.join(names)},), outputs)"]
        if quick.has_guards:
            search = ["check, run, apply = self._latest", f"if not check({listed}):"] + ["    " + line for line in search] + [
                "    self._latest = check, run, apply = call"]
        else:
            search.append("check, run, apply = call")
        passed = ", ".join(tensors + [names[i] for i in self._scalar_arguments])
        finish = [f"return apply({passed}) if is_grad_enabled() else run({passed})"]
        if quick.unwrap_if_dead:  # the rest of a transform that is over has no memory of its own, and is found by the failure
            finish = ["try:", "    " + finish[0], "except RuntimeError:",
                      f"    if {' and '.join(f'unwrap({name}) is {name}' for name in tensors)}:", "        raise",
                      f"return self({', '.join(f'unwrap({name})' if name in tensors else name for name in names)})"]
        lines = ["if outputs:", f"    return self._call(({', '.join(names)},), outputs)", *search, *finish]
        return compiled(self.kernel.name, ["self", *names, "/", "**outputs"], lines, {
            "calls": self._calls, "is_grad_enabled": torch.is_grad_enabled, "transforms_active": quick.transforms_active,
            "unwrap": quick.unwrap_if_dead, "Missing": (KeyError, AttributeError, TypeError, RuntimeError)})

    def _call_of(self, tensors: Tuple[Any, ...]) -> Call:
        """What calls with tensors like these go to, without and with gradients, kept for the next ones."""
        bridge = self._bridge(tensors, ())
        apply: Callable[..., Any] = bridge.apply_directly if any(tensor.requires_grad for tensor in tensors) else bridge.run
        if any(tensors[i].requires_grad for i in self._undifferentiable):
            apply = lambda *arguments: self._check(arguments, ())  # noqa: E731  it says what is wrong
        call = quick.guard_of(tensors), bridge.run, apply
        if len(self._calls) >= _BRIDGES:
            self._calls.clear()
        self._calls[sum([(tensor.__class__, tensor.dtype, tensor.device, tensor.shape, tensor.stride(), tensor.requires_grad)
                         for tensor in tensors], ())] = call
        return call

    def _check(self, inputs: Sequence[torch.Tensor], given: Sequence[torch.Tensor]) -> None:
        """What autograd could not follow is refused before anything is written."""
        for i in self._undifferentiable:
            if inputs[i].requires_grad:
                raise RuntimeError(f"{self.kernel.name}: parameter '{self._names[i]}' is not differentiable, and its tensor requires "
                                   "a gradient: pass tensor.detach()")
        written = [(self._names[i], inputs[i]) for i in self._in_place] + list(zip(self._made_names, given))
        for name, tensor in written:
            if tensor.requires_grad and tensor.is_leaf:
                raise RuntimeError(f"{self.kernel.name}: parameter '{name}' is written, and its tensor is a leaf that requires a "
                                   "gradient: pass a copy, or call under torch.no_grad()")

    def _given(self, outputs: Mapping[str, torch.Tensor]) -> Tuple[torch.Tensor, ...]:
        """The outputs that were given, in order: none or all of them."""
        if not outputs:
            return ()
        if set(outputs) != set(self._made_names):
            raise TypeError(f"{self.kernel.name}: outputs that are given by name are {', '.join(self._made_names) or 'none'}, all or "
                            f"none; {', '.join(outputs)} were given")
        return tuple([outputs[name] for name in self._made_names])

    # ---- bridges

    def _bridge(self, inputs: Tuple[Any, ...], given: Tuple[Any, ...]) -> Bridge:
        """What takes tensors of these dtypes, devices, shapes and strides."""
        device = inputs[0].device if isinstance(inputs[0], torch.Tensor) else torch.device("cpu")
        key: Tuple[Any, ...] = ()
        for name, tensor in zip(self._names + self._made_names, inputs + given):
            self._check_tensor(name, tensor, device)
            key += (tensor.dtype, tensor.device, tensor.shape, tensor.stride())
        found = self._bridges.get(key)
        if found is None:
            if len(self._bridges) >= _BRIDGES:
                self._bridges.clear()
                self._calls.clear()
            found = self._bridges[key] = self._make_bridge(inputs, given, device)
        return found

    def _check_tensor(self, name: str, tensor: Any, device: torch.device) -> None:
        where = f"{self.kernel.name}: parameter '{name}'"
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"{where} is a tensor; a {type(tensor).__name__} was given")
        if tensor.layout != torch.strided:
            raise TypeError(f"{where} is {tensor.layout}; dense tensors are taken")
        if tensor.dtype not in _DTYPES:
            raise TypeError(f"{where} is {tensor.dtype}, which has no dtype here")
        if tensor.is_neg():
            raise TypeError(f"{where} is written, and torch keeps its tensor as the negative of its memory: pass tensor.resolve_neg()")
        if tensor.device != device:
            raise RuntimeError(f"{where} is on {tensor.device}, '{self._names[0]}' is on {device}")

    def _shape_of(self, param: Param, inputs: Sequence[torch.Tensor], shape: Tuple[int, ...]) -> Tuple[int, ...]:
        """Shape of an output; `shape` is what the inputs broadcast to."""
        if self._shapes is None:
            return shape
        rule = self._shapes.get(param.name)
        if rule is None:
            raise TypeError(f"{self.kernel.name}: shapes says nothing of output '{param.name}'")
        if callable(rule):
            return tuple(int(extent) for extent in rule(*[tuple(tensor.shape) for tensor in inputs]))
        if rule not in self._names:
            raise TypeError(f"{self.kernel.name}: shapes names '{rule}' for output '{param.name}'; inputs are {', '.join(self._names)}")
        return tuple(inputs[self._names.index(rule)].shape)

    def _broadcast(self, inputs: Sequence[torch.Tensor]) -> Tuple[int, ...]:
        """The shape that all inputs broadcast to."""
        shape: Tuple[int, ...] = ()
        for name, tensor in zip(self._names, inputs):
            try:
                shape = tuple(torch.broadcast_shapes(shape, tensor.shape))
            except RuntimeError:
                raise ValueError(f"{self.kernel.name}: parameter '{name}' has shape {list(tensor.shape)}, which does not broadcast "
                                 f"with {list(shape)} of those before") from None
        for i in self._in_place:
            if tuple(inputs[i].shape) != shape:
                raise ValueError(f"{self.kernel.name}: parameter '{self._names[i]}' has shape {list(inputs[i].shape)} and is written "
                                 f"in place; the others broadcast to {list(shape)}")
        return shape

    def _make_bridge(self, inputs: Tuple[Any, ...], given: Tuple[Any, ...], device: torch.device) -> Bridge:
        whole = self._broadcast(inputs) if self._shapes is None else ()
        places = [self._place(at, inputs, given, whole) for at in range(len(self._tensors))]
        target = self._device or device_for(self.kernel.context, device)
        shared = _shares_memory(target, device)
        if self._bridge_kind == "native" and not shared:
            raise RuntimeError(f"{self.kernel.name}: device {target.spec} does not use the memory of tensors on {device}; "
                               "bridge='staged' copies through the host")
        staged = not shared or self._bridge_kind == "staged"
        layout = Layout(self.kernel, target, device, self._policy, self._keep_outputs, places, len(self._scalar_arguments),
                        bool(given), staged, self._deterministic, self._bounds)
        return StagedBridge(layout) if staged else NativeBridge(layout)

    def _place(self, at: int, inputs: Sequence[torch.Tensor], given: Sequence[torch.Tensor], whole: Tuple[int, ...]) -> Place:
        param = self._tensors[at]
        is_input, is_output = bool(param.access & Access.IN), bool(param.access & Access.OUT)
        if is_input:
            tensor = inputs[self._inputs.index(at)]
            own = tuple(tensor.shape)
            return Place(param.name, _DTYPES[tensor.dtype], tensor.dtype, whole if self._shapes is None else own, own,
                         tuple(tensor.stride()), True, is_output, param.differentiable)
        shape = self._shape_of(param, inputs, whole)
        dtype = inputs[0].dtype if param.dtype == DType.ANY else _TORCH_DTYPES.get(param.dtype)
        if dtype is None:
            raise TypeError(f"{self.kernel.name}: output '{param.name}' is {param.dtype.name}, which this torch has no dtype for")
        strides = dense_strides(shape)
        if given:
            tensor = given[self._made.index(at)]
            if tensor.dtype != dtype or tuple(tensor.shape) != shape:
                raise ValueError(f"{self.kernel.name}: output '{param.name}' is {tensor.dtype}{list(tensor.shape)}, it must be "
                                 f"{dtype}{list(shape)}")
            strides = tuple(tensor.stride())
        return Place(param.name, _DTYPES[dtype], dtype, shape, shape, strides, is_input, is_output, param.differentiable)
