"""Steps of work recorded from a stream and replayed."""
from __future__ import annotations

import contextlib
import ctypes as C
from typing import Any, Iterator, Optional

from ._library import Handle, lib, raw
from .context import Stream, handle_of


class Graph(Handle):
    """Recorded work. It keeps everything that it uses alive; for one thread at a time."""

    __slots__ = ()
    _release = staticmethod(raw.ddisp_graph_release)

    def __init__(self) -> None:
        self._handle = 0

    def launch(self, stream: Optional[Stream] = None) -> None:
        """Runs the recorded work after what is queued on stream (None: the device's own)."""
        lib.ddisp_graph_launch(self._handle, handle_of(stream))

    @property
    def launch_count(self) -> int:
        """Number of kernel launches recorded."""
        return raw.ddisp_graph_launch_count(self._handle)


@contextlib.contextmanager
def capture(stream: Stream) -> Iterator[Graph]:
    """Records what the block queues on stream instead of running it; the graph is usable after the block."""
    graph = Graph()
    lib.ddisp_stream_begin_capture(stream._handle)
    handle = C.c_void_p()
    try:
        yield graph
    except BaseException:
        if raw.ddisp_stream_end_capture(stream._handle, C.byref(handle)) == 0:
            raw.ddisp_graph_release(handle)
        raise
    lib.ddisp_stream_end_capture(stream._handle, C.byref(handle))
    graph._handle = handle.value or 0
