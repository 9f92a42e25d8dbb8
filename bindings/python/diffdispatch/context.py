"""Contexts, devices, buffers, streams and events."""
from __future__ import annotations

import contextlib
import ctypes as C
import itertools
import threading
from typing import Any, Callable, Iterator, List, Optional, Sequence, Union

from . import _abi
from ._abi import DType, LogLevel, Status
from ._library import Error, Handle, described, lib, new, raw, text_of

# Functions of the program that the library calls. It is handed one function that never goes and a number, so that nothing is called
# that Python has collected; the library may hold on longer than the objects of this package.
_callbacks: dict[int, Callable[..., Any]] = {}
_numbers = itertools.count(1)


def _log(number: int, level: int, message: bytes) -> None:
    function = _callbacks.get(number or 0)
    if function:
        function(LogLevel(level), message.decode("utf-8", "replace"))


def _give_back(number: int) -> None:
    function = _callbacks.pop(number or 0, None)
    if function:
        function()


_log_callback = _abi.ddisp_log_function(_log)
_release_callback = _abi.ddisp_release_function(_give_back)


def _register(function: Callable[..., Any]) -> int:
    number = next(_numbers)
    _callbacks[number] = function
    return number


class BackendInfo:
    """What became of one candidate for a backend."""

    def __init__(self, info: _abi.ddisp_backend_info):
        self.status = Status(info.status)
        self.name, self.version = info.name.decode(), info.version.decode()
        self.path, self.reason = info.path.decode(), info.reason.decode()
        self.device_count: int = info.device_count

    def __repr__(self) -> str:
        return f"<backend {self.name}: {self.reason or f'{self.device_count} devices'}>"


class DeviceInfo:
    """What a device is and can do: the fields of ddisp_device_info as attributes, text as str."""

    def __init__(self, info: _abi.ddisp_device_info):
        for name, kind in info._fields_:
            value = getattr(info, name)
            if isinstance(value, bytes):
                value = value.decode("utf-8", "replace")
            elif isinstance(value, C.Array):
                value = tuple(value)
            if name not in ("size", "reserved"):
                setattr(self, name, value)

    spec: str
    backend: str
    name: str
    flags: int
    dlpack_device_type: int
    dlpack_device_id: int

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)

    def __repr__(self) -> str:
        return f"<{self.spec} {self.name}>"


class Context(Handle):
    """Loads backends and opens their devices. Everything made from it keeps what it needs alive."""

    __slots__ = ("_log_number",)
    _release = staticmethod(raw.ddisp_context_release)

    def __init__(self, backends: Optional[Sequence[str]] = None, backend_path: Optional[str] = None,
                 cache_directory: Optional[str] = None, log_level: LogLevel = LogLevel.DEFAULT,
                 log: Optional[Callable[[LogLevel, str], None]] = None, deterministic: bool = False):
        """
        backends         names of backends to load; None: those of DDISP_BACKENDS, else all that are found
        backend_path     absolute directory that is searched for them first
        cache_directory  absolute directory of the kernel cache
        log              called with level and message, from any thread; None: standard error. Until close()
        deterministic    every launch, accumulate and scatter_add is as with deterministic=True
        """
        desc = _abi.ddisp_context_desc(size=C.sizeof(_abi.ddisp_context_desc), log_level=log_level,
                                       flags=_abi.CONTEXT_DETERMINISTIC if deterministic else 0)
        if backends is not None:
            desc.backends = ",".join(backends).encode()
        if backend_path is not None:
            desc.backend_path = str(backend_path).encode()
        if cache_directory is not None:
            desc.cache_directory = str(cache_directory).encode()
        self._log_number = _register(log) if log else 0
        if log:
            desc.log = _log_callback
            desc.log_user_data = self._log_number
        super().__init__(new(lib.ddisp_context_create, C.byref(desc)))

    def close(self) -> None:
        super().close()
        _callbacks.pop(self._log_number, None)

    def open(self, spec: str = "auto") -> Device:
        """Opens a device: "auto" (the highest rank), "host", "cuda:0", "vulkan:uuid=..."."""
        return Device(new(lib.ddisp_device_open, self._handle, spec.encode()), self)

    @property
    def devices(self) -> List[DeviceInfo]:
        """Devices of all usable backends, highest rank first; none is opened."""
        count = C.c_uint32()
        lib.ddisp_device_count(self._handle, C.byref(count))
        return [DeviceInfo(described(lib.ddisp_device_describe, _abi.ddisp_device_info, self._handle, index))
                for index in range(count.value)]

    @property
    def backends(self) -> List[BackendInfo]:
        """Every candidate for a backend, and what became of it."""
        count = C.c_uint32()
        lib.ddisp_backend_count(self._handle, C.byref(count))
        return [BackendInfo(described(lib.ddisp_backend_get_info, _abi.ddisp_backend_info, self._handle, index))
                for index in range(count.value)]

    @property
    def cache_directory(self) -> str:
        """Where compiled code is kept."""
        return text_of(raw.ddisp_context_get_cache_directory, self._handle)

    def kernel(self, name: str, params: Sequence[Any], codes: Sequence[Any], variant_budget: int = 0) -> Any:
        """Makes a kernel; see Kernel."""
        from .kernel import Kernel
        return Kernel(self, name, params, codes, variant_budget)


