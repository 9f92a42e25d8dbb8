#!/usr/bin/env python3
"""Kernels as functions of PyTorch tensors: values and gradients, whatever the tensors are like, on every device, native and staged."""
import contextlib
import itertools
import threading
import types
import unittest
import unittest.mock

import tap

try:
    import torch
except ImportError:
    tap.skip_all("PyTorch is not installed")

import diffdispatch as dd
import diffdispatch.torch as ddt
from testkernels import gather, kernel
from torch_targets import Bridged, spread, two_places


def product(a, b):
    return a * b


@spread
class Mixtures(Bridged):
    """What this project began with: two differentiable inputs, each with and without requires_grad."""

    def mixed(self, mul, a_grad, b_grad):
        a, b = self.tensor([1, 2, 3], a_grad), self.tensor([4, 5, 6], b_grad)
        y = mul(a, b)
        self.assertEqual(y.tolist(), [4, 10, 18])
        self.assertEqual(y.requires_grad, a_grad or b_grad)
        if a_grad or b_grad:
            y.backward(self.tensor([1, 10, 100]))
        self.assertEqual(a.grad.tolist() if a_grad else a.grad, [4, 50, 600] if a_grad else None)
        self.assertEqual(b.grad.tolist() if b_grad else b.grad, [1, 20, 300] if b_grad else None)

    def test_every_order_of_the_four_mixtures(self):
        for name in ("mul", "mul_guarded", "mul_opaque", "example", "product"):
            mul = self.function(name)
            for order in itertools.permutations(itertools.product((True, False), repeat=2)):
                for a_grad, b_grad in order:
                    self.mixed(mul, a_grad, b_grad)

    def test_every_policy_for_the_frozen_input(self):
        for policy in (dd.Policy.AUTO, dd.Policy.SPECIALIZE, dd.Policy.GUARD, dd.Policy.SCRATCH):
            self.mixed(self.function("mul", policy=policy), True, False)
        with self.assertRaisesRegex(dd.Error, "'b'"):
            self.mixed(self.function("mul", policy=dd.Policy.REJECT), True, False)

    def test_case_1_a_call_without_grad_first(self):
        linear = self.function("linear")
        a, b = self.tensor([1, 2, 3, 4]), self.tensor([5, 6, 7, 8])
        with torch.no_grad():
            self.assertEqual(linear(a, b).tolist(), [7, 10, 13, 16])
            self.assertFalse(linear(a.requires_grad_(), b).requires_grad)
        b.requires_grad_()
        linear(a, b).sum().backward()
        self.assertEqual((a.grad.tolist(), b.grad.tolist()), ([2] * 4, [1] * 4))

    def test_second_calls_find_everything(self):
        mul = self.function("mul")
        for order in ((True, False), (False, True), (True, True), (False, False)), ((True, True), (True, False)):
            for a_grad, b_grad in order:
                self.mixed(mul, a_grad, b_grad)
            built = mul.kernel.statistics["variants_built"]
            for a_grad, b_grad in order:
                self.mixed(mul, a_grad, b_grad)
            self.assertEqual((mul.kernel.statistics["variants_built"], len(mul._bridges)), (built, 1))

    def test_gradients_go_only_to_leaves_that_want_them(self):
        mul = self.function("mul")
        w, x = self.rand(4), self.rand(4, grad=False)
        hidden = mul(w, x)
        mul(hidden, x).sum().backward()
        self.assertClose(w.grad, x * x)
        self.assertIsNone(x.grad)


