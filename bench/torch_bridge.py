#!/usr/bin/env python3
"""bench/torch_bridge.py: what forward + backward through diffdispatch.torch takes, beside a hand-written autograd.Function.

usage: python3 bench/torch_bridge.py [--device cpu|cuda] [--elements N] [--blocks N] [--calls N] [--seconds N] [--json] [--save FILE]

Two functions, with the gradients that are wanted: the product y = a * b, one operation of torch, and the polynomial
y = c0 + c1 x + c2 x^2, several. They alternate in one process, block by block; medians of blocks are given, for CPU time of the process
(all its threads) and for the time that passes until the calls return. --json prints what was measured, --save writes it to a file beside
the table. After --seconds (60) no further block is begun. Needs torch, the built library
(DDISP_LIBRARY, else the newest build of the tree) and the tests' kernels.
"""
import argparse
import ctypes
import json
import pathlib
import statistics
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "bindings" / "python"), str(ROOT / "tests" / "python")]

import torch  # noqa: E402

import diffdispatch as dd  # noqa: E402
import diffdispatch.torch as ddt  # noqa: E402
from diffdispatch.torch.frame import launch  # noqa: E402
from testkernels import kernel  # noqa: E402


class HandWritten(torch.autograd.Function):
    """What one writes today: operations of torch, and gradients only where they are needed."""

    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a * b

    @staticmethod
    def backward(ctx, upstream):
        a, b = ctx.saved_tensors
        return (upstream * b if ctx.needs_input_grad[0] else None, upstream * a if ctx.needs_input_grad[1] else None)


class Polynomial(torch.autograd.Function):
    """The same for y = c[0] + c[1] x + c[2] x^2."""

    @staticmethod
    def forward(ctx, x, c):
        ctx.save_for_backward(x, c)
        return torch.addcmul(c[0], x, torch.addcmul(c[1], x, c[2]))

    @staticmethod
    def backward(ctx, upstream):
        x, c = ctx.saved_tensors
        slope = upstream * torch.addcmul(c[1], x, c[2], value=2) if ctx.needs_input_grad[0] else None
        coefficients = None
        if ctx.needs_input_grad[1]:
            first = upstream * x
            coefficients = torch.stack((upstream.sum(), first.sum(), torch.dot(first, x)))
        return slope, coefficients


class Bare(torch.autograd.Function):
    """The same without its operations: what torch takes for a node, and for its output and gradients."""

    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return torch.empty_like(a)

    @staticmethod
    def backward(ctx, upstream):
        a, b = ctx.saved_tensors
        return (torch.empty_like(a) if ctx.needs_input_grad[0] else None, torch.empty_like(b) if ctx.needs_input_grad[1] else None)


def block(function, calls, synchronize):
    """CPU time and time passed, in nanoseconds per call."""
    cpu, wall = time.process_time_ns(), time.perf_counter_ns()
    for _ in range(calls):
        function()
    result = (time.process_time_ns() - cpu) / calls, (time.perf_counter_ns() - wall) / calls
    synchronize()
    return result


