"""Where the tests of the PyTorch bridge run: every device of the machine, native and staged.

A test case derives from `Bridged`; `spread` makes one class of it per target, so that each test has one result for each.
"""
import sys
import unittest

import torch

import diffdispatch as dd
import diffdispatch.torch as ddt
from testkernels import kernel

_specs = [info.spec for info in dd.default_context().devices]


def _targets():
    """Name, device, bridge, device of the tensors; and why it cannot run here."""
    cuda = None if torch.cuda.is_available() and "cuda:0" in _specs else "no CUDA device"
    vulkan = None if "vulkan:0" in _specs else "no Vulkan device"
    yield "HostNative", "host:0", "native", "cpu", None
    yield "HostStaged", "host:0", "staged", "cpu", None
    yield "VulkanStaged", "vulkan:0", "staged", "cpu", vulkan
    yield "CudaNative", "cuda:0", "native", "cuda:0", cuda
    yield "CudaStaged", "cuda:0", "staged", "cuda:0", cuda
    yield "CudaStagedFromHost", "cuda:0", "staged", "cpu", cuda
    yield "VulkanStagedFromCuda", "vulkan:0", "staged", "cuda:0", vulkan or cuda
    second = None if torch.cuda.is_available() and "cuda:1" in _specs else "no second CUDA device"
    yield "SecondCudaNative", "cuda:1", "native", "cuda:1", second
    yield "SecondCudaStaged", "cuda:1", "staged", "cuda:1", second


def two_places():
    """Pairs of devices of tensors whose kernels run where the tensors are, by name; and why they are not there."""
    second = None if torch.cuda.is_available() and torch.cuda.device_count() > 1 and "cuda:1" in _specs else "no second CUDA device"
    yield "Host", ("cpu", "cpu"), None
    yield "Cuda", ("cuda:0", "cuda:1"), second


class Bridged(unittest.TestCase):
    """A test on one target."""

    device, bridge, place = "host:0", "native", "cpu"
    _functions = {}

    def setUp(self):
        torch.manual_seed(7)

    def function(self, name, **options):
        """A kernel of the suite as a function; made anew for each test, so that no test profits from another's calls."""
        return ddt.Function(kernel(name), device=self.device, bridge=self.bridge, **options)

    def tensor(self, values, grad=False, dtype=torch.float32):
        return torch.tensor(values, dtype=dtype, device=self.place, requires_grad=grad)

    def rand(self, *shape, grad=True, dtype=torch.float32):
        return torch.rand(*shape, dtype=dtype, device=self.place, requires_grad=grad)

    def assertClose(self, found, expected, tolerance=1e-5):
        if found is None or expected is None:
            self.assertIs(found, expected)
            return
        self.assertEqual((tuple(found.shape), found.dtype), (tuple(expected.shape), expected.dtype))
        difference = (found.detach() - expected.detach()).abs().max().item() if found.numel() else 0
        self.assertLessEqual(difference, tolerance)

    def assertSame(self, function, reference, *inputs, tolerance=1e-5):
        """Values and gradients are those of a function of torch, for a random upstream."""
        found, expected = function(*inputs), reference(*inputs)
        found, expected = [value if isinstance(value, tuple) else (value,) for value in (found, expected)]
        upstreams = [torch.rand_like(value) for value in expected]
        wanted = [value for value in inputs if isinstance(value, torch.Tensor) and value.requires_grad]
        for ours, theirs in zip(found, expected):
            self.assertClose(ours, theirs, tolerance)
        for ours, theirs in zip(torch.autograd.grad(found, wanted, upstreams), torch.autograd.grad(expected, wanted, upstreams)):
            self.assertClose(ours, theirs, tolerance)


def spread(case):
    """One class per target instead of this one; with `streams`, per target whose tensors are on a device with streams; with `codes`, per
    target whose backend is among them."""
    module = sys.modules[case.__module__]
    for name, device, bridge, place, reason in _targets():
        if getattr(case, "streams", False) and place == "cpu":
            continue
        codes = getattr(case, "codes", None)
        if codes and device.split(":")[0] not in codes:
            continue
        made = type(case.__name__ + name, (case,), dict(device=device, bridge=bridge, place=place, __module__=case.__module__))
        setattr(module, made.__name__, unittest.skipIf(reason, reason)(made) if reason else made)