@spread
class Layouts(Bridged):
    """Tensors as they lie."""

    def test_ranks(self):
        mul = self.function("mul")
        for rank in range(9):
            shape = [3, 2, 1, 2, 3, 1, 2, 2][:rank]
            self.assertSame(mul, product, self.rand(*shape) if rank else self.tensor(2, True), self.rand(*shape) if rank else self.tensor(3, True))
        nine = [1] * 9
        with self.assertRaisesRegex(dd.Error, "'a' .*rank is 9"):
            mul(self.rand(*nine), self.rand(*nine))

    def test_broadcast(self):
        for name in ("mul", "product"):
            mul = self.function(name)
            for one, two in (((3, 4), (4,)), ((3, 1), (1, 4)), ((2, 3, 1, 5), (2, 1, 4, 5)), ((5,), ()), ((1,), (1, 1)), ((2, 0), (1,))):
                a, b = (self.rand(*shape) if shape else self.tensor(2, True) for shape in (one, two))
                self.assertSame(mul, product, a, b)
                self.assertSame(mul, product, b, a)

    def test_broadcast_of_a_frozen_input(self):
        self.assertSame(self.function("mul"), product, self.rand(36, 14, 6), self.rand(6, grad=False))
        self.assertSame(self.function("mul"), product, self.rand(36, 14, 6, grad=False), self.rand(6), tolerance=1e-3)

    def test_slices_offsets_and_transposes(self):
        for name in ("mul", "product"):
            mul = self.function(name)
            base = self.rand(6, 8)
            for view in (lambda t: t[1:4, 2:7], lambda t: t[::2, 1::3], lambda t: t.t()[:3, :4], lambda t: t[2], lambda t: t[:, 3],
                         lambda t: t.reshape(2, 3, 8).permute(2, 0, 1)[::3], lambda t: t.flatten()[5:6]):
                self.assertSame(lambda t: mul(view(t), view(t) + 0), lambda t: view(t) * view(t), base)

    def test_expanded_inputs(self):
        for name in ("mul", "product"):
            mul = self.function(name)
            a, b = self.rand(3, 1), self.rand(1)
            self.assertSame(lambda a, b: mul(a.expand(3, 4), b.expand(3, 4)), product, a.detach().expand(3, 4).clone().requires_grad_(),
                            b.detach().expand(3, 4).clone().requires_grad_())
            mul(a.expand(3, 4), b.expand(3, 4)).sum().backward()
            self.assertClose(a.grad, (4 * b).expand(3, 1))
            self.assertClose(b.grad, (4 * a.sum()).reshape(1))

    def test_upstreams_of_any_layout(self):
        for name in ("mul", "product"):
            mul = self.function(name)
            for upstream in (self.rand(3, 4, grad=False), self.rand(4, 3, grad=False).t(), self.rand(1, grad=False).expand(3, 4),
                             self.rand(3, 1, grad=False).expand(3, 4), self.rand(6, 8, grad=False)[::2, ::2]):
                before = upstream.clone()
                a, b = self.rand(3, 4), self.rand(3, 4)
                ours = torch.autograd.grad(mul(a, b), (a, b), upstream)
                self.assertClose(ours[0], upstream * b)
                self.assertClose(ours[1], upstream * a)
                self.assertTrue(torch.equal(upstream, before))

    def test_wrong_trailing_dimension(self):
        mul = self.function("mul")
        with self.assertRaisesRegex(ValueError, r"mul: parameter 'b' has shape \[3, 5\], which does not broadcast with \[3, 4\]"):
            mul(self.rand(3, 4), self.rand(3, 5))
        self.assertSame(mul, product, self.rand(3, 4), self.rand(3, 4))

    def test_no_elements(self):
        mul = self.function("mul")
        for shape in ((0,), (0, 16, 3), (2, 0)):
            a, b = self.rand(*shape), self.rand(*shape)
            y = mul(a, b)
            y.sum().backward()
            self.assertEqual((y.shape, a.grad.shape, b.grad.shape), (a.shape,) * 3)
        self.assertSame(mul, product, self.rand(3), self.rand(3))

    def test_negatives_that_torch_puts_off(self):
        mul, inout = self.function("mul"), self.function("inout")
        lazy = torch.complex(self.rand(4, grad=False), self.rand(4, grad=False)).conj().imag
        self.assertTrue(lazy.is_neg())
        a = self.rand(4)
        self.assertSame(mul, product, a, lazy)
        gradient, = torch.autograd.grad(mul(a, a.detach()), a, lazy)
        self.assertClose(gradient, a * lazy)
        with self.assertRaisesRegex(TypeError, "'x' is written, and torch keeps its tensor as the negative"):
            inout(lazy, 2.0)

    def test_one_tensor_twice(self):
        for name in ("mul", "product"):
            x = self.rand(5)
            self.function(name)(x, x).sum().backward()
            self.assertClose(x.grad, 2 * x)

    def test_outputs_of_other_shapes(self):
        poly = self.function("poly", shapes={"y": "x"})
        self.assertSame(poly, lambda x, c: c[0] + c[1] * x + c[2] * x * x, self.rand(4, 3), self.rand(3))
        layer = self.function("layer", shapes={"y": lambda x, w, b: (x[0], w[0])})
        self.assertSame(layer, lambda x, w, b: torch.tanh(x @ w.t() + b), self.rand(5, 7), self.rand(4, 7), self.rand(4))
        with self.assertRaisesRegex(TypeError, "says nothing of output 'y'"):
            self.function("poly", shapes={"z": "x"})(self.rand(3), self.rand(3))
        with self.assertRaisesRegex(TypeError, "names 'q' for output 'y'"):
            self.function("poly", shapes={"y": "q"})(self.rand(3), self.rand(3))


