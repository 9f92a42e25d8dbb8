"""What versions of torch have for callers in a hurry. None of it is public: each is tried before it is used, and where it is missing or
does something else, the answer is None or the public way.

Only this file knows these names; nothing here changes what a call gives.
"""
from __future__ import annotations

from typing import Any, Callable, Dict, Optional, Sequence, Tuple

import torch

Check = Callable[..., bool]
Maker = Callable[[Tuple[int, ...], Tuple[int, ...], torch.dtype], torch.Tensor]

transforms_active: Optional[Callable[[], bool]] = getattr(torch._C, "_are_functorch_transforms_active", None)
"""Whether a transform of torch.func is at work; None where torch has none."""

unwrap_if_dead: Optional[Callable[[torch.Tensor], torch.Tensor]] = getattr(
    getattr(torch._C, "_functorch", None), "unwrap_if_dead", None) if transforms_active else None
"""The tensor in what a transform that is over has left of it, or the same tensor; None where torch has no transforms."""

_dynamo = getattr(getattr(torch._C, "_dynamo", None), "guards", None)


# ---- tensors like those before

def _guard(tensors: Sequence[torch.Tensor]) -> Check:
    return _dynamo.TensorGuards(*tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None).check  # type: ignore[union-attr]


def _guards_tell() -> bool:
    """Whether guards tell apart all that matters here."""
    def ones(*shape: int, **options: Any) -> torch.Tensor:
        return torch.ones(*shape, **{"device": "cpu", **options})

    plain, complex_ones = ones(2, 3), ones(2, 3, dtype=torch.complex64)
    others = (ones(2, 3, dtype=torch.int32), ones(3, 2), ones(6), ones(3, 2).t(), ones(1, 3).expand(2, 3), ones(2, 3, requires_grad=True),
              ones(2, 3, device="meta"), torch.nn.Parameter(ones(2, 3), requires_grad=False), plain.to_sparse())
    try:
        check, check_imaginary = _guard((plain, plain.clone())), _guard((complex_ones.imag,))
        return (check(ones(2, 3), ones(2, 3)) is True and check_imaginary(complex_ones.imag) is True
                and check_imaginary(complex_ones.conj().imag) is False
                and all(check(plain, other) is False and check(other, plain) is False for other in others))
    except Exception:  # whatever another version makes of it
        return False


has_guards = _guards_tell()


def guard_of(tensors: Sequence[torch.Tensor]) -> Check:
    """Says whether tensors are like these: class, dtype, device, shape, strides, requires_grad, lazy negation. It may say no to some
    that are, and does so where torch has no guards."""
    return _guard(tensors) if has_guards else never


def never(*tensors: torch.Tensor) -> bool:
    """The guard that takes no tensor for like."""
    return False


# ---- new tensors

_makers: Dict[torch.device, Optional[Maker]] = {}


def maker_of(device: torch.device) -> Optional[Maker]:
    """Makes a tensor on a device, content undefined, from shape, strides (tuples of int) and dtype; None: torch has nothing quicker
    than its public functions."""
    if device not in _makers:
        _makers[device] = _find_maker(device)
    return _makers[device]


def _find_maker(device: torch.device) -> Optional[Maker]:
    if device.type == "cuda" and torch.cuda.device_count() != 1:
        return None  # it takes the thread's current device
    make = getattr(_dynamo, f"_empty_strided_{device.type}", None)
    try:
        made = make((2, 3), (3, 1), torch.float64)  # type: ignore[misc]
        fits = (type(made), made.device, made.shape, made.stride(), made.dtype) == (torch.Tensor, device, (2, 3), (3, 1), torch.float64)
    except Exception:
        return None
    return make if fits else None


# ---- nodes of autograd

def node_of(name: str, forward: Callable[..., Any], backward: Callable[..., Any]) -> Tuple[Callable[..., Any], Callable[..., Any]]:
    """An operation of autograd: torch.autograd.Function's apply, and the same without its look for transforms of torch.func.

    The second is for calls while transforms_active() says no.
    """
    node = type(name, (torch.autograd.Function,), {"forward": staticmethod(forward), "backward": staticmethod(backward)})
    called_by_engine = getattr(node, "_backward_cls", None)
    if called_by_engine is not None and hasattr(called_by_engine, "apply"):
        called_by_engine.apply = backward  # torch's own looks for `backward` each time
    return node.apply, super(torch.autograd.Function, node).apply  # type: ignore[misc]


_save = torch.autograd.function.FunctionCtx.save_for_backward
_saves_by_name = getattr(getattr(_save, "__code__", None), "co_names", ()) == ("to_save",)


def line_that_saves(tensors: Sequence[str]) -> str:
    """In the text of a forward function: ctx.save_for_backward, or the one assignment that it consists of."""
    return f"ctx.to_save = ({', '.join(tensors)},)" if _saves_by_name else f"ctx.save_for_backward({', '.join(tensors)})"


# ---- streams

def current_stream_of(device: torch.device) -> Optional[Callable[[int], int]]:
    """What gives the number of torch's current stream for the index of a device; None on devices without streams."""
    if device.type != "cuda":
        return None
    raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    return raw or (lambda index: torch.cuda.current_stream(index).cuda_stream)
