#!/usr/bin/env python3
"""The PyTorch bridge over time: training that converges, threads, streams, memory that does not grow."""
import gc
import threading
import unittest

import tap

try:
    import torch
except ImportError:
    tap.skip_all("PyTorch is not installed")

import diffdispatch as dd
import diffdispatch.torch as ddt
from testkernels import kernel
from torch_targets import Bridged, spread

CALLS = tap.environment_int("DDISP_TEST_CALLS", 3000)
THREADS = 8


@spread
class Training(Bridged):
    def test_a_polynomial_is_fitted(self):
        """Five rounds on one function, each from new coefficients."""
        poly = self.function("poly", shapes={"y": "x"})
        x = torch.linspace(-1, 1, 64, device=self.place)
        target = 0.5 - 2 * x + 3 * x * x
        for _ in range(5):
            c = self.rand(3)
            optimizer = torch.optim.Adam([c], lr=0.3)
            losses = []
            for _ in range(60):
                optimizer.zero_grad()
                loss = ((poly(x, c) - target) ** 2).mean()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
            self.assertLess(losses[-1], 0.01)
            self.assertLess(losses[-1], losses[0] / 20)

    def test_a_network_learns_xor(self):
        layer = self.function("layer", shapes={"y": lambda x, w, b: (x[0], w[0])})
        x = self.tensor([[0, 0], [0, 1], [1, 0], [1, 1]])
        target = self.tensor([[-0.9], [0.9], [0.9], [-0.9]])
        parameters = [torch.nn.Parameter(2 * self.rand(*shape, grad=False) - 1) for shape in ((8, 2), (8,), (1, 8), (1,))]
        optimizer = torch.optim.Adam(parameters, lr=0.1)
        for _ in range(150):
            optimizer.zero_grad()
            loss = ((layer(layer(x, *parameters[:2]), *parameters[2:]) - target) ** 2).mean()
            loss.backward()
            optimizer.step()
        self.assertLess(loss.item(), 0.05)

    def test_a_frozen_layer_stays(self):
        layer = self.function("layer", shapes={"y": lambda x, w, b: (x[0], w[0])})
        x, frozen, moving = self.rand(6, 3, grad=False), self.rand(4, 3, grad=False), self.rand(2, 4)
        zeros = [torch.zeros(n, device=self.place) for n in (4, 2)]
        before = frozen.clone()
        optimizer = torch.optim.SGD([moving], lr=0.5)
        first = None
        for _ in range(20):
            optimizer.zero_grad()
            loss = layer(layer(x, frozen, zeros[0]), moving, zeros[1]).pow(2).mean()
            loss.backward()
            optimizer.step()
            first = loss.item() if first is None else first
        self.assertTrue(torch.equal(frozen, before))
        self.assertIsNone(frozen.grad)
        self.assertLess(loss.item(), first)