@spread
class Types(Bridged):
    def test_dtypes_and_ranks_in_both_orders(self):
        for first, second in ((torch.float32, torch.float64), (torch.float64, torch.float32)):
            for ranks in ((1, 3), (3, 1)):
                mul = self.function("product")
                for dtype in (first, second, first):
                    for rank in ranks:
                        self.assertSame(mul, product, self.rand(*[2] * rank, dtype=dtype), self.rand(*[2] * rank, dtype=dtype))

    def test_gradients_of_f64_against_finite_differences(self):
        mul = self.function("product")
        a, b = (self.rand(3, 2, dtype=torch.float64) for _ in range(2))
        self.assertTrue(torch.autograd.gradcheck(mul, (a, b)))

    def test_halves_are_summed_in_f32(self):
        half = self.function("half")
        x = torch.ones(1, dtype=torch.float16, device=self.place, requires_grad=True)
        half(x.expand(4096)).sum().backward()
        self.assertEqual((x.grad.dtype, x.grad.item()), (torch.float16, 8192))

    def test_an_index_is_an_input_without_gradient(self):
        index = self.function("index")
        v, i = self.tensor([1, 2, 3], True), self.tensor([1, 2, 3], dtype=torch.int32)
        y = index(v, i)
        y.sum().backward()
        self.assertEqual((y.tolist(), v.grad.tolist(), i.grad), ([1, 4, 9], [1, 2, 3], None))

    def test_an_output_of_another_dtype(self):
        x = self.tensor([1.5, 2], True)
        y = self.function("widen")(x)
        self.assertEqual((y.dtype, y.tolist()), (torch.float64, [1.5, 2]))
        y.sum().backward()
        self.assertEqual((x.grad.dtype, x.grad.tolist()), (torch.float32, [1, 1]))

    def test_scalars(self):
        scale = self.function("scale")
        x = self.rand(4)
        for k in (2, 0.5, -3):
            self.assertSame(lambda x: scale(x, k), lambda x: k * x, x)
        with self.assertRaises(TypeError):
            scale(x, "two")
        with self.assertRaises(TypeError):
            scale(x)
        self.assertSame(lambda x: scale(x, 2), lambda x: 2 * x, x)

    def test_wrong_dtypes_and_devices_are_named(self):
        mul = self.function("mul")
        good = self.rand(4)
        with self.assertRaisesRegex(dd.Error, "'b' .*is f64.*kernel wants f32"):
            mul(good, self.rand(4, dtype=torch.float64))
        with self.assertRaisesRegex(TypeError, "mul: parameter 'b' is torch.complex64"):
            mul(good, torch.zeros(4, dtype=torch.complex64, device=self.place))
        with self.assertRaisesRegex(TypeError, "mul: parameter 'a' is torch.sparse_coo"):
            mul(torch.zeros(4, 4, device=self.place).to_sparse(), good)
        with self.assertRaisesRegex(TypeError, "mul: parameter 'b' is a tensor; a list was given"):
            mul(good, [1, 2, 3, 4])
        with self.assertRaisesRegex(RuntimeError, "mul: parameter 'b' is on meta, 'a' is on"):
            mul(good, torch.empty(4, device="meta"))
        if self.place == "cuda:1":
            with self.assertRaisesRegex(RuntimeError, "mul: parameter 'b' is on cuda:0, 'a' is on cuda:1"):
                mul(good, torch.ones(4, device="cuda:0"))
        self.assertSame(mul, product, good, self.rand(4))

    def test_parameters_are_tensors(self):
        mul = self.function("mul")
        parameter = torch.nn.Parameter(self.rand(4, grad=False))
        other = self.rand(4, grad=False)
        mul(parameter, other).sum().backward()
        self.assertClose(parameter.grad, other)
        self.assertNotIsInstance(mul(parameter, other), torch.nn.Parameter)
        mul(self.rand(4), other)
        self.assertEqual(len(mul._bridges), 1)