_default: Optional[Context] = None
_default_lock = threading.Lock()


def default_context() -> Context:
    """The context that open() and the torch bridge use when none is given; made at the first call."""
    global _default
    with _default_lock:
        if _default is None:
            _default = Context()
        return _default


def open(spec: str = "auto") -> Device:
    """Opens a device of the default context."""
    return default_context().open(spec)


class Device(Handle):
    """An open device. Opening one twice in a context gives the same device."""

    __slots__ = ("context", "info")
    _release = staticmethod(raw.ddisp_device_release)

    def __init__(self, handle: Any, context: Context):
        super().__init__(handle)
        self.context = context
        self.info = DeviceInfo(described(lib.ddisp_device_get_info, _abi.ddisp_device_info, self._handle))

    def __repr__(self) -> str:
        return f"<device {self.info.spec} ({self.info.name})>"

    @property
    def spec(self) -> str:
        """Opens this device, such as "cuda:0"."""
        return self.info.spec

    @property
    def statistics(self) -> dict[str, int]:
        """Counters since the device was opened."""
        found = described(lib.ddisp_device_get_statistics, _abi.ddisp_device_statistics, self._handle)
        return {name: getattr(found, name) for name, _ in found._fields_ if name not in ("size", "reserved")}

    def check(self) -> None:
        """Raises when the device was lost, with the first cause."""
        lib.ddisp_device_status(self._handle)

    def synchronize(self, timeout_ns: int = _abi.TIMEOUT_INFINITE) -> None:
        """Waits for all work on the device's own stream."""
        lib.ddisp_device_synchronize(self._handle, timeout_ns)

    def trim(self) -> None:
        """Gives memory back that the library holds for later."""
        lib.ddisp_device_trim(self._handle)

    def buffer(self, size_bytes: int) -> Buffer:
        """Allocates device memory, content undefined."""
        return Buffer(new(lib.ddisp_buffer_create, self._handle, size_bytes), self)

    def wrap(self, address: int, size_bytes: int, release: Optional[Callable[[], None]] = None) -> Buffer:
        """A buffer over memory of the program; release is called once when the library no longer uses it."""
        number = _register(release) if release else 0
        callback = _release_callback if release else _abi.ddisp_release_function()
        try:
            return Buffer(new(lib.ddisp_buffer_wrap, self._handle, address, size_bytes, callback, number or None), self)
        except Error:
            _callbacks.pop(number, None)
            raise

    def stream(self) -> Stream:
        """Makes an in-order queue of work. It is used by one thread at a time."""
        return Stream(new(lib.ddisp_stream_create, self._handle, 0), self)

    def wrap_stream(self, native_handle: int) -> Stream:
        """A stream over the program's own, such as a CUstream (0: the legacy default stream)."""
        return Stream(new(lib.ddisp_stream_wrap, self._handle, native_handle), self)

    def limit_memory(self, size_bytes: int) -> None:
        """Limits the memory that is handed out; 0: no limit but the device's."""
        lib.ddisp_device_set_memory_limit(self._handle, size_bytes)

    def event(self, timed: bool = False) -> Event:
        """Makes an event; a timed one notes the device's clock too."""
        return Event(new(lib.ddisp_event_create, self._handle, _abi.EVENT_TIMED if timed else 0), self)

    def empty(self, shape: Union[int, Sequence[int]], dtype: Any = DType.F32, requires_grad: bool = False) -> Any:
        """A dense tensor, content undefined."""
        from .tensor import empty
        return empty(self, shape, dtype, requires_grad)

    def zeros(self, shape: Union[int, Sequence[int]], dtype: Any = DType.F32, requires_grad: bool = False) -> Any:
        """A dense tensor of zeros."""
        return self.empty(shape, dtype, requires_grad).fill(0)

    def tensor(self, data: Any, dtype: Any = None, requires_grad: bool = False) -> Any:
        """A dense tensor with a copy of data: numbers and nested lists, buffers (NumPy arrays), tensors in host memory."""
        from .tensor import copy_of
        return copy_of(self, data, dtype, requires_grad)


