"""What follows from the dtypes, shapes and strides of a call: how each parameter is described to the library, forward and backward.

Tensors of a call come in one order everywhere: the inputs (in and inout parameters), then the outputs that are no inputs.
"""
from __future__ import annotations

import dataclasses
from typing import List, Optional, Sequence, Tuple

import torch

from .. import _abi
from .._abi import DType, Mode, Policy
from ..context import Device
from ..kernel import Kernel
from ..launch import Bounds
from .frame import Described, Frame

EMPTY = 64
"""The address of a gradient without elements; 0 would mean that there is none."""

_HALVES = (DType.F16, DType.BF16)
_BACKWARD_FLAGS = _abi.LAUNCH_ZERO_UPSTREAM | _abi.LAUNCH_OVERWRITE


def dense_strides(shape: Sequence[int]) -> Tuple[int, ...]:
    """Row-major strides."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))


def broadcast_strides(shape: Sequence[int], own_shape: Sequence[int], strides: Sequence[int]) -> Tuple[int, ...]:
    """Strides of a tensor seen in a larger shape: 0 where it has one element for many."""
    missing = len(shape) - len(own_shape)
    return (0,) * missing + tuple(
        0 if own == 1 and extent != 1 else stride for extent, own, stride in zip(shape[missing:], own_shape, strides))


@dataclasses.dataclass
class Place:
    """A tensor parameter in the calls of a bridge."""

    name: str
    dtype: DType
    torch_dtype: torch.dtype
    shape: Tuple[int, ...]
    """As the kernel sees it."""
    own_shape: Tuple[int, ...]
    """Of the tensor itself, which may be broadcast."""
    own_strides: Tuple[int, ...]
    is_input: bool
    is_output: bool
    differentiable: bool

    @property
    def wide_gradient(self) -> bool:
        """Whether gradients are f32 though the tensor is not: sums of halves need it. An output's upstream comes as it is."""
        return self.is_input and self.dtype in _HALVES

    @property
    def gradient_dtype(self) -> torch.dtype:
        """Of the gradient that is made for an input."""
        return torch.float32 if self.wide_gradient else self.torch_dtype

    @property
    def repeated_never(self) -> bool:
        """The tensor has elements, and the kernel sees none of them: its gradient is zero without a launch."""
        return 0 in self.shape and 0 not in self.own_shape

    def described(self, dense: bool) -> Described:
        """The tensor as it lies, or as a dense copy would."""
        strides = dense_strides(self.own_shape) if dense else self.own_strides
        return Described(self.dtype, self.shape, broadcast_strides(self.shape, self.own_shape, strides))


@dataclasses.dataclass
class Layout:
    """What a bridge is made for."""

    kernel: Kernel
    device: Device
    torch_device: torch.device
    policy: Policy
    keep_outputs: bool
    """Backward reads the values of outputs."""
    places: List[Place]
    """Tensor parameters in the order of the kernel."""
    scalar_count: int
    given: bool
    """Outputs are handed in."""
    dense: bool = False
    """Kernels see dense copies."""
    deterministic: bool = False
    bounds: Bounds = None

    def __post_init__(self) -> None:
        self.inputs = [at for at, place in enumerate(self.places) if place.is_input]
        self.made = [at for at, place in enumerate(self.places) if not place.is_input]
        self.order = self.inputs + self.made
        self.returned = [self.order.index(at) for at, place in enumerate(self.places) if place.is_output]
        """In that order: what a call returns, and what has an upstream in backward."""
        self.frozen = [i for i in self.returned if not self.places[self.order[i]].differentiable]
        self.dirty = [i for i in self.returned if self.given or self.places[self.order[i]].is_input]
        """What is written in place."""
        handed = range(len(self.order) if self.given else len(self.inputs))
        self.handed = self.dirty + [i for i in handed if i not in self.dirty]
        """Tensors as a node takes them: what is written comes first, since torch follows a write into a view only there."""
        self.kept = [i for i, at in enumerate(self.order) if self.keep_outputs or not self.places[at].is_output]
        """Tensors whose values backward reads."""

    def needed(self, needs: Sequence[bool]) -> List[int]:
        """Tensors that get a gradient, from ctx.needs_input_grad."""
        return [i for i, wants in zip(self.handed, needs) if wants and i < len(self.inputs)]

    def place(self, i: int) -> Place:
        """Of the tensor that comes at i."""
        return self.places[self.order[i]]

    def forward_frame(self) -> Frame:
        """For a forward launch."""
        described = [place.described(self.dense) for place in self.places]
        return Frame(self.kernel, Mode.FORWARD, described, 0, Policy.DEFAULT, self.device.handle)

    def backward_frame(self, needed: Sequence[int], upstreams: Sequence[Optional[Sequence[int]]]) -> Frame:
        """For a backward launch.

        needed     tensors that get a gradient
        upstreams  per returned tensor the strides of its gradient; None: absent
        """
        given = {self.order[i]: strides for i, strides in zip(self.returned, upstreams) if strides is not None}
        needed = [self.order[i] for i in needed]
        described = []
        for at, place in enumerate(self.places):
            tensor = place.described(self.dense or self.order.index(at) not in self.kept)
            tensor.grad_dtype = DType.F32 if place.wide_gradient else place.dtype
            tensor.read_strides = given.get(at)
            if at in needed:
                tensor.requires_grad = True
                tensor.add_strides = broadcast_strides(place.shape, place.own_shape, dense_strides(place.own_shape))
            described.append(tensor)
        flags = _BACKWARD_FLAGS | (_abi.LAUNCH_DETERMINISTIC if self.deterministic else 0)
        return Frame(self.kernel, Mode.BACKWARD, described, flags, self.policy, self.device.handle, self.bounds)
