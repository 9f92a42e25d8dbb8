#!/usr/bin/env python3
"""DLPack in Python: capsules both ways, with NumPy and PyTorch where they are installed, and with a producer of our own that counts."""
import ctypes as C
import gc
import os
import subprocess
import sys
import threading
import unittest
import weakref

import diffdispatch as dd
import tap
from diffdispatch import _capsule
from testkernels import kernel

try:
    import numpy
except ImportError:
    numpy = None
try:
    import torch
except ImportError:
    torch = None


class _Tensor(C.Structure):
    _fields_ = [("data", C.c_void_p), ("device_type", C.c_int32), ("device_id", C.c_int32), ("ndim", C.c_int32), ("code", C.c_uint8),
                ("bits", C.c_uint8), ("lanes", C.c_uint16), ("shape", C.POINTER(C.c_int64)), ("strides", C.POINTER(C.c_int64)),
                ("byte_offset", C.c_uint64)]


class _Plain(C.Structure):
    pass


class _Versioned(C.Structure):
    pass


_PlainDeleter = C.CFUNCTYPE(None, C.POINTER(_Plain))
_VersionedDeleter = C.CFUNCTYPE(None, C.POINTER(_Versioned))
_Plain._fields_ = [("dl_tensor", _Tensor), ("manager_ctx", C.c_void_p), ("deleter", _PlainDeleter)]
_Versioned._fields_ = [("major", C.c_uint32), ("minor", C.c_uint32), ("manager_ctx", C.c_void_p), ("deleter", _VersionedDeleter),
                       ("flags", C.c_uint64), ("dl_tensor", _Tensor)]


class Producer:
    """A tensor of f32 that somebody else owns; `deleted` counts calls of its deleter."""

    def __init__(self, values, versioned=True, **changes):
        self.deleted = 0
        self.memory = (C.c_float * max(len(values), 1))(*values)
        self.shape, self.strides = (C.c_int64 * 1)(len(values)), (C.c_int64 * 1)(1)
        self.versioned = versioned
        tensor = dict(data=C.addressof(self.memory), device_type=1, device_id=0, ndim=1, code=2, bits=32, lanes=1,
                      shape=C.cast(self.shape, C.POINTER(C.c_int64)), strides=C.cast(self.strides, C.POINTER(C.c_int64)))
        flags = changes.pop("flags", 0)
        tensor.update(changes)

        def deleter(_):
            self.deleted += 1

        self.deleter = (_VersionedDeleter if versioned else _PlainDeleter)(deleter)
        if versioned:
            self.managed = _Versioned(1, 0, None, self.deleter, flags, _Tensor(**tensor))
        else:
            self.managed = _Plain(_Tensor(**tensor), None, self.deleter)
        self.capsule = _capsule._capsule_new(C.addressof(self.managed), _capsule.VERSIONED if versioned else _capsule.PLAIN, None)

    def __dlpack__(self, max_version=None):
        return self.capsule

    def __dlpack_device__(self):
        return self.managed.dl_tensor.device_type, self.managed.dl_tensor.device_id


