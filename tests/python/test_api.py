#!/usr/bin/env python3
"""The library through its Python package: devices, tensors, kernels, launches, reports, plans, graphs, errors, callbacks."""
import ctypes as C
import gc
import os
import subprocess
import sys
import threading
import unittest

import diffdispatch as dd
import tap
from testkernels import gather, kernel

SPECS = [info.spec for info in dd.default_context().devices]


def devices():
    """Every device of the machine, or the one that DDISP_TEST_DEVICE names."""
    for spec in SPECS:
        yield dd.open(spec)


class Contexts(unittest.TestCase):
    def test_every_device_is_described_before_it_is_opened(self):
        for info in dd.default_context().devices:
            device = dd.open(info.spec)
            self.assertEqual((device.info.name, device.info.backend), (info.name, info.backend))
            device.check()

    def test_a_backend_that_is_not_usable_says_why(self):
        with dd.Context(backends=["host"]) as context:
            self.assertEqual([backend.name for backend in context.backends if backend.device_count], ["host"])
            self.assertEqual([info.spec for info in context.devices], ["host:0"])
        for backend in dd.default_context().backends:
            self.assertTrue(backend.device_count or backend.reason, backend)

    def test_objects_keep_their_context(self):
        context = dd.Context(backends=["host"])
        tensor = context.open("host").tensor([1, 2])
        context.close()
        del context
        gc.collect()
        self.assertEqual(tensor.tolist(), [1, 2])

    def test_errors_carry_status_and_message(self):
        with self.assertRaises(dd.Error) as caught:
            dd.open("no-such-backend")
        self.assertEqual(caught.exception.status, dd.Status.NOT_FOUND)
        self.assertIn("no-such-backend", str(caught.exception))
        self.assertIn("NOT_FOUND", str(caught.exception))

    def test_missing_library_is_told_with_every_place(self):
        result = subprocess.run([sys.executable, "-c", "import diffdispatch"], text=True, capture_output=True,
                                env={**os.environ, "DDISP_LIBRARY": "/nowhere/libdiffdispatch.so.0"})
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("/nowhere/libdiffdispatch.so.0: no such file", result.stderr)


