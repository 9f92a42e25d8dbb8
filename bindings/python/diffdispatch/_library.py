"""Finding and loading libdiffdispatch, and its failures as exceptions.

In comes the environment; out go `lib`, whose functions raise `Error` where the C function returns a status, and `raw`, the same
functions without checks, for whoever looks at the status.
"""
from __future__ import annotations

import ctypes as C
import os
import pathlib
from typing import Any, Iterator, Optional

from . import _abi
from ._abi import Status

SONAME = "libdiffdispatch.so.0"


class Error(RuntimeError):
    """A call of the library failed. The text is the library's message."""

    def __init__(self, status: int, message: str, argument: int = -1, native_code: int = 0):
        super().__init__(message)
        self.status = Status(status) if status in Status._value2member_map_ else status
        """What kind of failure it is."""
        self.argument: Optional[int] = argument if argument >= 0 else None
        """Index of the launch argument at fault."""
        self.native_code = native_code
        """The driver's own code, 0 when there is none."""

    def __str__(self) -> str:
        name = self.status.name if isinstance(self.status, Status) else f"status {self.status}"
        return f"{self.args[0]} [{name}]"


def _candidates() -> Iterator[str]:
    """Where the library may be, the first that exists is taken."""
    chosen = os.environ.get("DDISP_LIBRARY")
    if chosen:
        yield chosen
        return
    package = pathlib.Path(__file__).resolve().parent
    for name in (SONAME, "libdiffdispatch.so"):
        yield str(package / name)
    root = package.parent.parent.parent
    if (root / "meson.build").is_file() and (root / "lib" / "diffdispatch.map").is_file():
        built = [folder / "lib" / SONAME for folder in root.glob("build*")]
        built = sorted((path for path in built if path.is_file()), key=lambda path: path.stat().st_mtime)
        yield from [str(path) for path in reversed(built)]
    yield SONAME


def _load() -> C.CDLL:
    tried = []
    for candidate in _candidates():
        if os.sep in candidate and not os.path.isfile(candidate):
            tried.append(f"{candidate}: no such file")
            continue
        try:
            return C.CDLL(candidate)
        except OSError as error:
            tried.append(str(error))
    raise ImportError("libdiffdispatch was not found; set DDISP_LIBRARY to its path. Tried:\n  " + "\n  ".join(tried))


def last_error() -> Error:
    """The calling thread's most recent failure."""
    detail = _abi.ddisp_error(size=C.sizeof(_abi.ddisp_error))
    _last_error_detail(C.byref(detail))
    return Error(detail.status, detail.message.decode("utf-8", "replace"), detail.argument, detail.native_code)


def _check(result: int, function: Any, arguments: Any) -> int:
    if result:
        error = last_error()
        raise error if error.status == result else Error(result, raw.ddisp_status_describe(result).decode())
    return result


class _Functions:
    """The functions of the library as attributes."""

    def __init__(self, library: C.CDLL, checked: bool):
        for name, (returns, arguments) in _abi.FUNCTIONS.items():
            try:
                function = library[name]  # a new object each time: attributes would be shared
            except AttributeError:
                raise ImportError(f"{library._name} has no {name}: it is not of version {_abi.API_VERSION}, as this package is")
            function.argtypes = arguments
            function.restype = C.c_uint32 if returns is Status else returns
            if checked and returns is Status:
                function.errcheck = _check
            setattr(self, name, function)

    def __getattr__(self, name: str) -> Any:  # for type checkers: every function is there
        raise AttributeError(name)


library = _load()
raw = _Functions(library, checked=False)
_last_error_detail = raw.ddisp_last_error_detail
lib = _Functions(library, checked=True)

_found = divmod(raw.ddisp_version(), 1000)[0]
_wanted = _abi.VERSION_MAJOR * 1000 + _abi.VERSION_MINOR
if _found != _wanted:
    raise ImportError(f"{library._name} is version {raw.ddisp_version_string().decode()}, "
                      f"this package is for {_abi.VERSION_MAJOR}.{_abi.VERSION_MINOR}")


class Handle:
    """Owns one reference to an object of the library."""

    __slots__ = ("_handle", "__weakref__")
    _release = staticmethod(lambda handle: None)

    def __init__(self, handle: C.c_void_p | int):
        value = handle.value if isinstance(handle, C.c_void_p) else handle
        if not value:
            raise ValueError(f"{type(self).__name__} of NULL")
        self._handle = value

    @property
    def handle(self) -> int:
        """The address of the C object, for calls through ctypes; 0 after close()."""
        return self._handle

    def close(self) -> None:
        """Gives the reference back now instead of when the object is collected."""
        handle, self._handle = self._handle, 0
        if handle:
            self._release(handle)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        # Made by a failed constructor there is no handle; at the end of the process the library may be gone.
        if getattr(self, "_handle", 0):
            self.close()


def text_of(function: Any, *arguments: Any) -> str:
    """Text that a function copies into a caller's buffer."""
    length = C.c_uint64()
    status = function(*arguments, None, 0, C.byref(length))
    if status not in (Status.OK, Status.BUFFER_TOO_SMALL):
        _check(status, function, arguments)
    buffer = C.create_string_buffer(length.value + 1)
    _check(function(*arguments, buffer, len(buffer), C.byref(length)), function, arguments)
    return buffer.value.decode("utf-8", "replace")


def new(function: Any, *arguments: Any) -> C.c_void_p:
    """The handle that a function returns through its last parameter."""
    handle = C.c_void_p()
    function(*arguments, C.byref(handle))
    return handle


def described(function: Any, struct: Any, *arguments: Any) -> Any:
    """A struct that a function fills."""
    info = struct(size=C.sizeof(struct))
    function(*arguments, C.byref(info))
    return info
