#!/usr/bin/env python3
"""bench/launch_peers.py: CPU time of a launch by CuPy, PyTorch, Triton and JAX, beside this library's.

usage: python3 bench/launch_peers.py [--device cpu|cuda] [--elements N] [--blocks N] [--calls N] [--launch PROGRAM] [--seconds N] [--json] [--save FILE]

Launches of y = a * b on small tensors, and forward + backward with one gradient: PyTorch's custom autograd.Function, this library through
its Python package (diffdispatch.torch), and this library from C (the "step" of bench/launch, run as PROGRAM or found in the newest build). What is not installed is left
out and said so. CPU time is that of the process, all its threads; cases alternate block by block, medians are given. Goal: the step from C takes at most
an eighth of autograd.Function's. After --seconds (60) no further block is begun; stopped earlier (SIGTERM, SIGINT) it prints what is there.
"""
import argparse
import json
import pathlib
import signal
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent


def torch_cases(device, elements):
    import torch

    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            return a * b

        @staticmethod
        def backward(ctx, upstream):
            a, b = ctx.saved_tensors
            return (upstream * b if ctx.needs_input_grad[0] else None, upstream * a if ctx.needs_input_grad[1] else None)

    torch.set_num_threads(1)
    a = torch.rand(elements, device=device, requires_grad=True)
    b, upstream = (torch.rand(elements, device=device) for _ in range(2))
    plain = a.detach()
    synchronize = torch.cuda.synchronize if device == "cuda" else lambda: None
    cases = {
        "torch a*b": lambda: plain * b,
        "torch autograd.Function, forward + backward": lambda: Product.apply(a, b).backward(upstream),
    }
    return cases, synchronize


def package_cases(device, elements):
    sys.path[:0] = [str(ROOT / "bindings" / "python"), str(ROOT / "tests" / "python")]
    import torch
    import diffdispatch.torch as ddt
    from testkernels import kernel

    function = ddt.Function(kernel("example"), keep_outputs=False)
    a = torch.rand(elements, device=device, requires_grad=True)
    b, upstream = (torch.rand(elements, device=device) for _ in range(2))
    plain = a.detach()
    synchronize = torch.cuda.synchronize if device == "cuda" else lambda: None
    return {
        "diffdispatch.torch a*b": lambda: function(plain, b),
        "diffdispatch.torch, forward + backward": lambda: function(a, b).backward(upstream),
    }, synchronize


def cupy_cases(device, elements):
    if device != "cuda":
        raise ImportError("it has no CPU")
    import cupy

    source = 'extern "C" __global__ void mul(const float *a, const float *b, float *y) { y[threadIdx.x] = a[threadIdx.x] * b[threadIdx.x]; }'
    kernel = cupy.RawKernel(source, "mul")
    a, b, y = (cupy.ones(elements, dtype=cupy.float32) for _ in range(3))
    return {"CuPy RawKernel": lambda: kernel((1,), (elements,), (a, b, y))}, cupy.cuda.runtime.deviceSynchronize


def triton_cases(device, elements):
    if device != "cuda":
        raise ImportError("it has no CPU")
    import torch
    import triton
    import triton.language as tl

    @triton.jit
    def mul(a, b, y, count: tl.constexpr):
        at = tl.arange(0, count)
        tl.store(y + at, tl.load(a + at) * tl.load(b + at))

    a, b, y = (torch.ones(elements, device=device) for _ in range(3))
    return {"Triton": lambda: mul[(1,)](a, b, y, elements)}, torch.cuda.synchronize


def jax_cases(device, elements):
    import jax

    where = jax.devices("gpu" if device == "cuda" else "cpu")[0]
    a = jax.device_put(jax.numpy.ones(elements), where)
    mul = jax.jit(lambda x, y: x * y)
    return {"jax.jit": lambda: mul(a, a)}, lambda: jax.block_until_ready(mul(a, a))


def block(function, calls, synchronize):
    start = time.process_time_ns()
    for _ in range(calls):
        function()
    spent = (time.process_time_ns() - start) / calls
    synchronize()
    return spent


def from_c(program, device):
    """Nanoseconds of the step from C, by block."""
    if not program:
        built = [found for found in ROOT.glob("build*/bench/launch") if found.is_file()]
        if not built:
            raise FileNotFoundError("bench/launch is not built")
        program = max(built, key=lambda found: found.stat().st_mtime)
    done = subprocess.run([str(program), "--device", "host" if device == "cpu" else device, "--step", "--json"],
                          check=True, capture_output=True, text=True)
    return next(row for row in json.loads(done.stdout)["rows"] if row["row"] == "step")["raw_ns"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--elements", type=int, default=32)
    parser.add_argument("--blocks", type=int, default=31)
    parser.add_argument("--calls", type=int, default=100)
    parser.add_argument("--launch", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--save", type=pathlib.Path)
    options = parser.parse_args()

    cases, missing, series = {}, {}, {}
    for name, make in (("PyTorch", torch_cases), ("diffdispatch.torch", package_cases), ("CuPy", cupy_cases),
                       ("Triton", triton_cases), ("JAX", jax_cases)):
        try:
            found, synchronize = make(options.device, options.elements)
            for case, function in found.items():
                block(function, 3, synchronize)  # compiled here
                cases[case] = function, synchronize
        except Exception as error:  # a peer that does not work here is said so, and the others go on
            missing[name] = f"{type(error).__name__}: {error}".splitlines()[0][:200]
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    end = time.monotonic() + options.seconds
    c = "diffdispatch from C, forward + backward"
    try:
        try:
            series[c] = from_c(options.launch, options.device)
        except (OSError, subprocess.CalledProcessError) as error:
            missing["C"] = getattr(error, "stderr", None) or str(error)
        for number in range(options.blocks):
            if number and time.monotonic() > end:
                break
            row = {case: block(function, options.calls, synchronize) for case, (function, synchronize) in cases.items()}
            for case, spent in row.items():
                series.setdefault(case, []).append(spent)
    finally:
        medians = {case: statistics.median(times) for case, times in series.items()}
        torch_step = medians.get("torch autograd.Function, forward + backward")
        found = {"benchmark": "launch_peers", "device": options.device, "elements": options.elements, "median_ns": medians, "raw_ns": series,
                 "missing": missing, "torch_to_c": torch_step / medians[c] if torch_step and c in medians else None}
        if options.save:
            options.save.write_text(json.dumps(found) + "\n", encoding="utf-8")
        print(json.dumps(found)) if options.json else print_table(found)


def print_table(found):
    for case, value in found["median_ns"].items():
        print(f"{case:48} {value / 1000:9.2f} us")
    for name, reason in found["missing"].items():
        print(f"{name} is left out: {reason}")
    if found["torch_to_c"]:
        print(f"autograd.Function takes {found['torch_to_c']:.1f} times the CPU time of the same step from C")


if __name__ == "__main__":
    main()