@spread
class Outputs(Bridged):
    def test_several_outputs_with_upstreams_missing(self):
        pair = self.function("pair")
        for name in ("pair", "pair_opaque"):
            pair = self.function(name)
            for which, expected in (((0,), 2), ((1,), 3), ((0, 1), 5)):
                x = self.rand(4)
                outputs = pair(x)
                sum(outputs[i].sum() for i in which).backward()
                self.assertEqual(x.grad.tolist(), [expected] * 4)

    def test_given_outputs(self):
        mul = self.function("mul")
        a, b = self.rand(3, 4), self.rand(3, 4, grad=False)
        for out in (torch.zeros(3, 4, device=self.place), torch.zeros(4, 3, device=self.place).t(),
                    torch.zeros(6, 8, device=self.place)[::2, ::2]):
            version = out._version
            y = mul(a, b, y=out)
            self.assertIs(y, out)
            self.assertGreater(out._version, version)
            self.assertClose(out, a * b)
            self.assertClose(torch.autograd.grad(y, a, torch.ones_like(b))[0], b)
        with torch.no_grad():
            out = torch.zeros(3, 4, device=self.place)
            self.assertIs(mul(a, b, y=out), out)
            self.assertClose(out, a * b)
            self.assertFalse(out.requires_grad)

    def test_given_outputs_that_do_not_fit(self):
        mul = self.function("mul")
        a, b = self.rand(3), self.rand(3)
        with self.assertRaisesRegex(ValueError, r"output 'y' is torch.float32\[4\], it must be torch.float32\[3\]"):
            mul(a, b, y=torch.zeros(4, device=self.place))
        with self.assertRaisesRegex(TypeError, "given by name are y"):
            mul(a, b, z=torch.zeros(3, device=self.place))
        with self.assertRaisesRegex(RuntimeError, "'y' is written, and its tensor is a leaf"):
            mul(a, b, y=self.rand(3))
        out = torch.zeros(1, device=self.place).expand(3)
        if self.bridge == "native":
            with self.assertRaisesRegex(dd.Error, "'y'"):
                mul(a, b, y=out)

    def test_in_place(self):
        inout = self.function("inout")
        x = self.rand(4)
        y = x * 1
        version = y._version
        self.assertIs(inout(y, 3.0), y)
        self.assertGreater(y._version, version)
        self.assertClose(y, 3 * x)
        y.sum().backward()
        self.assertEqual(x.grad.tolist(), [3] * 4)
        with self.assertRaisesRegex(RuntimeError, "inout: parameter 'x' is written, and its tensor is a leaf"):
            inout(x, 2.0)
        with torch.no_grad():
            before = x.clone()
            inout(x, 2.0)
            self.assertClose(x, 2 * before)

    def test_in_place_twice(self):
        inout = self.function("inout", keep_outputs=False)
        x = self.rand(4)
        y = x * 1
        inout(inout(y, 3.0), 5.0).sum().backward()
        self.assertEqual(x.grad.tolist(), [15] * 4)

    def test_writes_between_forward_and_backward_are_detected(self):
        square, mul = self.function("square"), self.function("mul", keep_outputs=False)
        x = self.rand(4)
        y = square(x)
        y += 1
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            y.sum().backward()
        x = self.rand(4)
        middle = x * 1
        y = square(middle)
        middle.mul_(2)
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            y.sum().backward()
        y = mul(x, x.detach())
        y += 1  # backward does not read it
        y.sum().backward()

    def test_outputs_that_are_not_kept(self):
        mul = self.function("mul", keep_outputs=False)
        self.assertSame(mul, product, self.rand(3, 4), self.rand(3, 4))
        self.assertSame(mul, product, self.rand(3, 4), self.rand(4))
        a, b = self.rand(3, 4), self.rand(3, 4)
        mul(a, b).sum().backward()
        self.assertClose(a.grad, b)
        pair = self.function("pair", keep_outputs=False)
        x = self.rand(4)
        pair(x)[1].sum().backward()
        self.assertEqual(x.grad.tolist(), [3] * 4)

    def test_inputs_are_not_written(self):
        mul = self.function("mul")
        a, b = self.rand(3, 4), self.rand(4, 3).t()
        copies, versions = (a.clone(), b.clone()), (a._version, b._version)
        mul(a, b).sum().backward()
        self.assertEqual((a._version, b._version), versions)
        self.assertTrue(torch.equal(a, copies[0]) and torch.equal(b, copies[1]))


