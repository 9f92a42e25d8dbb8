"""Kernels as functions of PyTorch tensors, with gradients.

    mul = diffdispatch.torch.Function(kernel)
    y = mul(a, b)              # a.requires_grad, b frozen
    y.sum().backward()         # a.grad is there, b.grad is None

Every call is a node of autograd: inputs that do not need a gradient get none and cost nothing, an output that nobody differentiated
counts as zero, gradients are fresh tensors that torch accumulates. Tensors are taken as they lie: transposed, sliced, expanded.
docs/python.md says what is refused, and why.
"""
from __future__ import annotations

from typing import Any, Callable, Dict, Mapping, Optional, Sequence, Tuple, Union

import torch

from .._abi import Access, DType, Policy
from ..context import Device
from ..kernel import Kernel, Param
from .bridge import Bridge, NativeBridge, StagedBridge
from .layout import Layout, Place, dense_strides

__all__ = ["Function", "device_for", "dtype_of"]

_DTYPES = {getattr(torch, name): dtype for name, dtype in (
    ("bool", DType.BOOL), ("uint8", DType.U8), ("int8", DType.I8), ("uint16", DType.U16), ("int16", DType.I16),
    ("uint32", DType.U32), ("int32", DType.I32), ("uint64", DType.U64), ("int64", DType.I64), ("float16", DType.F16),
    ("bfloat16", DType.BF16), ("float32", DType.F32), ("float64", DType.F64)) if hasattr(torch, name)}
_TORCH_DTYPES = {dtype: torch_dtype for torch_dtype, dtype in _DTYPES.items()}
_DLPACK_TYPES = {"cpu": 1, "cuda": 2}
_BRIDGES = 256  # a function remembers so many sets of dtypes, shapes and strides

Shape = Union[str, Callable[..., Sequence[int]]]


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


class _Call:
    """What a node keeps of its call besides tensors."""

    __slots__ = ("bridge", "scalars", "count", "frozen", "dirty")

    def __init__(self, bridge: Bridge, scalars: Sequence[Any], count: int, frozen: Sequence[int], dirty: Sequence[int]):
        self.bridge = bridge
        self.scalars = scalars
        self.count = count  # of inputs; tensors behind them are outputs that were given
        self.frozen = frozen  # returned tensors that are not differentiable
        self.dirty = dirty  # tensors that are written in place


class _Node(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, call: _Call, *tensors: torch.Tensor) -> Any:
        bridge = call.bridge
        count = call.count
        if len(tensors) == count:
            tensors += bridge.new_outputs(tensors[0])
        ctx.kept = bridge.forward(tensors, call.scalars)
        ctx.call = call
        ctx.set_materialize_grads(False)
        layout = bridge.layout
        ctx.save_for_backward(*(tensors if layout.keep_outputs else tensors[:count]))
        if call.dirty:
            ctx.mark_dirty(*[tensors[i] for i in call.dirty])
        returned = tuple([tensors[i] for i in bridge.returned])
        if call.frozen:
            ctx.mark_non_differentiable(*[returned[i] for i in call.frozen])
        return returned if len(returned) > 1 else returned[0]

    @staticmethod
    def backward(ctx: Any, *upstreams: Optional[torch.Tensor]) -> Any:
        return _backward_once(ctx, *upstreams) if torch.is_grad_enabled() else _backward(ctx, *upstreams)


def _backward(ctx: Any, *upstreams: Optional[torch.Tensor]) -> Any:
    call = ctx.call
    needs = ctx.needs_input_grad
    inputs = needs[1:1 + call.count]
    gradients = call.bridge.backward(ctx.saved_tensors, upstreams, inputs, call.scalars, ctx.kept)
    return (None, *gradients, *[None] * (len(needs) - 1 - call.count))


# The gradients of a kernel's gradients are not known: with create_graph they may be computed, but not differentiated.
_backward_once = torch.autograd.function.once_differentiable(_backward)