class Import(unittest.TestCase):
    def test_both_structs_without_a_copy(self):
        for versioned in (True, False):
            producer = Producer([1, 2, 3], versioned)
            tensor = dd.from_dlpack(producer)
            producer.memory[1] = 7
            self.assertEqual(tensor.tolist(), [1, 7, 3])
            tensor.fill(5)
            self.assertEqual(list(producer.memory), [5, 5, 5])
            self.assertEqual(producer.deleted, 0)
            tensor.close()
            self.assertEqual(producer.deleted, 1)

    def test_requires_grad_is_passed_beside(self):
        mul = kernel("mul")
        a, b = (dd.from_dlpack(Producer([1, 2]), requires_grad=wants) for wants in (True, False))
        y = dd.open("host").zeros(2, requires_grad=True)
        mul.forward(a, b, y)
        y.grad = dd.open("host").tensor([1, 1])
        mul.backward(a, b, y)
        self.assertEqual((a.grad.tolist(), b.grad), ([1, 2], None))

    def test_case_54_byte_offset(self):
        producer = Producer(range(8), data=None, byte_offset=4)
        memory = (C.c_float * 9)(*range(9))
        producer.managed.dl_tensor.data = C.addressof(memory)
        tensor = dd.from_dlpack(producer)
        self.assertEqual(sum(tensor.tolist()), 36)
        kernel("square").forward(dd.open("host").tensor([1] * 8), tensor)
        self.assertEqual(list(memory), [0] + [1] * 8)
        self.assertEqual(dd.from_dlpack(tensor).address, C.addressof(memory) + 4)

    def test_case_55_read_only(self):
        for flag in (1, 2):  # read-only, and a copy
            producer = Producer([2, 3], flags=flag)
            tensor = dd.from_dlpack(producer)
            out = dd.open("host").zeros(2)
            self.assertTrue(tensor.read_only)
            kernel("square").forward(tensor, out)
            self.assertEqual(out.tolist(), [4, 9])
            with self.assertRaises(dd.Error) as caught:
                kernel("square").forward(out, tensor)
            self.assertEqual(caught.exception.status, dd.Status.READ_ONLY)
            with self.assertRaisesRegex(BufferError, "read-only"):
                tensor.__dlpack__()
            self.assertTrue(dd.from_dlpack(tensor).read_only)
            self.assertEqual(list(producer.memory), [2, 3])
        self.assertFalse(dd.from_dlpack(Producer([1], flags=2), write_copy=True).read_only)
        self.assertTrue(dd.from_dlpack(Producer([1], versioned=False), read_only=True).read_only)

    def test_case_57_a_capsule_is_taken_once(self):
        producer = Producer([1, 2])
        first = dd.from_dlpack(producer)
        with self.assertRaisesRegex(BufferError, "taken before"):
            dd.from_dlpack(producer)
        first.close()
        self.assertEqual(producer.deleted, 1)

    def test_case_57_two_capsules_around_one_tensor(self):
        producer = Producer([1, 2])
        first = dd.from_dlpack(producer)
        producer.capsule = _capsule._capsule_new(C.addressof(producer.managed), _capsule.VERSIONED, None)
        with self.assertRaisesRegex(dd.Error, "still held"):
            dd.from_dlpack(producer)
        first.close()
        self.assertEqual(producer.deleted, 1)

    def test_what_is_refused_stays_its_producers(self):
        for changes, status in ((dict(device_id=99), None), (dict(device_id=-1), None), (dict(device_type=7), None),
                                (dict(lanes=4), dd.Status.UNSUPPORTED), (dict(code=5, bits=64), dd.Status.UNSUPPORTED),
                                (dict(ndim=-1), dd.Status.INVALID_ARGUMENT)):
            producer = Producer([1, 2], **changes)
            with self.assertRaises(dd.Error) as caught:
                dd.from_dlpack(producer, device=None if status is None else dd.open("host"))
            self.assertEqual(caught.exception.status, status or dd.Status.NOT_FOUND, changes)
            self.assertEqual(producer.deleted, 0)
            self.assertIsNotNone(_capsule.look(producer.capsule))

    def test_case_56_released_by_a_worker_thread(self):
        producer = Producer([1, 2])
        tensors = [dd.from_dlpack(producer)]
        thread = threading.Thread(target=lambda: tensors.pop().close())
        thread.start()
        thread.join()
        self.assertEqual(producer.deleted, 1)

    def test_case_56_alive_at_the_end_of_the_process(self):
        """Imports and exports that nobody gave back: the process ends well, and no deleter runs twice."""
        program = """
import atexit, sys
sys.path.insert(0, %r)
import test_dlpack as t
producers = [t.Producer([1, 2]) for _ in range(3)]
held = [t.dd.from_dlpack(producer) for producer in producers]
exported = t.dd.open("host").tensor([1, 2]).__dlpack__()
late = t.Producer([3])
kept = t.dd.from_dlpack(late)
atexit.register(lambda: (kept.close(), print(late.deleted, max(p.deleted for p in producers), flush=True)))
""" % os.path.dirname(os.path.abspath(__file__))
        result = subprocess.run([sys.executable, "-c", program], text=True, capture_output=True)
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "1 0\n", ""))


class Export(unittest.TestCase):
    def test_exports_that_nobody_takes_are_given_back(self):
        device = dd.open("host")
        before = device.statistics["bytes_live"]
        for _ in range(1000):
            device.tensor([1] * 64).__dlpack__()
        device.tensor([1]).close()
        gc.collect()
        _capsule.sweep()
        self.assertEqual((device.statistics["bytes_live"], len(_capsule.offered)), (before, 0))

    def test_an_export_outlives_its_tensor(self):
        device = dd.open("host")
        before = device.statistics["bytes_live"]
        tensor = device.tensor([1, 2])
        capsule = tensor.__dlpack__(max_version=(1, 0))
        tensor.close()
        managed = _Versioned.from_address(_capsule.look(capsule)[1])
        self.assertEqual((managed.major, managed.dl_tensor.ndim, managed.flags), (1, 1, 0))
        self.assertEqual(C.cast(managed.dl_tensor.data, C.POINTER(C.c_float))[1], 2)
        del capsule
        _capsule.sweep()
        self.assertEqual(device.statistics["bytes_live"], before)

    def test_what_cannot_be_exported_says_why(self):
        device = dd.open("host")
        with self.assertRaisesRegex(BufferError, "export tensor.detach"):
            device.tensor([1], requires_grad=True).__dlpack__()
        with self.assertRaisesRegex(BufferError, "not on"):
            device.tensor([1]).__dlpack__(dl_device=(2, 0))
        with self.assertRaisesRegex(BufferError, "copy"):
            device.tensor([1]).__dlpack__(copy=True)
        for info in dd.default_context().devices:
            if info.dlpack_device_type == 0:
                with self.assertRaisesRegex(BufferError, "mean nothing to other"):
                    dd.open(info.spec).tensor([1]).__dlpack__()