@spread
class Graphs(Bridged):
    """Autograd's own ways."""

    def test_retained_graph(self):
        mul = self.function("mul")
        a, b = self.rand(4), self.rand(4, grad=False)
        y = mul(a, b).sum()
        y.backward(retain_graph=True)
        y.backward()
        self.assertClose(a.grad, 2 * b)
        with self.assertRaisesRegex(RuntimeError, "second time"):
            y.backward()

    def test_accumulation(self):
        mul = self.function("mul")
        a, b = self.rand(4), self.rand(4)
        for _ in range(3):
            mul(a, b).sum().backward()
        self.assertClose(a.grad, 3 * b)
        first = a.grad
        mul(a, b).sum().backward()
        self.assertIs(a.grad, first)

    def test_gradients_are_fresh(self):
        mul = self.function("mul")
        a, b = self.rand(4), self.rand(4)
        one = torch.autograd.grad(mul(a, b).sum(), (a, b))
        two = torch.autograd.grad(mul(a, b).sum(), (a, b))
        addresses = {gradient.data_ptr() for gradient in one + two}
        self.assertEqual(len(addresses), 4)

    def test_gradients_of_gradients_are_refused(self):
        mul = self.function("mul")
        a, b = self.rand(4), self.rand(4)
        gradient, = torch.autograd.grad(mul(a, b).sum(), a, create_graph=True)
        self.assertClose(gradient, b)
        with self.assertRaisesRegex(RuntimeError, "differentiated once"):
            gradient.sum().backward()

    def test_between_operations_of_torch(self):
        mul = self.function("mul")
        self.assertSame(lambda a, b: mul(torch.sin(a), mul(b, a) + 1).exp(), lambda a, b: (torch.sin(a) * (b * a + 1)).exp(),
                        self.rand(5), self.rand(5))

    def test_hooks_and_detach(self):
        mul = self.function("mul")
        a, b = self.rand(4), self.rand(4)
        a.register_hook(lambda gradient: gradient * 10)
        mul(a, b.detach()).sum().backward()
        self.assertClose(a.grad, 10 * b)
        self.assertIsNone(b.grad)

    def test_a_failed_call_leaves_the_next_right(self):
        mul = self.function("mul")
        for _ in range(3):
            with self.assertRaises(dd.Error):
                mul(self.rand(4), self.rand(4, dtype=torch.float64))
            self.assertSame(mul, product, self.rand(4), self.rand(4))


