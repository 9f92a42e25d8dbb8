#!/usr/bin/env python3
"""bench/accumulate_torch.py: scatter-add and sums through the library, beside torch's in the same process.

usage: python3 bench/accumulate_torch.py [--device cuda|cpu] [--n N] [--blocks N] [--quick] [--json FILE] [--plot FILE.png] [--beside FILE]

64 Mi adds into 1 to 16 Mi cells, indices by chance and in runs of 64, f32 and f16: scatter_add beside index_add_, each with and
without deterministic results; then the sum of everything, adding equal shapes and copying. Rows take turns, block by block, on one
stream (on CUDA: torch's, timed by events); medians of blocks are given. A row that takes more than 50 ms a call has 3 blocks, one
that takes more than half a second the one call that showed it. --beside takes what `bench/accumulate --json` printed on the same
machine, and adds what Vulkan took to each row. Needs torch and the built library (DDISP_LIBRARY, else the newest build of the
tree); the plot needs matplotlib.
"""
import argparse
import json
import pathlib
import statistics
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bindings" / "python"))

import torch  # noqa: E402

import diffdispatch as dd  # noqa: E402

BLOCK_US, SLOW_US, HOPELESS_US = 3000.0, 50000.0, 500000.0
BESIDE = {"sum of all": "sum of all f32", "accumulate": "accumulate f32", "copy": "copy"}  # names in bench/accumulate
BINS, RUNS = (1, 32, 1024, 65536, 16 << 20), (1, 64)


class Clock:
    """Time of calls: by events of the stream on CUDA, else by the clock."""

    def __init__(self, device):
        self.cuda = device.type == "cuda"

    def __call__(self, function, calls):
        """Microseconds a call."""
        if not self.cuda:
            begin = time.perf_counter()
            for _ in range(calls):
                function()
            return (time.perf_counter() - begin) * 1e6 / calls
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(calls):
            function()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e3 / calls


def measure(clock, rows, blocks):
    """rows: name -> function. Returns name -> list of microseconds, measured in turns."""
    plan, series = {}, {}
    for name, function in rows.items():
        us = clock(function, 1)
        if us < HOPELESS_US:  # the first call may have loaded code
            us = clock(function, 1)
        if us >= HOPELESS_US:
            series[name] = [us]
            continue
        plan[name] = (max(1, int(BLOCK_US / us) + 1), min(3, blocks) if us > SLOW_US else blocks)
        series[name] = []
    for block in range(max([count for _, count in plan.values()], default=0)):
        for name, (calls, count) in plan.items():
            if block < count:
                series[name].append(clock(rows[name], calls))
    return {name: series[name] for name in rows}


def torch_deterministic(function):
    def run():
        torch.use_deterministic_algorithms(True)
        try:
            function()
        finally:
            torch.use_deterministic_algorithms(False)
    return run


class Library:
    """The library's device, and the stream that its work shares with torch's (None: its own)."""

    def __init__(self, device):
        self.device = dd.default_context().open("cuda:0" if device.type == "cuda" else "host")
        self.number = self.stream = None
        if device.type == "cuda":
            torch.cuda.set_stream(torch.cuda.Stream())
            self.number = torch.cuda.current_stream().cuda_stream
            self.stream = self.device.wrap_stream(self.number)

    def take(self, *tensors):
        """The memory of torch's tensors as tensors of the library."""
        return [dd.from_dlpack(tensor, device=self.device, stream=self.number) for tensor in tensors]


def scatter_rows(library, to, index, source):
    """The four ways, on the same memory."""
    ours, ours_index, ours_source = library.take(to, index, source)
    stream = library.stream
    return {
        "ours": lambda: ours.scatter_add(0, ours_index, ours_source, stream=stream),
        "torch": lambda: to.index_add_(0, index, source),
        "ours, deterministic": lambda: ours.scatter_add(0, ours_index, ours_source, deterministic=True, stream=stream),
        "torch, deterministic": torch_deterministic(lambda: to.index_add_(0, index, source)),
    }


def dense_rows(library, source):
    """Name -> the two ways: the sum of everything, adding equal shapes, copying."""
    to = torch.zeros_like(source)
    ours_sum, ours_to, ours_source = library.take(torch.zeros(1, device=source.device), to, source)
    stream = library.stream
    return {
        "sum of all": {"ours": lambda: ours_sum.accumulate(ours_source, stream=stream), "torch": lambda: source.sum()},
        "accumulate": {"ours": lambda: ours_to.accumulate(ours_source, stream=stream), "torch": lambda: to.add_(source)},
        "copy": {"ours": lambda: ours_to.copy_from(ours_source, stream=stream), "torch": lambda: to.copy_(source)},
    }


def read_beside(path):
    """What bench/accumulate measured: (rung, row) -> microseconds, of the Vulkan device."""
    found = {}
    for line in path.read_text().splitlines() if path else ():
        if line.startswith("{"):
            row = json.loads(line)
            if row["backend"] == "vulkan":
                found[row["rung"], row["row"]] = row["median_us"]
    return found


