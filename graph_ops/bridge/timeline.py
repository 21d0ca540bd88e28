"""When requests have come to what, in a file for each rank, if SOK1X_TIMELINE names one.

Requests carry their stamps themselves (bridge_timeline.h); when one ends, they go into a buffer of fixed size. A thread
of its own takes them out every now and then and writes them as Chrome's trace events, a line each: an array that the
process's end closes. Chrome, and `sok1x.timeline.merge`, read one that was never closed as well.

An op's run is an event, with those of its parts inside: `queued`, or `waiting for rank R`, until it began, R being the
rank whose inputs were there last; `keys`, until those that other ranks ask for were there; `rows`, until their rows or
gradients were; `done`, what came after; `run`, where nothing travels. Times on a GPU are those at which work had been
enqueued.

While the timeline is on the first number of each header (devices.mark) also says when its rank was ready: so all ranks
know for whom they wait. No message more is sent.
"""
import atexit
import ctypes
import json
import os
import threading
from typing import Any, Dict, Iterator, List, Optional, Tuple

import numpy as np

from sok1x import launch
from sok1x.launch import launcher
from sok1x.launch.lines import print_line

READY, AGREED, KEYS, ROWS = range(4)  # Stamp in bridge_timeline.h
VARIABLE = "SOK1X_TIMELINE"

on = False  # whether anything is noted

_CAPACITY = 1 << 14
_AT_ONCE = 512
_SECONDS = 0.2


class Record(ctypes.Structure):
    """What is known of a run when it has ended: TimelineRecord there."""

    _fields_ = [("stamps", ctypes.c_int64 * 4), ("done", ctypes.c_int64), ("step", ctypes.c_int64),
                ("id", ctypes.c_int64), ("last", ctypes.c_int32), ("code", ctypes.c_int32),
                ("name", ctypes.c_char * 160), ("function", ctypes.c_char * 64)]


def mark(members: List[Any]) -> None:
    """Has the headers of members (`together.Taken`) say when they were ready."""
    for taken in members:
        if taken.header is not None:
            taken.header[0] = taken.header[0] & 1 | taken.request.library.timeline_ready(taken.request.handle) << 1


def last_of(headers: Any) -> int:
    """Of all ranks' headers as they were announced, the rank that was ready last; -1 where that is not known."""
    if not on or headers is None or len(headers) < 2:
        return -1
    ready = np.asarray(headers)[:, 0] >> 1
    return int(ready.argmax()) if ready.all() else -1


def path_of(path: str, rank: int, ranks: int) -> str:
    """A rank's file: `path` itself on one rank, else with the rank before its extension; '{rank}' in it is the rank."""
    if "{rank}" in path:
        return path.replace("{rank}", str(rank))
    if ranks == 1:
        return path
    stem, extension = os.path.splitext(path)
    return "{}.{}{}".format(stem, rank, extension)


def events_of(record: Any, rank: int, row: int) -> Iterator[Dict[str, Any]]:
    """The trace events of a run: its own first. row: where it is drawn."""
    ready = record.stamps[READY] or record.done
    agreed, *others = (record.stamps[stamp] for stamp in (AGREED, KEYS, ROWS))
    agreed = max(ready, agreed) if agreed else 0
    # What lies before that is of a run that was left, and begun with anew; or the machine's clock has been set back.
    keys, rows = (stamp if stamp >= max(ready, agreed) else 0 for stamp in others)
    rows = rows if rows >= keys else 0
    done = max(record.done, ready, agreed, keys, rows)
    function = record.function.decode("utf-8", "replace")
    yield _event(record.name.decode("utf-8", "replace"), "op", ready, done, rank, row, {
        "function": function, "step": record.step, "status": record.code})
    at = ready
    if agreed:
        waits = "queued" if record.last in (-1, rank) else "waiting for rank {}".format(record.last)
        yield _event(waits, "waiting", at, agreed, rank, row, {})
        at = agreed
    for name, until in (("keys", keys), ("rows", rows)):
        if until:
            yield _event(name, "exchange", at, until, rank, row, {})
            at = until
    yield _event("done" if keys or rows else "run", "op", at, done, rank, row, {})


def _event(name: str, kind: str, begin: int, end: int, rank: int, row: int, more: Dict[str, Any]) -> Dict[str, Any]:
    made = {"ph": "X", "name": name, "cat": kind, "ts": begin, "dur": max(0, end - begin), "pid": rank, "tid": row}
    if more:
        made["args"] = more
    return made