class Buffer(Handle):
    """A range of device memory."""

    __slots__ = ("device",)
    _release = staticmethod(raw.ddisp_buffer_release)

    def __init__(self, handle: Any, device: Device):
        super().__init__(handle)
        self.device = device

    @property
    def address(self) -> int:
        """Device address of the first byte."""
        return raw.ddisp_buffer_address(self._handle)

    @property
    def size_bytes(self) -> int:
        """Size in bytes."""
        return raw.ddisp_buffer_size(self._handle)

    def write(self, data: Any, offset_bytes: int = 0, stream: Optional[Stream] = None) -> None:
        """Copies a contiguous buffer of bytes to the device."""
        with bytes_of(data) as (address, size_bytes):
            lib.ddisp_buffer_write(self._handle, offset_bytes, address, size_bytes, handle_of(stream))

    def read(self, size_bytes: Optional[int] = None, offset_bytes: int = 0, stream: Optional[Stream] = None) -> bytearray:
        """Copies bytes to the host."""
        if size_bytes is None:
            size_bytes = self.size_bytes - offset_bytes
        result = bytearray(size_bytes)
        target = (C.c_char * size_bytes).from_buffer(result)
        lib.ddisp_buffer_read(self._handle, offset_bytes, C.addressof(target), size_bytes, handle_of(stream))
        return result


@contextlib.contextmanager
def bytes_of(data: Any) -> Iterator[tuple[Any, int]]:
    """Address and size of a contiguous buffer, which stays as it is meanwhile."""
    view = memoryview(data)
    if not view.c_contiguous:
        raise ValueError("data is not contiguous in row-major order")
    if view.readonly:
        whole = data if isinstance(data, bytes) else bytes(view)
        yield whole, len(whole)
    elif view.nbytes == 0:
        yield None, 0
    else:
        array = (C.c_char * view.nbytes).from_buffer(view.cast("B"))
        yield C.addressof(array), view.nbytes


def handle_of(item: Optional[Handle]) -> Optional[int]:
    """The address of an object's C part; None for None."""
    return None if item is None else item._handle


class Stream(Handle):
    """An in-order queue of work."""

    __slots__ = ("device",)
    _release = staticmethod(raw.ddisp_stream_release)

    def __init__(self, handle: Any, device: Device):
        super().__init__(handle)
        self.device = device

    def flush(self) -> None:
        """Hands queued work to the device."""
        lib.ddisp_stream_flush(self._handle)

    def synchronize(self, timeout_ns: int = _abi.TIMEOUT_INFINITE) -> None:
        """Waits until all queued work is done."""
        lib.ddisp_stream_synchronize(self._handle, timeout_ns)

    def wait(self, event: Event) -> None:
        """Makes later work on this stream wait for an event."""
        lib.ddisp_stream_wait_event(self._handle, event._handle)


class Event(Handle):
    """A point in a stream's work."""

    __slots__ = ("device",)
    _release = staticmethod(raw.ddisp_event_release)

    def __init__(self, handle: Any, device: Device):
        super().__init__(handle)
        self.device = device

    def record(self, stream: Optional[Stream] = None) -> None:
        """Marks the present end of stream (None: the device's own)."""
        lib.ddisp_event_record(self._handle, handle_of(stream))

    @property
    def done(self) -> bool:
        """Whether the marked work is done."""
        status = raw.ddisp_event_query(self._handle)
        if status == Status.NOT_READY:
            return False
        if status:
            lib.ddisp_event_query(self._handle)
        return True

    def synchronize(self, timeout_ns: int = _abi.TIMEOUT_INFINITE) -> None:
        """Waits for the marked work."""
        lib.ddisp_event_synchronize(self._handle, timeout_ns)

    def elapsed_ns(self, end: Event) -> int:
        """The device's time from this timed event to another, in nanoseconds; waits for both."""
        self.synchronize()
        end.synchronize()
        found = C.c_uint64()
        lib.ddisp_event_elapsed(self._handle, end._handle, C.byref(found))
        return found.value