def indices(n, bins, run, device):
    chosen = torch.randint(0, bins, ((n + run - 1) // run,), device=device, dtype=torch.int32)
    return chosen.repeat_interleave(run)[:n].contiguous()


def plot(path, results):
    try:
        import matplotlib
    except ImportError:
        print("no plot: matplotlib is not here", file=sys.stderr)
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot
    figure, axes = pyplot.subplots(2, 2, figsize=(13, 8), sharey=True)
    for column, run in enumerate(RUNS):
        for line, dtype in enumerate(("f32", "f16")):
            axis = axes[line][column]
            chosen = [result for result in results if result.get("run") == run and result["dtype"] == dtype]
            for name in ("ours", "torch", "ours, deterministic", "torch, deterministic"):
                points = [(result["bins"], statistics.median(result["us"])) for result in chosen if result["row"] == name]
                if points:
                    axis.loglog(*zip(*points), "o-" if name.startswith("ours") else "s--", label=name)
            axis.set_title(f"{dtype}, {'by chance' if run == 1 else f'runs of {run}'}")
            axis.set_xlabel("cells")
            axis.set_ylabel("µs")
            axis.grid(True, which="both", alpha=0.3)
    axes[0][0].legend()
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--n", type=int, default=64 << 20)
    parser.add_argument("--blocks", type=int, default=31)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--plot", type=pathlib.Path)
    parser.add_argument("--beside", type=pathlib.Path)
    options = parser.parse_args()
    blocks = min(options.blocks, 5) if options.quick else options.blocks
    device = torch.device(options.device)
    library = Library(device)
    name = torch.cuda.get_device_name() if device.type == "cuda" else "processor"
    print(f"{name}, torch {torch.__version__}; {options.n} elements, {blocks} blocks")
    print(f"{'adds, us':30} {'ours':>11} {'torch':>11} {'ours det.':>11} {'torch det.':>11} {'x':>7} {'det./ours':>9} {'x det.':>7}")
    clock, results, known, beside = Clock(device), [], {}, read_beside(options.beside)
    torch.manual_seed(1)
    for dtype, kind in (("f32", torch.float32), ("f16", torch.float16)):
        source = torch.rand(options.n, device=device).mul_(2).sub_(1).to(kind)
        for run in RUNS:
            for bins in BINS:
                if bins == 1 and run != 1:
                    continue
                index, to = indices(options.n, bins, run, device), torch.zeros(bins, device=device, dtype=kind)
                rows = scatter_rows(library, to, index, source)
                if options.quick and known.get((run, bins), 0) > HOPELESS_US:
                    del rows["torch, deterministic"]  # seconds, which f32 has shown
                series = measure(clock, rows, blocks)
                median = {row: statistics.median(us) for row, us in series.items()}
                known[run, bins] = median.get("torch, deterministic", 0)
                for row, us in series.items():
                    results.append({"row": row, "dtype": dtype, "bins": bins, "run": run, "n": options.n, "us": us})
                theirs = median.get("torch, deterministic", float("nan"))
                name = f"{dtype}, {bins} cells" + (f", runs of {run}" if run > 1 else "")
                print(f"{name:30} {median['ours']:11.1f} "
                      f"{median['torch']:11.1f} {median['ours, deterministic']:11.1f} {theirs:11.1f} "
                      f"{median['torch'] / median['ours']:7.1f} {median['ours, deterministic'] / median['ours']:9.2f} "
                      f"{theirs / median['ours, deterministic']:7.1f}", flush=True)
                vulkan, fixed = beside.get((name, "ours")), beside.get((name, "deterministic"))
                if vulkan and fixed:
                    print(f"{'  on Vulkan':30} {vulkan:11.1f} {median['torch']:11.1f} {fixed:11.1f} {theirs:11.1f} "
                          f"{median['torch'] / vulkan:7.1f} {fixed / vulkan:9.2f} {theirs / fixed:7.1f}", flush=True)
        if dtype == "f32":
            for name, rows in dense_rows(library, source).items():
                series = measure(clock, rows, blocks)
                for row, us in series.items():
                    results.append({"row": row, "dtype": dtype, "dense": name, "n": options.n, "us": us})
                median = {row: statistics.median(us) for row, us in series.items()}
                print(f"{f'f32, {name}':30} {median['ours']:11.1f} {median['torch']:11.1f}"
                      f"{'':24} ours / torch {median['ours'] / median['torch']:.3f}", flush=True)
                vulkan = beside.get(("dense", BESIDE[name]))
                if vulkan:
                    print(f"{'  on Vulkan':30} {vulkan:11.1f} {median['torch']:11.1f}"
                          f"{'':24} ours / torch {vulkan / median['torch']:.3f}", flush=True)
    if options.json:
        options.json.write_text("\n".join(json.dumps(result) for result in results) + "\n")
    if options.plot:
        plot(options.plot, results)


if __name__ == "__main__":
    main()
