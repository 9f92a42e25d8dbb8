"""The native bridge: kernels work on torch's own memory, in order of torch's current stream.

A call goes through here once forward and once backward, and what Python itself takes is most of what there is to lose. So the code
for one set of dtypes, shapes and strides is written out as text, without loops and look-ups, and compiled: what it does is put
addresses into a frame and launch it.
"""
from __future__ import annotations

import sys
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch

from .._library import last_error
from ..context import Stream
from .frame import Frame, launch, pointer
from .layout import EMPTY, Layout, dense_strides
from .once import once_only
from .quick import current_stream_of, line_that_saves, maker_of, node_of

_KINDS = 64  # kinds of backward launches that a bridge remembers


def compiled(name: str, parameters: Sequence[str], lines: Sequence[str], names: Dict[str, Any]) -> Callable[..., Any]:
    """A function from its text. The name, which may be any string, is for tracebacks."""
    text = f"def written_out({', '.join(parameters)}):\n" + "\n".join("    " + line for line in lines)
    space = dict(names)
    exec(compile(text, f"<diffdispatch {name}>", "exec"), space)
    function = space.pop("written_out")
    function.__name__ = function.__qualname__ = name
    return function


def _name_of(dtype: torch.dtype) -> str:
    """Of a dtype in the text."""
    return str(dtype).replace("torch.", "")


def _tuple(names: Sequence[str]) -> str:
    return f"({', '.join(names)},)" if names else "()"


class _Remembered(dict):  # type: ignore[type-arg]
    """A dictionary that makes what it lacks, and forgets everything when it is full."""

    def __init__(self, make: Callable[[Any], Any], limit: int):
        super().__init__()
        self._make, self._limit = make, limit

    def __missing__(self, key: Any) -> Any:
        if len(self) >= self._limit:
            self.clear()
        self[key] = made = self._make(key)
        return made


class _Pool:
    """Frames of one kind, and the text that launches one. A launch that fails keeps its frame from the others: it is not put back."""

    def __init__(self, make: Callable[[], Frame]):
        self.frame = make()
        free = [self._parts(self.frame)]
        kernel, mode, _, count, _ = self.frame.arguments
        self.names = {"pop": free.pop, "push": free.append, "more": lambda: self._parts(make()), "kernel": kernel, "mode": mode,
                      "count": count, "launch": launch, "last_error": last_error}

    @staticmethod
    def _parts(frame: Frame) -> Tuple[Any, ...]:
        """What a launch works with and what differs from frame to frame."""
        return frame.words, frame.arguments[2], frame.arguments[4], frame

    @staticmethod
    def lines(addresses: Sequence[Tuple[int, str]], scalars: Sequence[str], stream: Sequence[str]) -> List[str]:
        """addresses: words and what is put there."""
        result = ["try:", "    parts = pop()", "except IndexError:", "    parts = more()", "words, args, options, frame = parts"]
        values = [value for _, value in addresses]
        for value in dict.fromkeys(values):  # asked once
            places = [f"words[{word}]" for word, other in addresses if other == value]
            result.append(" = ".join(places) + f" = {value}")
        result += [f"frame.numbers[{i}][0] = {name}" for i, name in enumerate(scalars)]
        return result + [*stream, "if launch(kernel, mode, args, count, options, stream):", "    raise last_error()", "push(parts)"]


