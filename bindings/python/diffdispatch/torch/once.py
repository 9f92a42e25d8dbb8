"""Gradients that cannot be differentiated again: those of a kernel's gradients are not known."""
from __future__ import annotations

from typing import Any, Callable

import torch


def once_only(name: str, backward: Callable[..., Any]) -> Callable[..., Any]:
    """A backward function for create_graph: the same gradients, and an error for whoever differentiates them.

    torch's own once_differentiable lets gradients through whose upstream needs none: they would count as constants.
    """
    class Final(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
            return gradient.view_as(gradient)

        @staticmethod
        def backward(ctx: Any, upstream: torch.Tensor) -> Any:
            raise RuntimeError(f"{name}: the gradients of its gradients are not known; it can be differentiated once")

    def once(ctx: Any, *upstreams: Any) -> Any:
        with torch.no_grad():
            gradients = backward(ctx, *upstreams)
        gradients = gradients if isinstance(gradients, tuple) else (gradients,)
        return tuple([None if gradient is None else Final.apply(gradient.requires_grad_()) for gradient in gradients])

    return once
