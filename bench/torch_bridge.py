#!/usr/bin/env python3
"""bench/torch_bridge.py: what forward + backward through diffdispatch.torch takes, beside a hand-written autograd.Function.

usage: python3 bench/torch_bridge.py [--device cpu|cuda] [--elements N] [--blocks N] [--calls N] [--seconds N] [--json] [--save FILE]

Two functions, with the gradients that are wanted: the product y = a * b, one operation of torch, and the polynomial
y = c0 + c1 x + c2 x^2, several. They alternate in one process, block by block; medians of blocks are given, for CPU time of the process
(all its threads) and for the time that passes until the calls return. The last table says where that of one product goes. --json prints
what was measured, --save writes it to a file beside the table, after each block. After --seconds (60) no further block is begun; stopped
earlier (SIGTERM, SIGINT) it prints what is there. Needs torch, the built library (DDISP_LIBRARY, else the newest build of the tree) and the
tests' kernels.
"""
import argparse
import ctypes
import json
import pathlib
import signal
import statistics
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "bindings" / "python"), str(ROOT / "tests" / "python")]

import torch  # noqa: E402

import diffdispatch as dd  # noqa: E402
import diffdispatch.torch as ddt  # noqa: E402
from diffdispatch.torch.frame import launch, pointer  # noqa: E402
from diffdispatch.torch.quick import maker_of, node_of  # noqa: E402
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


BARE = "node without operations, as the bridge makes it"
FORWARD, BACKWARD = "forward launch through ctypes", "backward launch through ctypes"
FINDING, ADDRESSES = "finding where a call goes", "eight addresses, asked and stored"
PAIRS = (("diffdispatch", "torch"), ("diffdispatch, one frozen", "torch, one frozen"), ("diffdispatch, polynomial", "torch, polynomial"),
         ("diffdispatch, kernel adds", "torch"), ("diffdispatch, kernel adds, outputs kept", "torch"),
         ("diffdispatch, kernel adds, one frozen", "torch, one frozen"), ("diffdispatch, forward alone", "torch, forward alone"))


def block(function, calls, synchronize):
    """CPU time and time passed, in nanoseconds per call."""
    cpu, wall = time.process_time_ns(), time.perf_counter_ns()
    for _ in range(calls):
        function()
    result = (time.process_time_ns() - cpu) / calls, (time.perf_counter_ns() - wall) / calls
    synchronize()
    return result


def bare_node(device):
    """The node without operations as the bridge calls and allocates."""
    make = maker_of(device)
    new = (lambda like: make((like.shape[0],), (1,), torch.float32)) if make else torch.empty_like

    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return new(a)

    def backward(ctx, upstream):
        a, b = ctx.saved_tensors
        return new(a), new(b)

    return node_of("bare", forward, backward)[1]


def launches(layout, tensors, stream):
    """Forward and backward launch alone, with everything in its place. tensors: a, b, y, their gradients."""
    forward, backward = layout.forward_frame(), layout.backward_frame([0, 1], [(1,)])
    for i, at in enumerate(layout.order):
        for frame in (forward, backward):
            frame.words[frame.data[at]] = tensors[i].data_ptr()
        where = backward.add if i < 2 else backward.read
        backward.words[where[at]] = tensors[3 + i].data_ptr()
    forward.kept = backward.kept = tensors
    return [lambda arguments=(*frame.arguments, stream), frame=frame: launch(*arguments) for frame in (forward, backward)]


def finding(function, *tensors):
    """What a call goes through until it is known where it goes."""
    function(*tensors)

    def nothing(*arguments):
        return None

    for key, call in list(function._calls.items()):
        function._latest = function._calls[key] = call[0], nothing, nothing
    return lambda: function(*tensors)


