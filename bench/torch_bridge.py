#!/usr/bin/env python3
"""bench/torch_bridge.py: CPU time of forward + backward through diffdispatch.torch, beside a hand-written autograd.Function.

usage: python3 bench/torch_bridge.py [--device cpu|cuda] [--elements N] [--blocks N] [--calls N] [--json]

Both compute y = a * b and the gradients of both inputs. They alternate in one process, block by block; medians are given, and where
the bridge's own time goes. Needs torch, the built library (DDISP_LIBRARY, else the build tree) and the tests' kernels.
"""
import argparse
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
from testkernels import kernel  # noqa: E402


class HandWritten(torch.autograd.Function):
    """What one writes today: torch operations, and gradients only where they are needed."""

    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a * b

    @staticmethod
    def backward(ctx, upstream):
        a, b = ctx.saved_tensors
        return (upstream * b if ctx.needs_input_grad[0] else None, upstream * a if ctx.needs_input_grad[1] else None)


def bare(ctx_free):
    """A node of autograd that does nothing: what torch itself takes for one."""
    class Bare(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            return ctx_free[0]

        @staticmethod
        def backward(ctx, upstream):
            ctx.saved_tensors
            return ctx_free[1], ctx_free[2]
    return Bare


def timed(function, calls, synchronize):
    """Nanoseconds of CPU time per call."""
    begin = time.process_time_ns()
    for _ in range(calls):
        function()
    end = time.process_time_ns()
    synchronize()
    return (end - begin) / calls


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--elements", type=int, default=32)
    parser.add_argument("--blocks", type=int, default=40)
    parser.add_argument("--calls", type=int, default=100)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    device = torch.device(options.device)
    synchronize = torch.cuda.synchronize if device.type == "cuda" else (lambda: None)

    a = torch.rand(options.elements, device=device, requires_grad=True)
    b = torch.rand(options.elements, device=device, requires_grad=True)
    frozen = torch.rand(options.elements, device=device)
    upstream = torch.rand(options.elements, device=device)
    plain = [tensor.detach() for tensor in (a, b)]
    mul = ddt.Function(kernel("mul"))
    lean = ddt.Function(kernel("mul"), keep_outputs=False)
    Bare = bare((torch.rand_like(upstream), torch.rand_like(upstream), torch.rand_like(upstream)))

    def step(function, *inputs):
        wanted = tuple(tensor for tensor in inputs if tensor.requires_grad)
        return lambda: torch.autograd.grad(function(*inputs), wanted, upstream)

    cases = {
        "torch": step(HandWritten.apply, a, b),
        "diffdispatch": step(mul, a, b),
        "diffdispatch keep_outputs=False": step(lean, a, b),
        "torch, one frozen": step(HandWritten.apply, a, frozen),
        "diffdispatch, one frozen": step(mul, a, frozen),
        "a node that does nothing": step(Bare.apply, a, b),
        "torch forward": lambda: plain[0] * plain[1],
        "diffdispatch forward": lambda: mul(*plain),
    }
    bridge = mul._bridge((a, b), ())
    outputs = bridge.new_outputs(a)
    detached = (plain[0], plain[1]) + outputs
    frame = bridge._forward_frame()
    parts = {
        "forward in the bridge": lambda: bridge.forward(detached, ()),
        "of it the C call": lambda: dd.torch.frame.launch(*frame.arguments, None) if device.type == "cpu" else None,
        "backward in the bridge": lambda: bridge.backward(detached, (upstream,), (True, True), (), None),
        "finding the bridge": lambda: mul._bridge((a, b), ()),
        "an output": lambda: bridge.new_outputs(a),
    }
    bridge.forward(detached, ())
    for at, tensor in zip(frame.data, detached):
        frame.words[at] = tensor.data_ptr()
    series = {name: [] for name in (*cases, *parts)}
    for function in (*cases.values(), *parts.values()):
        timed(function, 50, synchronize)
    for _ in range(options.blocks):
        for name, function in (*cases.items(), *parts.items()):
            series[name].append(timed(function, options.calls, synchronize))
    medians = {name: statistics.median(values) for name, values in series.items()}
    ratio = statistics.median(ours / theirs for ours, theirs in zip(series["diffdispatch"], series["torch"]))
    share = medians["diffdispatch"] - medians["a node that does nothing"]
    result = {"torch": torch.__version__, "diffdispatch": dd.__version__, "device": str(device), "elements": options.elements,
              "device_name": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu", "median_ns": medians,
              "ratio": ratio, "bridge_share_ns": share, "series_ns": series}
    if options.json:
        print(json.dumps(result))
        return
    print(f"y = a * b on {options.elements} elements, {device}, torch {torch.__version__}: CPU time per call, median of {options.blocks}")
    for name, value in medians.items():
        print(f"  {value / 1000:9.2f} us  {name}")
    print(f"diffdispatch / torch, forward + backward: {ratio:.2f}; the bridge takes {share / 1000:.2f} us above a node that does nothing")


if __name__ == "__main__":
    main()