class NativeBridge:
    """Calls of one kernel on torch's memory: `run` without autograd, `apply` as a node of autograd. Both take tensors in the
    order of the layout's `handed`, and then the numbers."""

    def __init__(self, layout: Layout):
        self.layout = layout
        places = [layout.place(i) for i in range(len(layout.order))]
        count = len(layout.inputs)
        self._tensors = [f"t{i}" for i in range(len(places))]
        self._scalars = [f"s{i}" for i in range(layout.scalar_count)]
        self._upstreams = [f"u{i}" for i in range(len(layout.returned))]
        self._stream_lines: List[str] = []
        self._streams: List[Stream] = []
        self._names: Dict[str, Any] = {"stream": None, "make": maker_of(layout.torch_device), "empty_like": torch.empty_like}
        self._names.update({_name_of(dtype): dtype for place in places for dtype in (place.torch_dtype, place.gradient_dtype)})
        self._follow_streams()
        pool = _Pool(layout.forward_frame)
        handed = [self._tensors[i] for i in layout.handed]
        parameters = handed + self._scalars
        lines = [self._new(name, place.shape, place.torch_dtype, self._tensors[:count])
                 for name, place in zip(self._tensors, places) if name not in handed]
        lines += pool.lines([(pool.frame.data[at], f"{name}.data_ptr()") for at, name in zip(layout.order, self._tensors)],
                            self._scalars, self._stream_lines)
        returned = [self._tensors[i] for i in layout.returned]
        result = ["return " + (returned[0] if len(returned) == 1 else _tuple(returned))]
        names = {**self._names, **pool.names}
        self.run = compiled(layout.kernel.name, parameters, lines + result, names)
        # Detached, an output is not tied to its own node; writes to it are noticed all the same.
        saved = [self._tensors[i] + (".detach()" if i >= count else "") for i in layout.kept]
        if saved:
            lines.append(line_that_saves(saved))
        if len(returned) > 1:
            lines.append("ctx.set_materialize_grads(False)")
        if self._scalars:
            lines.append(f"ctx.scalars = {_tuple(self._scalars)}")
        if layout.dirty:
            lines.append(f"ctx.mark_dirty({', '.join(self._tensors[i] for i in layout.dirty)})")
        if layout.frozen:
            lines.append(f"ctx.mark_non_differentiable({', '.join(self._tensors[i] for i in layout.frozen)})")
        forward = compiled(f"{layout.kernel.name}_forward", ["ctx"] + parameters, lines + result, names)
        self.apply, self.apply_directly = node_of(layout.kernel.name, forward, self._backward(len(parameters)))

    def synchronize(self) -> None:
        """Waits for all calls."""
        for stream in self._streams or [self.layout.device]:
            stream.synchronize()

    def _follow_streams(self) -> None:
        current = current_stream_of(self.layout.torch_device)
        if current is None:
            return
        device, kept = self.layout.device, self._streams
        index = self.layout.torch_device.index
        index = torch.cuda.current_device() if index is None else index

        def wrap(number: int) -> Any:
            kept.append(device.wrap_stream(number))
            return pointer(kept[-1].handle)

        self._stream_lines = [f"stream = streams[current({index})]"]
        self._names.update(current=current, streams=_Remembered(wrap, sys.maxsize))

    def _new(self, name: str, shape: Sequence[int], dtype: torch.dtype, there: Sequence[str], zero: bool = False) -> str:
        """A line that makes a dense tensor, in the quickest way, from one of those that are there."""
        strides = dense_strides(shape)
        if self._names["make"] and not zero:
            return f"{name} = make({shape}, {strides}, {_name_of(dtype)})"
        for other in there:
            place = self.layout.place(int(other[1:])) if other.startswith("t") else None
            if place and not zero and (place.own_shape, place.torch_dtype, place.own_strides) == (shape, dtype, strides):
                return f"{name} = empty_like({other})"
        return f"{name} = {there[0]}.new_{'zeros' if zero else 'empty'}({shape}, dtype={_name_of(dtype)})"

    def _backward(self, parameter_count: int) -> Callable[..., Any]:
        """The backward function: finds the kind of launch by what needs a gradient and what upstreams are like."""
        layout = self.layout
        kept = [self._tensors[i] for i in layout.kept]
        widened = [name for name, i in zip(self._upstreams, layout.returned) if layout.place(i).wide_gradient]
        kinds = _Remembered(lambda key: self._kind(layout.needed(key[0]), key[1:], parameter_count), _KINDS)
        several = len(self._upstreams) > 1  # of one, torch makes zeros when it is absent
        lines = ["if is_grad_enabled():", f"    return once(ctx, {', '.join(self._upstreams)})",
                 *[f"if {f'{name} is not None and ' if several else ''}{name}.is_neg(): {name} = {name}.resolve_neg()"
                   for name in self._upstreams],
                 *[(f"{name} = None if {name} is None else " if several else f"{name} = ") + f"{name}.float()" for name in widened],
                 *[f"{_tuple(kept)} = ctx.saved_tensors"] * bool(kept),
                 "kind = kinds[ctx.needs_input_grad, " + ", ".join(
                     (f"None if {name} is None else " if several else "") + f"{name}.stride()" for name in self._upstreams) + "]",
                 f"return kind({', '.join(kept + self._upstreams + ['ctx.scalars'] * bool(self._scalars))})"]
        names: Dict[str, Any] = {"is_grad_enabled": torch.is_grad_enabled, "kinds": kinds}
        backward = compiled(f"{layout.kernel.name}_backward", ["ctx"] + self._upstreams, lines, names)
        backward.__globals__["once"] = once_only(layout.kernel.name, backward)
        return backward

    def _kind(self, needed: Sequence[int], upstreams: Sequence[Optional[Sequence[int]]], parameter_count: int) -> Callable[..., Any]:
        """Backward for one choice of inputs that need a gradient, and of upstreams."""
        layout = self.layout
        pool = _Pool(lambda: layout.backward_frame(needed, upstreams))
        frame = pool.frame
        kept = [self._tensors[i] for i in layout.kept]
        read = {i: (name, strides) for i, name, strides in zip(layout.returned, self._upstreams, upstreams) if strides is not None}
        there = kept + [name for name, _ in read.values()]
        lines, addresses, gradients = [], [], ["None"] * parameter_count
        for i, name in enumerate(self._tensors):
            at, place = layout.order[i], layout.place(i)
            if name not in kept:  # its values are not read; its address is a good one all the same
                fits = i in read and read[i][1] == dense_strides(place.shape) and not place.wide_gradient
                name = read[i][0] if fits else f"x{i}"
                if not fits:
                    lines.append(self._new(name, place.shape, place.torch_dtype, there))
            addresses.append((frame.data[at], f"{name}.data_ptr()"))
            if i in needed:
                gradients[layout.handed.index(i)] = f"g{i}"
                lines.append(self._new(f"g{i}", place.own_shape, place.gradient_dtype, there, place.repeated_never))
                addresses.append((frame.add[at], f"g{i}.data_ptr()" + (f" or {EMPTY}" if 0 in place.own_shape else "")))
            if i in read:
                addresses.append((frame.read[at], f"{read[i][0]}.data_ptr()"))
        scalars = [f"scalars[{i}]" for i in range(len(self._scalars))]
        lines += pool.lines(addresses, scalars, self._stream_lines)
        lines.append(f"return {', '.join(gradients)}")
        parameters = kept + self._upstreams + ["scalars"] * bool(scalars)
        return compiled(f"{layout.kernel.name}_backward_kind", parameters, lines, {**self._names, **pool.names})