def cases_of(device, elements):
    """Name -> function without arguments."""
    kept = cases_of.kept = []
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

    stream = None
    if device.type == "cuda":
        wrapped = dd.default_context().open(f"cuda:{device.index}").wrap_stream(torch.cuda.current_stream(device).cuda_stream)
        stream = pointer(wrapped.handle)
        kept.append(wrapped)
    forward_launch, backward_launch = launches(
        stores._bridge((a, b), ()).layout, [*plain, *(torch.empty_like(plain[0]) for _ in range(3)), upstream], stream)

    def addresses():
        for tensor in inputs_and_gradients:
            words[0] = tensor.data_ptr()

    inputs_and_gradients, words = [*plain, upstream] * 2 + plain, memoryview(bytearray(8)).cast("Q")
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
        BARE: step(bare_node(device), a, b),
        FORWARD: forward_launch,
        BACKWARD: backward_launch,
        FINDING: finding(ddt.Function(kernel("product"), keep_outputs=False), *plain),
        ADDRESSES: addresses,
        "call of a C function through ctypes": dd.raw.ddisp_version,
    }


def where_it_goes(medians):
    """The parts of forward + backward of the product, and what is left."""
    parts = [(name, medians[name]) for name in (BARE, FORWARD, BACKWARD, FINDING, ADDRESSES)]
    rest = medians["diffdispatch"] - sum(value for _, value in parts)
    return parts + [("the rest: frames, kinds of backward, colder caches than those of a loop over one part", rest)]


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
    for function in cases.values():
        block(function, 200, synchronize)
    series = {name: [] for name in cases}
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        done = 0
        while done < options.blocks and (done == 0 or time.monotonic() < end):
            row = {name: block(function, options.calls, synchronize) for name, function in cases.items()}
            done += 1
            for name, times in row.items():
                series[name].append(times)
            if options.save:
                options.save.write_text(json.dumps(summary(series, device, options)) + "\n", encoding="utf-8")
    finally:
        if series["torch"]:
            found = summary(series, device, options)
            print(json.dumps(found)) if options.json else print_tables(found)


def summary(series, device, options):
    """What was measured, as it is saved."""
    cpu, wall = ({name: [times[i] for times in rows] for name, rows in series.items()} for i in (0, 1))
    medians = [{name: statistics.median(times) for name, times in which.items()} for which in (cpu, wall)]
    ratios = {f"{ours} / {theirs}": [statistics.median(one / two for one, two in zip(which[ours], which[theirs])) for which in (cpu, wall)]
              for ours, theirs in PAIRS}
    return {
        "torch": torch.__version__, "diffdispatch": dd.__version__, "device": str(device), "elements": options.elements,
        "device_name": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu", "calls": options.calls,
        "blocks": len(cpu["torch"]), "median_cpu_ns": medians[0], "median_wall_ns": medians[1], "ratios_cpu_wall": ratios,
        "bridge_share_ns_cpu_wall": [which["diffdispatch"] - which["node without operations"] for which in medians],
        "where_it_goes_cpu_ns": dict(where_it_goes(medians[0])), "cpu_ns": cpu, "wall_ns": wall}


def print_tables(found):
    print(f"{found['elements']} elements, {found['device']}, torch {found['torch']}; us per call, medians of {found['blocks']} blocks\n"
          "      CPU     wall")
    for name, value in found["median_cpu_ns"].items():
        print(f"{value / 1000:9.2f}{found['median_wall_ns'][name] / 1000:9.2f}  {name}")
    for name, (one, two) in found["ratios_cpu_wall"].items():
        print(f"{one:9.2f}{two:9.2f}  {name}")
    share = found["bridge_share_ns_cpu_wall"]
    print(f"{share[0] / 1000:9.2f}{share[1] / 1000:9.2f}  the bridge and the library, above a node without operations\n\n"
          "where the CPU time of forward + backward through diffdispatch goes")
    for name, value in found["where_it_goes_cpu_ns"].items():
        print(f"{value / 1000:9.2f}  {name}")


if __name__ == "__main__":
    main()