class Function:
    """A kernel as a function of torch tensors.

    Called with one argument per in, inout and scalar parameter, in order, it returns the out and inout tensors, in order: one tensor,
    or a tuple. Outputs may be given by name, then they are written in place.
    """

    def __init__(self, kernel: Kernel, *, device: Union[None, str, Device] = None, bridge: str = "auto",
                 shapes: Optional[Mapping[str, Shape]] = None, keep_outputs: bool = True, policy: Policy = Policy.DEFAULT):
        """
        device        where the kernel runs, or its spec; None: the device whose memory the tensors are in
        bridge        "native": on torch's memory; "staged": on copies through the host; "auto": native where device and tensors
                      share memory
        shapes        per output the name of an input whose shape it has, or a function of the input shapes that gives its shape.
                      None: the inputs are broadcast, and outputs have that shape
        keep_outputs  backward reads the values of outputs. False saves their memory
        policy        what backs the gradients of inputs that do not need one
        """
        if bridge not in ("auto", "native", "staged"):
            raise ValueError(f"bridge is {bridge!r}; it can be 'auto', 'native' or 'staged'")
        self.kernel = kernel
        self._device = kernel.context.open(device) if isinstance(device, str) else device
        self._bridge_kind, self._shapes, self._keep_outputs, self._policy = bridge, shapes, keep_outputs, policy
        tensors = [param for param in kernel.params if not param.scalar]
        self._inputs = [i for i, param in enumerate(tensors) if param.access & Access.IN]
        self._made = [i for i, param in enumerate(tensors) if param.access == Access.OUT]
        self._returned = [i for i, param in enumerate(tensors) if param.access & Access.OUT]
        self._tensors = tensors
        arguments = [param for param in kernel.params if param.access & Access.IN]
        self._argument_names = [param.name for param in arguments]
        self._tensor_arguments = [i for i, param in enumerate(arguments) if not param.scalar]
        self._scalar_arguments = [i for i, param in enumerate(arguments) if param.scalar]
        self._names = [tensors[i].name for i in self._inputs]
        self._undifferentiable = [i for i, at in enumerate(self._inputs) if not tensors[at].differentiable]
        self._frozen = [i for i, at in enumerate(self._returned) if not tensors[at].differentiable]
        self._in_place = [i for i, at in enumerate(self._inputs) if tensors[at].access == Access.INOUT]
        if not self._inputs:
            raise TypeError(f"{kernel!r} has no tensor among its inputs")
        self._bridges: Dict[Any, Bridge] = {}

    def __repr__(self) -> str:
        return f"<function of {self.kernel!r}>"

    def __call__(self, *arguments: Any, **outputs: torch.Tensor) -> Any:
        inputs: Tuple[Any, ...] = arguments
        scalars: Sequence[Any] = ()
        if len(arguments) != len(self._argument_names):
            raise TypeError(f"{self.kernel.name} takes {', '.join(self._argument_names)}; {len(arguments)} arguments were given")
        if self._scalar_arguments:
            inputs = tuple([arguments[i] for i in self._tensor_arguments])
            scalars = [arguments[i] for i in self._scalar_arguments]
        if outputs or self._in_place:
            return self._into(inputs, scalars, self._given(outputs))
        bridge = self._bridge(inputs, ())
        if torch.is_grad_enabled():
            for tensor in inputs:
                if tensor.requires_grad:
                    self._check_differentiable(inputs)
                    return _Node.apply(_Call(bridge, scalars, len(inputs), self._frozen, ()), *inputs)
        made = bridge.new_outputs(inputs[0])
        bridge.forward(inputs + made, scalars)
        return made if len(made) > 1 else made[0]

    def _check_differentiable(self, inputs: Sequence[torch.Tensor]) -> None:
        for i in self._undifferentiable:
            if inputs[i].requires_grad:
                raise RuntimeError(f"{self.kernel.name}: parameter '{self._names[i]}' is not differentiable, and its tensor requires "
                                   "a gradient: pass tensor.detach()")

    # ---- calls that write into tensors

    def _given(self, outputs: Mapping[str, torch.Tensor]) -> Tuple[torch.Tensor, ...]:
        """The outputs that were given, in order: none or all of them."""
        names = [self._tensors[at].name for at in self._made]
        if outputs and set(outputs) != set(names):
            raise TypeError(f"{self.kernel.name}: outputs that are given by name are {', '.join(names) or 'none'}, all or none; "
                            f"{', '.join(outputs)} were given")
        return tuple([outputs[name] for name in names]) if outputs else ()

    def _into(self, inputs: Tuple[Any, ...], scalars: Sequence[Any], given: Tuple[torch.Tensor, ...]) -> Any:
        bridge = self._bridge(inputs, given)
        dirty = self._in_place + list(range(len(inputs), len(inputs) + len(given)))
        tensors = inputs + given
        if torch.is_grad_enabled():
            self._check_differentiable(inputs)
            names = self._names + [self._tensors[at].name for at in self._made]
            for i in dirty:
                if tensors[i].requires_grad and tensors[i].is_leaf:
                    raise RuntimeError(f"{self.kernel.name}: parameter '{names[i]}' is written, and its tensor is a leaf that requires "
                                       "a gradient: pass a copy, or call under torch.no_grad()")
        return _Node.apply(_Call(bridge, scalars, len(inputs), self._frozen, dirty), *tensors)

    # ---- bridges

    def _bridge(self, inputs: Tuple[Any, ...], given: Tuple[Any, ...]) -> Bridge:
        try:
            key = tuple([(tensor.dtype, tensor.device, tensor.shape, tensor.stride()) for tensor in inputs + given])
            return self._bridges[key]
        except KeyError:
            pass
        except (AttributeError, TypeError, RuntimeError):
            key = ()  # one of them is no dense tensor, which is about to be said
        bridge = self._make_bridge(inputs, given)
        if len(self._bridges) >= _BRIDGES:
            self._bridges.clear()
        self._bridges[key] = bridge
        return bridge

    def _check_tensor(self, name: str, tensor: Any, device: torch.device) -> None:
        where = f"{self.kernel.name}: parameter '{name}'"
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"{where} is a tensor; a {type(tensor).__name__} was given")
        if tensor.layout != torch.strided:
            raise TypeError(f"{where} is {tensor.layout}; dense tensors are taken")
        if tensor.dtype not in _DTYPES:
            raise TypeError(f"{where} is {tensor.dtype}, which has no dtype here")
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

    def _make_bridge(self, inputs: Tuple[Any, ...], given: Tuple[Any, ...]) -> Bridge:
        device = inputs[0].device if isinstance(inputs[0], torch.Tensor) else torch.device("cpu")
        for name, tensor in zip(self._names + [self._tensors[at].name for at in self._made], inputs + given):
            self._check_tensor(name, tensor, device)
        whole = self._broadcast(inputs) if self._shapes is None else ()
        places = [self._place(at, inputs, given, whole) for at in range(len(self._tensors))]
        target = self._device or device_for(self.kernel.context, device)
        shared = _shares_memory(target, device)
        if self._bridge_kind == "native" and not shared:
            raise RuntimeError(f"{self.kernel.name}: device {target.spec} does not use the memory of tensors on {device}; bridge='staged' "
                               "copies through the host")
        layout = Layout(self.kernel, target, device, self._policy, self._keep_outputs, places, self._inputs, self._made, self._returned)
        return NativeBridge(layout) if shared and self._bridge_kind != "staged" else StagedBridge(layout)

    def _place(self, at: int, inputs: Sequence[torch.Tensor], given: Sequence[torch.Tensor], whole: Tuple[int, ...]) -> Place:
        param = self._tensors[at]
        is_input, is_output = bool(param.access & Access.IN), bool(param.access & Access.OUT)
        if is_input:
            tensor = inputs[self._inputs.index(at)]
            own = tuple(tensor.shape)
            return Place(param.name, _DTYPES[tensor.dtype], tensor.dtype, whole if self._shapes is None else own, own,
                         tuple(tensor.stride()), True, is_output)
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
        return Place(param.name, _DTYPES[dtype], dtype, shape, shape, strides, is_input, is_output)