class Tensors(unittest.TestCase):
    def test_numbers_go_in_and_come_out(self):
        for device in devices():
            for dtype, values in (("f32", [[1.5, -2], [3, 4]]), ("f64", [[1e300, 2]]), ("i32", [[-5], [7]]), ("u8", [255, 0]),
                                  ("bool", [True, False]), ("f16", [0.5, 2]), ("bf16", [1, -3]), ("i64", [2**40])):
                tensor = device.tensor(values, dtype=dtype)
                self.assertEqual(tensor.tolist(), values, (device, dtype))
            self.assertEqual(device.tensor(7).item(), 7)
            self.assertEqual(device.tensor(7).shape, ())
            self.assertEqual(device.empty((0, 3)).tolist(), [])

    def test_buffers_are_taken_with_their_dtype(self):
        device = dd.open("host")
        import array
        self.assertEqual(device.tensor(array.array("d", [1, 2])).dtype, dd.DType.F64)
        self.assertEqual(device.tensor(memoryview(bytes([1, 2, 3]))).tolist(), [1, 2, 3])
        with self.assertRaisesRegex(TypeError, "data is f64, dtype asks for f32"):
            device.tensor(array.array("d", [1]), dtype="f32")
        with self.assertRaisesRegex(ValueError, "different lengths"):
            device.tensor([[1], [2, 3]])
        with self.assertRaisesRegex(TypeError, "no dtype"):
            device.empty(3, "f128")

    def test_gradient_states(self):
        for device in devices():
            tensor, frozen = device.tensor([1, 2], requires_grad=True), device.tensor([1, 2])
            self.assertEqual((tensor.grad_state, frozen.grad_state), (dd.GradState.EMPTY, dd.GradState.NONE))
            self.assertIsNone(frozen.grad)
            tensor.grad = device.tensor([3, 4])
            self.assertEqual(tensor.grad.tolist(), [3, 4])
            tensor.clear_grad()
            self.assertEqual(tensor.grad_state, dd.GradState.EMPTY)
            tensor.requires_grad = False
            self.assertIsNone(tensor.grad)
            with self.assertRaises(dd.Error) as caught:
                frozen.grad = tensor
            self.assertEqual(caught.exception.status, dd.Status.NO_GRADIENT)

    def test_views_and_element_wise_operations(self):
        for device in devices():
            base = device.tensor([[1, 2, 3], [4, 5, 6]])
            turned = base.as_strided((3, 2), (1, 3))
            self.assertEqual(turned.tolist(), [[1, 4], [2, 5], [3, 6]])
            sums = device.zeros((1, 3))
            sums.accumulate(base, alpha=2)
            self.assertEqual(sums.tolist(), [[10, 14, 18]])
            bins = device.zeros(3)
            bins.scatter_add(0, device.tensor([2, 0, 2], dtype="i32"), device.tensor([1, 10, 100]))
            self.assertEqual(bins.tolist(), [10, 0, 101])
            copied = device.empty((2, 3))
            copied.copy_from(device.tensor([7, 8, 9]))
            self.assertEqual(copied.tolist(), [[7, 8, 9]] * 2)

    def test_buffers_streams_and_events(self):
        for device in devices():
            buffer, stream, event = device.buffer(8), device.stream(), device.event()
            self.assertEqual(buffer.size_bytes, 8)
            buffer.write(b"abcdefgh", stream=stream)
            event.record(stream)
            event.synchronize()
            self.assertTrue(event.done)
            self.assertEqual(bytes(buffer.read(4, offset_bytes=2, stream=stream)), b"cdef")
            stream.synchronize()
            device.synchronize()
            device.trim()

    def test_time_between_events_and_a_limit_of_memory(self):
        for device in devices():
            begin, end, plain = device.event(timed=True), device.event(timed=True), device.event()
            begin.record()
            end.record()
            plain.record()
            self.assertGreaterEqual(begin.elapsed_ns(end), 0)
            with self.assertRaisesRegex(dd.Error, "EVENT_TIMED"):
                begin.elapsed_ns(plain)
            live = device.statistics["bytes_live"]
            device.limit_memory(live + 1000)
            try:
                with self.assertRaisesRegex(dd.Error, "limit of"):
                    device.buffer(1001)
                self.assertEqual(device.statistics["memory_limit_bytes"], live + 1000)
            finally:
                device.limit_memory(0)


