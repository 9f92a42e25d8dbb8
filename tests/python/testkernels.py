"""The kernels of the conformance suite as Python sees them."""
import ctypes as C
import os
import pathlib

import diffdispatch as dd
from diffdispatch import _abi


class _Source(C.Structure):
    _fields_ = [("name", C.c_char_p), ("params", C.POINTER(_abi.ddisp_param)), ("param_count", C.c_uint32),
                ("codes", C.POINTER(_abi.ddisp_code)), ("code_count", C.c_uint32)]


def _path():
    path = os.environ.get("DDISP_TEST_KERNELS")
    if path:
        return path
    built = pathlib.Path(__file__).resolve().parents[2].glob("build*/tests/python/kernels/libpython-kernels.so")
    return str(max(built, key=lambda found: found.stat().st_mtime))


def _sources():
    library = C.CDLL(_path())
    library.python_example_kernel.restype = C.POINTER(_abi.ddisp_kernel_desc)
    listed = (C.POINTER(_Source) * 64).in_dll(library, "python_kernels")
    found = {"example": library.python_example_kernel().contents}
    for source in listed:
        if not source:
            break
        found[source.contents.name.decode()] = source.contents
    return found


_all = _sources()


def kernel(name, context=None, backends=None):
    """A kernel of the suite; backends: those whose codes it is given, None: all."""
    source = _all[name]
    if name == "example":  # the examples' mul
        return dd.Kernel.from_desc(context or dd.default_context(), source)
    codes = [source.codes[i] for i in range(source.code_count)
             if backends is None or source.codes[i].backend.decode() in backends]
    array = (_abi.ddisp_code * len(codes))(*codes)
    desc = _abi.ddisp_kernel_desc(
        size=C.sizeof(_abi.ddisp_kernel_desc), name=source.name, params=source.params, param_count=source.param_count,
        param_size=C.sizeof(_abi.ddisp_param), codes=array, code_count=len(codes), code_size=C.sizeof(_abi.ddisp_code))
    return dd.Kernel.from_desc(context or dd.default_context(), desc)


_GATHER = """
#include <diffdispatch/device/ddisp.cuh>

DDISP_KERNEL(gather_forward, 3)
{
    auto x = DDISP_TENSOR(float, 0), y = DDISP_TENSOR(float, 2);
    auto index = DDISP_TENSOR(i32, 1);
    DDISP_FOR_EACH_ITEM(i) y.store(i, x[(uint64_t)index[i]]);
}

DDISP_KERNEL(gather_backward, 3)
{
    auto x = DDISP_TENSOR(float, 0), y = DDISP_TENSOR(float, 2);
    auto index = DDISP_TENSOR(i32, 1);
    DDISP_FOR_EACH_ITEM(i) x.add_grad((uint64_t)index[i], y.grad(i));
}
"""


def gather(context=None):
    """y[i] = x[index[i]] on the host and CUDA, with a backward for deterministic mode; items are those of index."""
    flags = dict(null_safe=True, any_layout=True, pre_reduces=True, deterministic=True)
    entries = [(dd.FORWARD, "gather_forward"), (dd.BACKWARD, "gather_backward")]
    return dd.Kernel(
        context or dd.default_context(), "gather",
        [dd.Param("x", dd.IN, "f32", differentiable=True), dd.Param("index", dd.IN, "i32", items=True),
         dd.Param("y", dd.OUT, "f32", differentiable=True)],
        [dd.Code("host", "host-library", _path(), [dd.Entry(*entry) for entry in entries], **flags),
         dd.Code("cuda", "cuda-c++", _GATHER, [dd.Entry(*entry, group_size=(256, 1, 1), loops=True) for entry in entries],
                 headers=dd.device_headers(), **flags)])