def cases_of(device, elements):
    """Name -> function without arguments."""
    a, b = (torch.rand(elements, device=device, requires_grad=True) for _ in range(2))
    frozen, upstream = (torch.rand(elements, device=device) for _ in range(2))
    plain = [tensor.detach() for tensor in (a, b)]
    stores = ddt.Function(kernel("product"), keep_outputs=False)
    adds = ddt.Function(kernel("example"), keep_outputs=False)
    keeps = ddt.Function(kernel("example"))
    poly = ddt.Function(kernel("poly"), keep_outputs=False, shapes={"y": "x"})
    c = torch.rand(3, device=device, requires_grad=True)

    def step(function, *inputs):
        wanted = tuple(tensor for tensor in inputs if tensor.requires_grad)
        return lambda: torch.autograd.grad(function(*inputs), wanted, upstream)

    layout = stores._bridge((a, b), ()).layout
    frame = layout.forward_frame()
    frame.kept = [*plain, torch.empty_like(plain[0])]
    for at, tensor in zip(layout.order, frame.kept):
        frame.words[frame.data[at]] = tensor.data_ptr()
    stream = None
    if device.type == "cuda":
        wrapped = layout.device.wrap_stream(torch.cuda.current_stream(device).cuda_stream)
        stream = ctypes.c_void_p(wrapped.handle)
        frame.kept.append(wrapped)
    return {
        "torch": step(HandWritten.apply, a, b),
        "diffdispatch": step(stores, a, b),
        "diffdispatch, kernel adds": step(adds, a, b),
        "diffdispatch, kernel adds, outputs kept": step(keeps, a, b),
        "torch, one frozen": step(HandWritten.apply, a, frozen),
        "diffdispatch, one frozen": step(stores, a, frozen),
        "diffdispatch, kernel adds, one frozen": step(adds, a, frozen),
        "torch, polynomial": step(Polynomial.apply, a, c),
        "diffdispatch, polynomial": step(poly, a, c),
        "node without operations": step(Bare.apply, a, b),
        "torch, forward alone": lambda: plain[0] * plain[1],
        "diffdispatch, forward alone": lambda: stores(*plain),
        "forward launch through ctypes": lambda: launch(*frame.arguments, stream),
        "call of a C function through ctypes": dd.raw.ddisp_version,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--elements", type=int, default=32)
    parser.add_argument("--blocks", type=int, default=60)
    parser.add_argument("--calls", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--save", type=pathlib.Path)
    options = parser.parse_args()
    end = time.monotonic() + options.seconds
    torch.set_num_threads(1)
    device = torch.device(options.device, 0) if options.device == "cuda" else torch.device(options.device)
    synchronize = torch.cuda.synchronize if device.type == "cuda" else (lambda: None)
    cases = cases_of(device, options.elements)
    cpu, wall = {name: [] for name in cases}, {name: [] for name in cases}
    for function in cases.values():
        block(function, 200, synchronize)
    done = 0
    while done < options.blocks and (done == 0 or time.monotonic() < end):
        done += 1
        for name, function in cases.items():
            found = block(function, options.calls, synchronize)
            cpu[name].append(found[0])
            wall[name].append(found[1])
    medians = {name: (statistics.median(cpu[name]), statistics.median(wall[name])) for name in cases}
    ratios = {f"{ours} / {theirs}": [statistics.median(one / two for one, two in zip(series[ours], series[theirs]))
                                     for series in (cpu, wall)]
              for ours, theirs in (("diffdispatch", "torch"), ("diffdispatch, one frozen", "torch, one frozen"),
                                   ("diffdispatch, polynomial", "torch, polynomial"),
                                   ("diffdispatch, kernel adds", "torch"), ("diffdispatch, kernel adds, one frozen", "torch, one frozen"))}
    share = [ours - node for ours, node in zip(medians["diffdispatch"], medians["node without operations"])]
    if options.json or options.save:
        measured = json.dumps({
            "torch": torch.__version__, "diffdispatch": dd.__version__, "device": str(device), "elements": options.elements,
            "device_name": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu", "calls": options.calls,
            "median_cpu_ns": {name: value[0] for name, value in medians.items()},
            "median_wall_ns": {name: value[1] for name, value in medians.items()},
            "ratios_cpu_wall": ratios, "bridge_share_ns_cpu_wall": share, "cpu_ns": cpu, "wall_ns": wall})
        if options.save:
            options.save.write_text(measured + "\n", encoding="utf-8")
        if options.json:
            print(measured)
            return
    print(f"{options.elements} elements, {device}, torch {torch.__version__}; us per call, medians of {done} blocks\n"
          "      CPU     wall")
    for name, (one, two) in medians.items():
        print(f"{one / 1000:9.2f}{two / 1000:9.2f}  {name}")
    for name, (one, two) in ratios.items():
        print(f"{one:9.2f}{two:9.2f}  {name}")
    print(f"{share[0] / 1000:9.2f}{share[1] / 1000:9.2f}  the bridge and the library, above a node without operations")


if __name__ == "__main__":
    main()