class Launches(unittest.TestCase):
    def setUp(self):
        self.mul = kernel("mul")

    def mixture(self, device, a_grad, b_grad):
        a = device.tensor([1, 2, 3], requires_grad=a_grad)
        b = device.tensor([4, 5, 6], requires_grad=b_grad)
        y = device.zeros(3, requires_grad=True)
        self.mul.forward(a, b, y)
        self.assertEqual(y.tolist(), [4, 10, 18])
        y.grad = device.tensor([1, 10, 100])
        return a, b, y

    def test_mixtures_of_gradients(self):
        for device in devices():
            for a_grad in (True, False):
                for b_grad in (True, False):
                    a, b, y = self.mixture(device, a_grad, b_grad)
                    self.mul.backward(a, b, y)
                    self.assertEqual(a.grad and a.grad.tolist(), [4, 50, 600] if a_grad else None)
                    self.assertEqual(b.grad and b.grad.tolist(), [1, 20, 300] if b_grad else None)

    def test_report_says_what_backs_each_slot(self):
        for device in devices():
            a, b, y = self.mixture(device, True, False)
            report = dd.Report(self.mul.context)
            self.mul.backward(a, b, y, report=report)
            self.assertTrue(report.launched)
            self.assertEqual(report.items, 3)
            backings = {(slot.param, slot.is_add): slot.backing for slot in report.slots}
            self.assertEqual(backings, {(0, True): dd.Backing.REAL, (1, True): dd.Backing.OMITTED, (2, False): dd.Backing.REAL})
            self.assertIn("mul backward", str(report))
            self.assertIn("frozen", report.label)
            self.assertEqual(len(report.signature), 16)

    def test_policies_flags_and_explicit_addresses(self):
        device = dd.open("host")
        a, b, y = self.mixture(device, True, False)
        with self.assertRaises(dd.Error) as caught:
            self.mul.backward(a, dd.Arg(b, policy=dd.Policy.REJECT), y)
        self.assertEqual(caught.exception.status, dd.Status.GRADIENT_REJECTED)
        self.mul.backward(a, b, y, policy=dd.Policy.SCRATCH, keep_upstream=True)
        self.mul.backward(a, b, y, policy=dd.Policy.GUARD, keep_upstream=True)
        self.assertEqual(a.grad.tolist(), [8, 100, 1200])
        self.mul.backward(a, b, y, overwrite=True)
        self.assertEqual(a.grad.tolist(), [4, 50, 600])
        with self.assertRaisesRegex(dd.Error, "'y' .*no upstream"):
            self.mul.backward(a, b, y)
        self.mul.backward(a, b, y, zero_upstream=True)
        target, upstream = device.zeros(3), device.tensor([1, 1, 1])
        view = dd.View(a.address, "f32", (3,), requires_grad=True)
        self.mul.backward(dd.Arg(view, grad_add=target.address), b, dd.Arg(y, grad_read=upstream.address), device=device)
        self.assertEqual(target.tolist(), [4, 5, 6])

    def test_wrong_arguments_are_named(self):
        device = dd.open("host")
        a, y = device.tensor([1, 2]), device.zeros(2)
        with self.assertRaises(dd.Error) as caught:
            self.mul.forward(a, device.tensor([1, 2], dtype="i32"), y)
        self.assertEqual((caught.exception.status, caught.exception.argument), (dd.Status.DTYPE_MISMATCH, 1))
        with self.assertRaisesRegex(TypeError, "takes 3 arguments, 2 were given"):
            self.mul.forward(a, y)
        with self.assertRaisesRegex(TypeError, "parameter 'b' is a tensor; a float was given"):
            self.mul.forward(a, 1.0, y)
        scale = kernel("scale")
        scale.forward(a, 2, y)
        self.assertEqual(y.tolist(), [2, 4])
        with self.assertRaises(TypeError):
            scale.forward(a, "two", y)

    def test_plans_launch_with_other_tensors_of_one_signature(self):
        for device in devices():
            a, b, y = device.tensor([1, 2]), device.tensor([3, 4]), device.zeros(2)
            plan = self.mul.plan(dd.FORWARD, a, b, y)
            other = device.zeros(2)
            plan.launch(a, b, y)
            plan.launch(y, b, other)
            self.assertEqual((y.tolist(), other.tolist()), ([3, 8], [9, 32]))
            with self.assertRaises(dd.Error):
                plan.launch(a.as_strided((2,), (0,)), b, y)

    def test_a_step_is_captured_and_replayed(self):
        for device in devices():
            stream = device.stream()
            a, b, y = device.tensor([1, 2]), device.tensor([3, 4]), device.zeros(2)
            try:
                with dd.capture(stream) as step:
                    self.mul.forward(a, b, y, stream=stream)
                    self.mul.forward(y, b, a, stream=stream)
            except dd.Error as error:
                self.assertEqual(error.status, dd.Status.UNSUPPORTED)
                continue
            self.assertEqual(step.launch_count, 2)
            self.assertEqual(a.tolist(), [1, 2])
            step.launch(stream)
            step.launch(stream)
            stream.synchronize()
            self.assertEqual(a.tolist(), [81, 512])

    def test_text_for_cuda(self):
        if not any("cuda-c++" in info.formats for info in dd.default_context().devices):
            self.skipTest("no CUDA device, or NVRTC is not installed")
        text = """
#include <diffdispatch/device/ddisp.cuh>
DDISP_KERNEL(cube_forward, 2)
{
    auto x = DDISP_TENSOR(float, 0), y = DDISP_TENSOR(float, 1);
    DDISP_FOR_EACH_ITEM(i) y.store(i, x[i] * x[i] * x[i]);
}
DDISP_KERNEL(cube_backward, 2)
{
    auto x = DDISP_TENSOR(float, 0), y = DDISP_TENSOR(float, 1);
    DDISP_FOR_EACH_ITEM(i) x.add_grad(i, 3 * x[i] * x[i] * y.grad(i));
}
"""
        entries = [dd.Entry(mode, name, group_size=(256, 1, 1), loops=True)
                   for mode, name in ((dd.FORWARD, "cube_forward"), (dd.BACKWARD, "cube_backward"))]
        cube = dd.Kernel(dd.default_context(), "cube",
                         [dd.Param("x", dd.IN, "f32", differentiable=True), dd.Param("y", dd.OUT, "f32", differentiable=True)],
                         [dd.Code("cuda", "cuda-c++", text, entries, headers=dd.device_headers(), null_safe=True, any_layout=True)])
        device = dd.open("cuda")
        x, y = device.tensor([1, 2, 3], requires_grad=True), device.zeros(3, requires_grad=True)
        cube.forward(x, y)
        y.grad = device.tensor([1, 1, 1])
        cube.backward(x, y)
        self.assertEqual((y.tolist(), x.grad.tolist()), ([1, 8, 27], [3, 12, 27]))

    def test_headers_for_cuda_are_found(self):
        headers = dd.device_headers()
        self.assertEqual(set(headers), {"diffdispatch/device/ddisp.cuh", "ddisp_add.cuh", "ddisp_block.h"})
        with self.assertRaisesRegex(FileNotFoundError, "/nowhere"):
            dd.device_headers("/nowhere")

    def test_a_host_kernel_in_python(self):
        device = dd.open("host")

        def shift(block, begin, end):
            views = C.cast(C.addressof(block.contents) + C.sizeof(dd._abi.ddisp_block), C.POINTER(dd._abi.ddisp_device_tensor))
            x, y = (C.cast(views[i].data, C.POINTER(C.c_float)) for i in range(2))
            for i in range(begin, end):
                y[i] = x[i] + 1

        add = dd.Kernel(dd.default_context(), "add_one", [dd.Param("x", dd.IN, "f32"), dd.Param("y", dd.OUT, "f32")],
                        [dd.Code("host", "host-function", entries=[dd.Entry(dd.FORWARD, function=shift, function_id=77)])])
        x, y = device.tensor(list(range(1000))), device.zeros(1000)
        add.forward(x, y)
        self.assertEqual(y.tolist(), [i + 1 for i in range(1000)])