@unittest.skipIf(numpy is None, "NumPy is not installed")
class NumPy(unittest.TestCase):
    def test_arrays_come_without_a_copy(self):
        array = numpy.arange(12, dtype="f8").reshape(3, 4)[:, ::-1]
        tensor = dd.from_dlpack(array)
        self.assertEqual((tensor.dtype, tensor.strides), (dd.DType.F64, (4, -1)))
        self.assertEqual(tensor.tolist()[0], [3, 2, 1, 0])
        array[0, 0] = 50
        self.assertEqual(tensor.tolist()[0], [50, 2, 1, 0])

    def test_arrays_are_given_back(self):
        array = numpy.ones(1000)
        watched = weakref.ref(array)
        tensor = dd.from_dlpack(array)
        del array
        gc.collect()
        self.assertEqual(sum(tensor.tolist()), 1000)
        self.assertIsNotNone(watched())
        tensor.close()
        dd.open("host").synchronize()
        self.assertIsNone(watched())

    def test_tensors_go_without_a_copy(self):
        tensor = dd.open("host").tensor([[1, 2], [3, 4]])
        array = numpy.from_dlpack(tensor)
        tensor.fill(9)
        self.assertEqual(array.tolist(), [[9, 9], [9, 9]])
        del tensor
        gc.collect()
        self.assertEqual(array.tolist(), [[9, 9], [9, 9]])

    def test_copies(self):
        for info in dd.default_context().devices:
            device = dd.open(info.spec)
            for dtype in ("float32", "float64", "int32", "uint8", "bool", "float16"):
                array = numpy.array([[0, 1], [2, 3]]).astype(dtype)
                self.assertTrue((device.tensor(array.T).numpy() == array.T).all(), (device, dtype))
        self.assertEqual(dd.open("host").tensor([1.5, -2], dtype="bf16").numpy().tolist(), [1.5, -2])

    def test_a_refused_export_raises_what_numpy_raises(self):
        """The exception arrives, and the tensor is given back."""
        device = dd.open("host")
        gc.collect()
        _capsule.sweep()
        before = device.statistics["bytes_live"]
        with self.assertRaises((RuntimeError, TypeError, BufferError)):
            numpy.from_dlpack(device.tensor([1, 2], dtype="bf16"))
        gc.collect()
        _capsule.sweep()
        self.assertEqual(device.statistics["bytes_live"], before)


@unittest.skipIf(torch is None, "PyTorch is not installed")
class Torch(unittest.TestCase):
    def test_tensors_come_and_go_without_a_copy(self):
        theirs = torch.arange(6.0).reshape(2, 3).t()
        ours = dd.from_dlpack(theirs)
        theirs[0, 0] = 40
        self.assertEqual(ours.tolist(), [[40, 3], [1, 4], [2, 5]])
        back = torch.from_dlpack(ours)
        self.assertEqual(back.data_ptr(), theirs.data_ptr())
        self.assertEqual(back.stride(), theirs.stride())

    def test_requires_grad_goes_along(self):
        self.assertTrue(dd.from_dlpack(torch.ones(2, requires_grad=True)).requires_grad)
        self.assertFalse(dd.from_dlpack(torch.ones(2, requires_grad=True), requires_grad=False).requires_grad)
        self.assertFalse(dd.from_dlpack(torch.ones(2)).requires_grad)

    @unittest.skipUnless(torch is not None and torch.cuda.is_available(), "no CUDA device")
    def test_cuda_tensors_in_order_of_streams(self):
        device = dd.open("cuda")
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            theirs = torch.zeros(1 << 20, device="cuda")
            for _ in range(50):
                theirs += 1
            ours = dd.from_dlpack(theirs, stream=side.cuda_stream)
        self.assertEqual(ours.device.spec, device.spec)
        self.assertEqual(set(ours.numpy().tolist()), {50})
        back = torch.from_dlpack(ours)
        self.assertEqual((back.data_ptr(), back.device.index), (theirs.data_ptr(), 0))

    @unittest.skipUnless(torch is not None and torch.cuda.is_available(), "no CUDA device")
    def test_case_37_devices_keep_their_number(self):
        for index in reversed(range(torch.cuda.device_count())):
            theirs = torch.ones(4, device=f"cuda:{index}")
            ours = dd.from_dlpack(theirs)
            self.assertEqual(ours.device.spec, f"cuda:{index}")
            self.assertEqual(torch.from_dlpack(ours).device.index, index)
            self.assertEqual(torch.cuda.current_device(), 0)


if __name__ == "__main__":
    tap.main()
