"""What follows from the dtypes, shapes and strides of a call: how each parameter is described to the library, forward and backward."""
from __future__ import annotations

import dataclasses
from typing import List, Optional, Sequence, Tuple

import torch

from .._abi import DType, Policy
from ..context import Device
from ..kernel import Kernel
from .frame import Described

_HALVES = (DType.F16, DType.BF16)


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

    @property
    def wide_gradient(self) -> bool:
        """Whether gradients are f32 though the tensor is not: sums of halves need it. An output's upstream comes as it is."""
        return self.is_input and self.dtype in _HALVES

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
    """Tensor parameters in their order."""
    inputs: List[int]
    """Places of in and inout parameters, in their order."""
    made: List[int]
    """Places of out parameters, in their order."""
    returned: List[int]
    """Places of out and inout parameters, in their order: what a call returns, and what has an upstream."""

    @property
    def widened(self) -> List[int]:
        """Returned tensors whose upstream is made f32, since an inout parameter has one dtype for both gradients."""
        return [i for i, at in enumerate(self.returned) if self.places[at].wide_gradient]


@dataclasses.dataclass
class Wanted:
    """A gradient that a backward launch makes."""

    input: int
    shape: Tuple[int, ...]
    dtype: torch.dtype


class BackwardKind:
    """Backward launches with one choice of inputs that need a gradient and of upstreams that are there."""

    def __init__(self, layout: Layout, needs: Sequence[bool], upstreams: Sequence[Optional[Sequence[int]]], dense: bool):
        """
        needs      per input
        upstreams  per returned tensor the strides of its gradient; None: absent
        dense      tensors are dense copies
        """
        self.described: List[Described] = []
        self.wanted: List[Wanted] = []
        self.wanted_places: List[int] = []
        self.read: List[int] = []  # returned tensors whose upstream is there
        self.read_places: List[int] = []
        needed = {layout.inputs[i]: i for i, wants in enumerate(needs) if wants}
        given = {layout.returned[i]: i for i, strides in enumerate(upstreams) if strides is not None}
        for at, place in enumerate(layout.places):
            described = place.described(dense or (at in layout.made and not layout.keep_outputs))
            described.grad_dtype = DType.F32 if place.wide_gradient else place.dtype
            if at in needed:
                described.requires_grad = True
                described.add_strides = broadcast_strides(place.shape, place.own_shape, dense_strides(place.own_shape))
                self.wanted.append(Wanted(needed[at], place.own_shape,
                                          torch.float32 if place.wide_gradient else place.torch_dtype))
                self.wanted_places.append(at)
            if at in given:
                described.read_strides = upstreams[given[at]]
                self.read.append(given[at])
                self.read_places.append(at)
            self.described.append(described)