class Memory(unittest.TestCase):
    def test_100000_launches(self):
        """The process does not grow: launches, views of gradients and reports of them, on the host."""
        device, mul = dd.open("host"), kernel("mul")
        a, b, y = device.tensor([1] * 8, requires_grad=True), device.tensor([2] * 8), device.zeros(8, requires_grad=True)
        upstream = device.tensor([1] * 8)

        def run(steps):
            for i in range(steps):
                mul.forward(a, b, y)
                y.grad = upstream
                mul.backward(a, b, y)
                if i % 10 == 0:
                    a.grad.close()
                    a.grad = None
            device.synchronize()
            gc.collect()

        run(5000)
        before, live = tap.resident_bytes(), device.statistics["bytes_live"]
        run(50000)
        self.assertLess(tap.resident_bytes() - before, 2 << 20)
        self.assertEqual(device.statistics["bytes_live"], live)


class Callbacks(unittest.TestCase):
    def test_case_52_no_call_after_a_log_is_closed(self):
        """Eight threads provoke messages; closing the context ends the calls though its devices live on."""
        calls = []
        context = dd.Context(backends=["host"], log_level=dd.LogLevel.DEBUG, log=lambda level, message: calls.append(message))
        device = context.open("host")
        heard = len(calls)
        self.assertGreater(heard, 0)
        mul = kernel("mul", context=context)
        context.close()
        heard = len(calls)
        gc.collect()

        def work():
            y = device.zeros(2)
            for _ in range(200):
                tensor = device.tensor([1, 2])
                tensor.fill(3)
                mul.forward(tensor, tensor, y)

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(calls), heard)
        del mul

    def test_case_52_release_hooks_run_once(self):
        device = dd.open("host")
        memory = (C.c_float * 4)(1, 2, 3, 4)
        released = []
        for i in range(100):
            buffer = device.wrap(C.addressof(memory), 16, lambda i=i: released.append(i))
            gc.collect() if i % 25 == 0 else None
            self.assertEqual(bytes(buffer.read(4)), bytes(C.c_float(1)))
            buffer.close()
        device.synchronize()
        self.assertEqual(released, list(range(100)))

    def test_case_52_release_hook_of_many_threads(self):
        device = dd.open("host")
        memory = (C.c_float * 4)()
        released = []

        def work():
            for _ in range(100):
                device.wrap(C.addressof(memory), 16, lambda: released.append(1)).close()

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        device.synchronize()
        self.assertEqual(len(released), 800)

    def test_failed_wrap_calls_nothing(self):
        released = []
        with self.assertRaises(dd.Error):
            dd.open("host").wrap(0, 16, lambda: released.append(1))
        gc.collect()
        self.assertEqual(released, [])


