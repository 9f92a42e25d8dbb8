"""libdiffdispatch for Python: differentiable GPU kernels, launched right for any mixture of inputs that require a gradient and
inputs that do not.

    import diffdispatch as dd
    device = dd.open("auto")
    a = device.tensor([1, 2, 3], requires_grad=True)

docs/python.md goes from here to kernels as functions of PyTorch (diffdispatch.torch). Everything is ctypes over the installed
library; nothing is compiled.
"""
from ._abi import (Access, Backing, DType, GradState, LogLevel, Mode, Policy, Skip, Source, Space, Status, Support, VariantOrigin,
                   WriteMode)
from ._library import Error, lib, library, raw
from .context import BackendInfo, Buffer, Context, Device, DeviceInfo, Event, Stream, default_context, open
from .dlpack import from_dlpack
from .graph import Graph, capture
from .kernel import Code, CodeParam, Entry, Kernel, Native, Param, device_headers, scalar
from .launch import Arg, Bound, Bounds, Plan, Report, Slot, View, launch
from .tensor import Tensor, dtype_of

FORWARD, BACKWARD = Mode.FORWARD, Mode.BACKWARD
IN, OUT, INOUT = Access.IN, Access.OUT, Access.INOUT

__version__: str = raw.ddisp_version_string().decode()
__all__ = [name for name in globals() if not name.startswith("_")]
