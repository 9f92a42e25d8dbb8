"""The kernels of the conformance suite as Python sees them."""
import ctypes as C
import os
import pathlib

import diffdispatch as dd
from diffdispatch import _abi


class _Source(C.Structure):
    _fields_ = [("name", C.c_char_p), ("params", C.POINTER(_abi.ddisp_param)), ("param_count", C.c_uint32),
                ("codes", C.POINTER(_abi.ddisp_code)), ("code_count", C.c_uint32)]


def _sources():
    path = os.environ.get("DDISP_TEST_KERNELS")
    if not path:
        built = pathlib.Path(__file__).resolve().parents[2].glob("build*/tests/python/kernels/libpython-kernels.so")
        path = max(built, key=lambda found: found.stat().st_mtime)
    library = C.CDLL(str(path))
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