class Deterministic(unittest.TestCase):
    """Deterministic mode: y[i] = x[index[i]] + s[0], backward. What is added is 1 each time, but for one value."""

    def problem(self, device, value=1.0):
        x, s = device.zeros(3, requires_grad=True), device.zeros(1, requires_grad=True)
        index, y = device.tensor([0] * 100, dtype="i32"), device.zeros(100, requires_grad=True)
        y.grad = device.tensor([1.0] * 37 + [value] + [1.0] * 62)
        return x, index, s, y

    def devices(self):
        """Those with 64-bit integers that may be added to."""
        found = [device for device in devices() if device.info.atomic_add_i64]
        self.assertTrue(found)
        return found

    def test_gradients_are_shadowed_when_asked(self):
        bins = kernel("bins_f32")
        for device in self.devices():
            report = dd.Report(bins.context)
            for options, backing in ((dict(), dd.Backing.REAL), (dict(deterministic=True), dd.Backing.SHADOW)):
                problem = self.problem(device, 0.5)
                bins.backward(*problem, report=report, **options)
                self.assertEqual({slot.backing for slot in report.slots if slot.is_add}, {backing})
                self.assertEqual((problem[0].grad.tolist(), problem[2].grad.tolist()), ([99.5, 0, 0], [99.5]))

    def test_bounds_of_every_form(self):
        bins = kernel("bins_f32")
        for device in self.devices():
            for bounds in (None, 1, 1.5, dd.Bound(1), dd.Bound(1, adds=100), {"x": 1, "s": dd.Bound(2, 1000)}, {"x": 1}, {}):
                problem = self.problem(device)
                bins.backward(*problem, deterministic=True, bounds=bounds)
                self.assertEqual((problem[0].grad.tolist(), problem[2].grad.tolist()), ([100, 0, 0], [100]))

    def test_values_beyond_a_declared_bound_are_told_by_a_wait_or_a_read(self):
        bins = kernel("bins_f32")
        for device in self.devices():
            for tell in (lambda x: device.synchronize(), lambda x: x.grad.tolist()):
                for value, text in ((1e6, "beyond the declared bound"), (float("nan"), "not finite")):
                    problem = self.problem(device, value)
                    bins.backward(*problem, deterministic=True, bounds={"x": 1.0, "s": 1e9})
                    with self.assertRaisesRegex(dd.Error, f"bins_f32.*'x'.*{text}") as caught:
                        tell(problem[0])
                    self.assertEqual(caught.exception.status, dd.Status.BOUND_EXCEEDED)
                    try:
                        device.synchronize()
                    except dd.Error as error:  # the same value for the other parameter
                        self.assertIn("'s'", str(error))
                    device.synchronize()
                    self.assertEqual(problem[0].grad.tolist(), [99, 0, 0])

    def test_more_values_than_declared_are_told(self):
        bins = kernel("bins_f32")
        for device in self.devices():
            problem, stream = self.problem(device), device.stream()
            device.synchronize()
            bins.backward(*problem, deterministic=True, bounds=dd.Bound(1, adds=64), stream=stream)
            with self.assertRaisesRegex(dd.Error, "bins_f32.*more values than were declared"):
                stream.synchronize()
            stream.synchronize()

    def test_a_launch_that_looks_for_a_bound_and_finds_none_changes_nothing(self):
        bins = kernel("bins_f32")
        for device in self.devices():
            problem = self.problem(device, float("inf"))
            with self.assertRaisesRegex(dd.Error, "bins_f32.*'x'.*not finite") as caught:
                bins.backward(*problem, deterministic=True)
            self.assertEqual(caught.exception.status, dd.Status.BOUND_EXCEEDED)
            self.assertEqual(problem[0].grad_state, dd.GradState.EMPTY)
            device.synchronize()

    def test_wrong_bounds_are_named(self):
        bins, device = kernel("bins_f32"), dd.open("host")
        with self.assertRaisesRegex(ValueError, "bins_f32: bounds names 'z'; parameters are x, index, s, y"):
            bins.backward(*self.problem(device), deterministic=True, bounds={"z": 1})
        for bounds, text in ((-1, r"bounds\[0\].bound"), ({"index": 1}, "'index'"), ({"s": 1, "x": float("nan")}, r"bounds\[1\].bound")):
            with self.assertRaisesRegex(dd.Error, text) as caught:
                bins.backward(*self.problem(device), deterministic=True, bounds=bounds)
            self.assertEqual(caught.exception.status, dd.Status.INVALID_ARGUMENT)

    def test_a_context_that_asks_for_it(self):
        with dd.Context(deterministic=True) as context:
            for device in [context.open(device.spec) for device in self.devices()]:
                bins, report = kernel("bins_f32", context), dd.Report(context)
                problem = self.problem(device)
                bins.backward(*problem, report=report, bounds=1)
                self.assertEqual({slot.backing for slot in report.slots if slot.is_add}, {dd.Backing.SHADOW})
                opaque = kernel("mul_opaque", context)
                a, b, y = device.tensor([1.0], requires_grad=True), device.tensor([1.0]), device.tensor([1.0], requires_grad=True)
                y.grad = device.tensor([1.0])
                with self.assertRaisesRegex(dd.Error, "mul_opaque") as caught:
                    opaque.backward(a, b, y)
                self.assertEqual(caught.exception.status, dd.Status.UNSUPPORTED)

    def test_plans(self):
        bins = kernel("bins_f32")
        for device in self.devices():
            problem = self.problem(device)
            plan = bins.plan(dd.BACKWARD, *problem, deterministic=True, bounds=dd.Bound(1))
            plan.launch(*problem)
            self.assertEqual(problem[0].grad.tolist(), [100, 0, 0])
            problem = self.problem(device, 1e9)
            plan.launch(*problem)
            with self.assertRaisesRegex(dd.Error, "beyond the declared bound"):
                device.synchronize()

    def test_codes_of_the_program(self):
        """Sums of numbers of very different size come out the same in any order."""
        device, context = dd.open("host"), dd.default_context()
        numbers = [1e8, 1.0, -1e8, 3e-5] * 500
        found = set()
        for order in (numbers, numbers[::-1], sorted(numbers)):
            x, index, y = device.zeros(1, requires_grad=True), device.tensor([0] * 2000, dtype="i32"), device.zeros(2000, requires_grad=True)
            y.grad = device.tensor(order)
            gather(context).backward(x, index, y, deterministic=True)
            found.add(x.grad.item())
        self.assertEqual(len(found), 1)
        self.assertLess(abs(found.pop() - 500.015), 0.01)


if __name__ == "__main__":
    tap.main()