class Writer:
    """Writes what the buffer has.

    Args:
      library: the bridge's `Library`. path: as the user has given it.
    """

    def __init__(self, library: Any, path: str) -> None:
        there = library.timeline_record_bytes()
        assert there == ctypes.sizeof(Record), (there, ctypes.sizeof(Record))
        self._library, self._path = library, path
        self._records = (Record * _AT_ONCE)()
        self._ends: List[int] = []  # of each row, where its last event ends
        self._file: Any = None
        self._rank = 0
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._pid = os.getpid()

    def begin(self) -> None:
        """Starts the thread."""
        self._library.timeline_begin(_CAPACITY)
        threading.Thread(target=self._run, name="sok1x-timeline", daemon=True).start()
        atexit.register(self.end)

    def end(self) -> None:
        """Writes the rest and closes the array."""
        if os.getpid() != self._pid or self._ended.is_set():
            return
        self._ended.set()
        self.write(ending=True)

    def write(self, ending: bool = False) -> None:
        """Writes what is there, once the rank is known."""
        with self._lock:
            if self._ended.is_set() and not ending:
                return  # the thread has waited for the lock, and the file is closed
            try:
                self._write(ending)
            except OSError as error:  # a full disk must not end a training run
                self._library.timeline_begin(0)
                self._ended.set()
                print_line("sok1x: the timeline {} ends here: {}".format(
                    getattr(self._file, "name", error.filename or self._path), error.strerror or error))

    def _run(self) -> None:
        while not self._ended.wait(_SECONDS):
            self.write()

    def _write(self, ending: bool) -> None:
        world = launch.current()
        if world is None and not ending:
            return  # the buffer holds what comes before
        lines = []
        lost, count = ctypes.c_int64(), _AT_ONCE
        while count == _AT_ONCE:
            count = self._library.timeline_take(self._records, _AT_ONCE, ctypes.byref(lost))
            if self._file is None:
                if world is None and count == 0:
                    return  # it may be a rank's child, with that rank's environment: the file is not its own
                self._open(world)
            for record in self._records[:count]:
                lines += list(events_of(record, self._rank, self._row_of(record)))
            if lost.value:
                lines.append({"ph": "i", "name": "{} ops that there was no room for".format(lost.value), "s": "p",
                              "ts": max(self._ends, default=0), "pid": self._rank, "tid": 0})
        self._file.write("".join(json.dumps(line) + ",\n" for line in lines))
        if ending:
            self._file.write(json.dumps(_metadata("process_labels", self._rank, {"labels": "whole"})) + "\n]\n")
            self._file.close()
        elif lines:
            self._file.flush()

    def _open(self, world: Any) -> None:
        self._rank, ranks = _launched() if world is None else (world.rank, world.size)
        path = path_of(self._path, self._rank, ranks)
        if os.path.dirname(path):
            os.makedirs(os.path.dirname(path), exist_ok=True)
        self._file = open(path, "w")
        self._file.write("[\n" + json.dumps(_metadata(
            "process_name", self._rank, {"name": "sok1x, rank {} of {}".format(self._rank, ranks)})) + ",\n")
        self._file.flush()

    def _row_of(self, record: Any) -> int:
        """The first row that is free when the run begins: events of a row must not overlap but inside each other."""
        begins = record.stamps[READY] or record.done
        for row, end in enumerate(self._ends):
            if end <= begins:
                break
        else:
            row = len(self._ends)
            self._ends.append(0)
        self._ends[row] = record.done
        return row


def _launched() -> Tuple[int, int]:
    """(rank, ranks) of a process that has not joined the others, or has left them already."""
    try:
        found = launcher.detect()
    except launch.LaunchError:
        return 0, 1
    return (0, 1) if found is None else (found.rank, found.size or 2)


def _metadata(name: str, rank: int, arguments: Dict[str, Any]) -> Dict[str, Any]:
    return {"ph": "M", "name": name, "pid": rank, "args": arguments}


def start(library: Any, path: Optional[str] = None) -> None:
    """Begins to note, if a file is named: by `path`, or the environment."""
    global on
    path = os.environ.get(VARIABLE, "").strip() if path is None else path
    if path and not on:
        on = True
        Writer(library, path).begin()
