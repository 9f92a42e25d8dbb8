"""Capsules that carry tensors of DLPack from library to library.

A capsule named "dltensor" or "dltensor_versioned" belongs to whoever takes the tensor out first and renames it. In come managed
tensors of the library, out go capsules, and the other way around. Nothing here knows what a tensor is.
"""
from __future__ import annotations

import ctypes as C
import sys
from typing import Any, List, Optional, Tuple

_python = C.pythonapi
_capsule_new = C.PYFUNCTYPE(C.py_object, C.c_void_p, C.c_char_p, C.c_void_p)(("PyCapsule_New", _python))
_capsule_is = C.PYFUNCTYPE(C.c_int, C.py_object, C.c_char_p)(("PyCapsule_IsValid", _python))
_capsule_pointer = C.PYFUNCTYPE(C.c_void_p, C.py_object, C.c_char_p)(("PyCapsule_GetPointer", _python))
_capsule_rename = C.PYFUNCTYPE(C.c_int, C.py_object, C.c_char_p)(("PyCapsule_SetName", _python))

# Names live as long as the capsules that carry them.
PLAIN, VERSIONED = b"dltensor", b"dltensor_versioned"
_USED = {PLAIN: b"used_dltensor", VERSIONED: b"used_dltensor_versioned"}
_DELETER = C.CFUNCTYPE(None, C.c_void_p)
_DELETER_OFFSET = {PLAIN: 56, VERSIONED: 16}  # of the deleter in DLManagedTensor and DLManagedTensorVersioned

# Capsules that are out and not known to be taken. They have no destructor: it would run Python code while the exception of a consumer
# that refused the tensor is pending, and lose it. Instead every export and every end of a tensor looks for those that nobody else has.
offered: List[Tuple[Any, bytes]] = []


def _count(capsule: Any) -> int:
    return sys.getrefcount(capsule)


def _references_alone() -> int:
    entry = (_capsule_new(1, None, None), b"")
    capsule, _ = entry
    return _count(capsule)


_ALONE = _references_alone()


def sweep() -> None:
    """Gives tensors back that were exported and that nobody took."""
    waiting = []
    while offered:
        try:
            entry = offered.pop()
        except IndexError:  # another thread has the rest
            break
        capsule, name = entry
        if not _capsule_is(capsule, name):
            continue  # taken
        if _count(capsule) > _ALONE:
            waiting.append(entry)
            continue
        managed = _capsule_pointer(capsule, name)
        _capsule_rename(capsule, _USED[name])
        _DELETER(C.c_void_p.from_address(managed + _DELETER_OFFSET[name]).value)(managed)
    offered.extend(waiting)


def offer(managed: C.c_void_p, versioned: bool) -> Any:
    """A capsule with a tensor that is to be taken."""
    name = VERSIONED if versioned else PLAIN
    capsule = _capsule_new(managed, name, None)
    offered.append((capsule, name))
    return capsule


def look(capsule: Any) -> Optional[Tuple[bytes, int]]:
    """Name and address of the managed tensor; None when there is none, or none any more."""
    for name in (VERSIONED, PLAIN):
        if _capsule_is(capsule, name):
            return name, _capsule_pointer(capsule, name)
    return None


def took(capsule: Any, name: bytes) -> None:
    """Notes in the capsule that its tensor was taken."""
    _capsule_rename(capsule, _USED[name])