class TwoDevices(unittest.TestCase):
    """One function, whose kernels run where the tensors are. On the host both are one device."""

    places = ("cpu", "cpu")

    def current(self, place):
        return torch.cuda.device(place) if place != "cpu" else contextlib.nullcontext()

    def tensors(self, place, number=2.0):
        a = torch.full((64,), number, device=place, requires_grad=True)
        return a, torch.arange(64.0, device=place)

    def check(self, mul, place, number):
        a, b = self.tensors(place, number)
        y = mul(a, b)
        self.assertEqual((y.device, y.sum().item()), (a.device, number * 2016))
        y.sum().backward()
        self.assertEqual((a.grad.device, a.grad.tolist()), (a.device, list(range(64))))

    def test_in_turns_whatever_device_is_current(self):
        mul = ddt.Function(kernel("mul"), keep_outputs=False)
        for current in (*self.places, None):
            for place in self.places * 2 + self.places[::-1]:
                with self.current(current) if current else contextlib.nullcontext():
                    before = torch.cuda.current_device() if place != "cpu" else None
                    self.check(mul, place, 3.0)
                    self.assertEqual(torch.cuda.current_device() if place != "cpu" else None, before)

    def test_one_graph_over_both(self):
        mul = ddt.Function(kernel("product"))
        first, second = self.places
        a, b = self.tensors(first)
        c, d = self.tensors(second, 5.0)
        mul(mul(a, b).to(second), c).sum().backward()
        self.assertEqual((a.grad.device, a.grad.tolist()), (a.device, [5.0 * i for i in range(64)]))
        self.assertEqual((c.grad.device, c.grad.tolist()), (c.device, [2.0 * i for i in range(64)]))

    def test_a_thread_for_each(self):
        mul, failures = ddt.Function(kernel("mul")), []

        def work(number):
            try:
                for i in range(30):
                    self.check(mul, self.places[(number + i // 10) % 2], float(number + i))
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])

    def test_streams_of_both(self):
        mul = ddt.Function(kernel("mul"))
        for place in self.places:
            with torch.cuda.stream(torch.cuda.Stream(place)) if place != "cpu" else contextlib.nullcontext():
                a = torch.zeros(1 << 20, device=place)
                for _ in range(20):
                    a += 1  # on a GPU still running when the kernel is queued
                a.requires_grad_()
                y = mul(a, a.detach())
                y.sum().backward()
                self.assertEqual((y.sum().item(), a.grad[-1].item()), (400.0 * (1 << 20), 20))

    def test_case_37_tensors_of_both_in_one_call(self):
        mul = ddt.Function(kernel("mul"))
        (a, _), (_, b) = self.tensors(self.places[0]), self.tensors(self.places[1])
        if a.device == b.device:
            self.assertEqual(mul(a, b).sum().item(), 2 * 2016)
            return
        for _ in range(2):
            with self.assertRaisesRegex(RuntimeError, "mul: parameter 'b' is on cuda:1, 'a' is on cuda:0"):
                mul(a, b)
            self.check(mul, self.places[1], 4.0)


for _name, _places, _reason in two_places():
    _case = type("TwoDevices" + _name, (TwoDevices,), {"places": _places})
    globals()[_case.__name__] = unittest.skipIf(_reason, _reason)(_case) if _reason else _case
del TwoDevices, _case


@spread
class Deterministic(Bridged):
    """Gradients with the same bits in every run."""

    codes = ("host", "cuda")

    def setUp(self):
        super().setUp()
        if self.device != "host:0" and "cuda-c++" not in dd.open(self.device).info.formats:
            self.skipTest("NVRTC is not installed")

    def gather(self, **options):
        return ddt.Function(gather(), device=self.device, bridge=self.bridge, shapes={"y": "index"}, keep_outputs=False, **options)

    def backward(self, function, values):
        x = torch.zeros(3, device=self.place, requires_grad=True)
        index = torch.ones(len(values), dtype=torch.int32, device=self.place)
        function(x, index).backward(self.tensor(values))
        return x.grad.tolist()

    def test_the_order_of_sums_does_not_matter(self):
        values = [1e8, 1.0, -1e8, 3e-5] * 500
        for bounds in (None, 1e8, {"x": dd.Bound(1e8, adds=2000)}):
            function = self.gather(deterministic=True, bounds=bounds)
            found = {tuple(self.backward(function, order)) for order in (values, values[::-1], sorted(values))}
            self.assertEqual(len(found), 1)
            zero, total, _ = found.pop()
            self.assertEqual(zero, 0)
            self.assertLess(abs(total - 500.015), 0.05)
            function.synchronize()

    def test_what_is_not_finite_is_an_error_of_backward(self):
        function = self.gather(deterministic=True)
        with self.assertRaisesRegex(dd.Error, "gather.*'x'.*not finite") as caught:
            self.backward(function, [1, float("inf")])
        self.assertEqual(caught.exception.status, dd.Status.BOUND_EXCEEDED)
        self.assertEqual(self.backward(function, [1, 2]), [0, 3, 0])

    def test_a_bound_that_is_too_small_is_an_error_of_synchronize(self):
        function = self.gather(deterministic=True, bounds=1)
        with self.assertRaisesRegex(dd.Error, "gather.*'x'.*beyond the declared bound") as caught:
            self.backward(function, [1, 1000])
            function.synchronize()
        self.assertEqual(caught.exception.status, dd.Status.BOUND_EXCEEDED)
        function.synchronize()  # said once

    def test_options_that_cannot_be_honoured(self):
        with self.assertRaisesRegex(ValueError, "gather: bounds names 'z'"):
            self.gather(deterministic=True, bounds={"z": 1})
        mul = self.function("mul_opaque", deterministic=True)
        with self.assertRaisesRegex(dd.Error, "mul_opaque") as caught:
            mul(self.rand(3), self.rand(3)).sum().backward()
        self.assertEqual(caught.exception.status, dd.Status.UNSUPPORTED)


@spread
class Quick(Bridged):
    """Ways of torch that are not public: calls give the same with and without them."""

    def alike_and_unlike(self):
        mul = self.function("product")
        negative = torch.complex(self.rand(4, grad=False), self.rand(4, grad=False)).conj().imag
        leaf = self.rand(4)
        others = ((self.rand(4, grad=False), self.rand(4)), (self.rand(4), self.rand(4, grad=False)), (self.rand(3), self.rand(3)),
                  (self.rand(4, dtype=torch.float64), self.rand(4, dtype=torch.float64)), (self.rand(8)[::2], self.rand(4)),
                  (self.rand(2, 2), self.rand(2, 2).t()), (self.rand(4), self.rand(1)), (self.rand(0), self.rand(0)),
                  (torch.nn.Parameter(self.rand(4, grad=False)), self.rand(4)), (leaf, leaf), (self.rand(4), negative))
        for other in others:
            for pair in ((self.rand(4), self.rand(4)), (self.rand(4), self.rand(4)), other, other):
                self.assertSame(mul, product, *pair)
                with torch.no_grad():
                    y = mul(*pair)
                self.assertFalse(y.requires_grad)
                self.assertClose(y, product(*pair))
            with self.assertRaisesRegex(TypeError, "mul|product"):
                mul(self.rand(4), [1, 2, 3, 4])
        x = self.rand(4, grad=False)
        mul(x, self.rand(4))
        x.resize_(2)  # the same tensor, another shape
        self.assertSame(mul, product, x, self.rand(2))

    def test_calls_like_the_one_before_and_others(self):
        self.alike_and_unlike()

    def test_without_guards(self):
        with unittest.mock.patch.object(ddt.quick, "has_guards", False):
            self.alike_and_unlike()

    def test_without_anything_quick(self):
        with unittest.mock.patch.multiple(ddt.quick, has_guards=False, transforms_active=None, unwrap_if_dead=None, _saves_by_name=False), \
                unittest.mock.patch.object(ddt.native, "maker_of", lambda device: None):
            self.alike_and_unlike()

    def test_with_stand_ins(self):
        """What newer versions have, written in Python, so that older ones take the same way."""
        hits = []

        def guard(tensors):
            def facts(tensor):
                return (tensor.__class__, tensor.dtype, tensor.device, tensor.shape, tensor.stride(), tensor.requires_grad, tensor.is_neg())

            def check(*others):
                found = len(set(map(id, others))) == len(others) and [
                    facts(other) if isinstance(other, torch.Tensor) else None for other in others] == expected
                hits.append(found)
                return found

            expected = [facts(tensor) for tensor in tensors]
            return check

        def maker_of(device):
            return lambda shape, strides, dtype: torch.empty_strided(shape, strides, dtype=dtype, device=device)

        with unittest.mock.patch.multiple(ddt.quick, has_guards=True, _guard=guard, transforms_active=lambda: False,
                                          unwrap_if_dead=lambda tensor: tensor), \
                unittest.mock.patch.object(ddt.native, "maker_of", maker_of):
            self.alike_and_unlike()
        self.assertGreater(hits.count(True), 20)
        self.assertGreater(hits.count(False), 20)

    def test_guards_are_tried_before_they_are_used(self):
        class Blind:
            def __init__(self, *tensors, **options):
                pass

            def check(self, *tensors):
                return True

        with unittest.mock.patch.object(ddt.quick, "_dynamo", types.SimpleNamespace(TensorGuards=Blind)):
            self.assertFalse(ddt.quick._guards_tell())
        with unittest.mock.patch.object(ddt.quick, "_dynamo", None):
            self.assertFalse(ddt.quick._guards_tell())

    def test_tensors_are_made_on_the_device(self):
        make = ddt.quick.maker_of(torch.device(self.place))
        if make:
            made = make((2, 3), (3, 1), torch.float64)
            self.assertEqual((str(made.device), made.shape, made.stride(), made.dtype), (self.place, (2, 3), (3, 1), torch.float64))

    if hasattr(torch, "func"):  # older versions have no transforms
        def test_transforms_are_refused_and_what_they_leave_is_taken(self):
            mul, b, left = self.function("mul"), self.rand(4, grad=False), []
            for _ in range(2):
                self.assertSame(mul, product, self.rand(4), b)
                with self.assertRaises(RuntimeError):
                    torch.func.grad(lambda x: mul(x, b).sum())(self.rand(4, grad=False))
            torch.func.grad(lambda x: (left.append(x), x.sum())[1])(b)
            self.assertClose(mul(left[0], b), b * b)


class Functions(unittest.TestCase):
    def test_a_device_is_found_by_the_memory_of_the_tensors(self):
        y = ddt.Function(kernel("mul"))(torch.ones(2), torch.ones(2))
        self.assertEqual(y.tolist(), [1, 1])
        self.assertEqual(ddt.device_for(dd.default_context(), torch.device("cpu")).spec, "host:0")

    def test_native_needs_shared_memory(self):
        if "vulkan:0" not in [info.spec for info in dd.default_context().devices]:
            self.skipTest("no Vulkan device")
        mul = ddt.Function(kernel("mul"), device="vulkan:0", bridge="native")
        with self.assertRaisesRegex(RuntimeError, "vulkan:0 does not use the memory of tensors on cpu"):
            mul(torch.ones(2), torch.ones(2))

    def test_wrong_options(self):
        with self.assertRaisesRegex(ValueError, "bridge is 'fast'"):
            ddt.Function(kernel("mul"), bridge="fast")

    def test_parameters_that_are_not_differentiable(self):
        def both(block, begin, end):
            pass

        blend = dd.Kernel(
            dd.default_context(), "blend",
            [dd.Param("x", dd.IN, "f32", differentiable=True), dd.Param("weight", dd.IN, "f32"), dd.Param("y", dd.OUT, "f32", differentiable=True)],
            [dd.Code("host", "host-function", any_layout=True, entries=[
                dd.Entry(dd.FORWARD, function=both, function_id=4100), dd.Entry(dd.BACKWARD, function=both, function_id=4101)])])
        function = ddt.Function(blend)
        x, weight = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
        for _ in range(2):
            self.assertTrue(function(x, weight.detach()).requires_grad)
            with self.assertRaisesRegex(RuntimeError, "blend: parameter 'weight' is not differentiable, and its tensor requires a gradient"):
                function(x, weight)
            with torch.no_grad():
                self.assertFalse(function(x, weight).requires_grad)

    def test_names_of_kernels_and_parameters_are_no_python(self):
        """Names that mean something to Python, or nothing."""
        for name, params in (("launch", ("self", "outputs")), ("a.kernel.2", ("x.y", "x_y")), ("lambda", ("for", "bridges"))):
            written = []
            square = dd.Kernel(
                dd.default_context(), name,
                [dd.Param(params[0], dd.IN, "f32", differentiable=True), dd.Param(params[1], dd.IN, "f32"), dd.Param("y", dd.OUT, "f32")],
                [dd.Code("host", "host-function", any_layout=True, entries=[
                    dd.Entry(dd.FORWARD, function=lambda block, begin, end: written.append((begin, end)), function_id=4000 + len(name))])])
            ddt.Function(square)(torch.ones(2), torch.ones(2))
            self.assertEqual(written, [(0, 2)])

    def test_a_kernel_is_callable(self):
        a = torch.ones(3, requires_grad=True)
        mul = kernel("mul")
        mul(a, torch.full((3,), 2.0)).sum().backward()
        self.assertEqual(a.grad.tolist(), [2, 2, 2])


if __name__ == "__main__":
    tap.main()