@spread
class Memory(Bridged):
    def used(self):
        """Bytes that the library has handed out and kept, that torch has, and that are taken on the GPU by whomever."""
        gc.collect()
        device = dd.open(self.device)
        device.synchronize()
        statistics = device.statistics
        result = [statistics["bytes_live"], statistics["bytes_live"] + statistics["bytes_cached"]]
        for spec in {self.device, self.place}:
            if spec.startswith("cuda"):
                torch.cuda.synchronize(spec)
                free, total = torch.cuda.mem_get_info(spec)
                result += [torch.cuda.memory_allocated(spec), torch.cuda.memory_reserved(spec), total - free]
        return result

    def test_device_memory_over_50_iterations(self):
        """128 KiB tensors; both kinds of end: with and without backward."""
        mul = self.function("mul")
        a, b = self.rand(1 << 15), self.rand(1 << 15, grad=False)

        def step():
            mul(a, b)
            mul(a, b).sum().backward()
            a.grad = None

        for _ in range(3):
            step()
        grown = []
        for _ in range(3):  # what leaks does so each time; the GPU may be used by others too
            before = self.used()
            for _ in range(50):
                step()
            grown.append([now - used for used, now in zip(before, self.used())])
        for least in map(min, zip(*grown)):
            self.assertLess(least, 1 << 20, grown)

    def test_many_calls(self):
        mul = self.function("mul")
        a, b = self.rand(64), self.rand(64, grad=False)
        calls, without = (CALLS, 100000) if self.bridge == "native" else (CALLS // 10, CALLS // 10)

        def run(count, count_without):
            for _ in range(count):
                mul(a, b).sum().backward()
            with torch.no_grad():
                for _ in range(count_without):
                    mul(a, b)
            a.grad = None
            gc.collect()

        run(max(calls // 4, 200), without // 10)
        before = tap.resident_bytes()
        live = dd.open(self.device).statistics["bytes_live"]
        run(calls, without)
        self.assertLess(tap.resident_bytes() - before, 8 << 20)
        self.assertLess(dd.open(self.device).statistics["bytes_live"] - live, 1 << 20)

    def test_calls_that_fail_leave_nothing(self):
        mul = self.function("mul")
        good, other = self.rand(64), self.rand(64, dtype=torch.float64)

        def run(count):
            for _ in range(count):
                with self.assertRaises(dd.Error):
                    mul(good, other)
            gc.collect()

        run(300)
        objects, before = len(gc.get_objects()), self.used()[0]
        run(300)
        self.assertLess(len(gc.get_objects()) - objects, 100)
        self.assertLess(self.used()[0] - before, 1 << 20)

    def test_many_shapes(self):
        """More sets of shapes than a function remembers."""
        mul = self.function("mul")
        for n in range(1, 300):
            a = self.rand(n)
            mul(a, a.detach()).sum().backward()
            self.assertEqual(a.grad.shape, (n,))
        self.assertLessEqual(len(mul._bridges), 256)
        a = self.rand(1)
        mul(a, a.detach()).sum().backward()
        self.assertClose(a.grad, a)


@spread
class Threads(Bridged):
    def test_eight_threads_share_a_function(self):
        mul = self.function("mul")
        failures = []

        def work(number):
            try:
                for i in range(40 if self.bridge == "native" else 8):
                    n = 1 + (number + i) % 5
                    a = torch.full((n,), float(number), device=self.place, requires_grad=True)
                    b = torch.full((n,), float(i), device=self.place, requires_grad=i % 2 == 0)
                    y = mul(a, b)
                    y.sum().backward()
                    self.assertEqual(y.tolist(), [number * i] * n)
                    self.assertEqual(a.grad.tolist(), [i] * n)
                    self.assertEqual(None if b.grad is None else b.grad.tolist(), [number] * n if i % 2 == 0 else None)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]

    def test_one_leaf_from_many_threads(self):
        mul = self.function("mul")
        a = torch.ones(16, device=self.place, requires_grad=True)
        outputs = [None] * THREADS

        def work(number):
            outputs[number] = mul(a, torch.full((16,), float(number), device=self.place))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        sum(output.sum() for output in outputs).backward()
        self.assertEqual(a.grad.tolist(), [sum(range(THREADS))] * 16)


@spread
class Streams(Bridged):
    streams = True

    def test_torchs_current_stream_is_followed(self):
        mul = self.function("mul")
        side = torch.cuda.Stream(self.place)
        for _ in range(20):
            with torch.cuda.stream(side):
                a = torch.zeros(1 << 20, device=self.place)
                for _ in range(20):
                    a += 1  # still running when the kernel is queued
                a.requires_grad_()
                y = mul(a, a.detach())
                y.sum().backward()
                total, slope = y.sum().item(), a.grad[-1].item()
            self.assertEqual((total, slope), (400.0 * (1 << 20), 20))

    def test_backward_runs_in_forwards_stream(self):
        mul = self.function("mul")
        side = torch.cuda.Stream(self.place)
        a = torch.ones(1 << 20, device=self.place, requires_grad=True)
        side.wait_stream(torch.cuda.current_stream(self.place))
        with torch.cuda.stream(side):
            y = mul(a, a.detach() * 3).sum()
        torch.cuda.current_stream(self.place).wait_stream(side)
        y.backward()
        self.assertEqual(set(a.grad.tolist()), {3.0})


if __name__ == "__main__":
    tap.main()
