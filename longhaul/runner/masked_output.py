"""Cuts secrets out of all that leaves this process by the descriptors of stdout and stderr.

Child processes and C libraries write there too, so each descriptor becomes a pipe. One thread reads
both, and writes whole lines on to where they were to go.
"""

import atexit
import os
import threading
from contextlib import suppress
from dataclasses import dataclass
from selectors import EVENT_READ, DefaultSelector
from typing import Final

from longhaul.runner.masking import Mask

# A line that does not end is written after so much of it, but for what may be half a secret.
_MAX_LINE: Final = 65_536
# Of the end: what reads our output may hang.
_MAX_DRAIN_S: Final = 5.0


@dataclass
class _Stream:
    number: int
    real: int  # the descriptor where it goes
    rest: bytes = b""


class MaskedOutput:
    """Masks from now on, until `end`."""

    def __init__(self, mask: Mask) -> None:
        self._mask = mask
        self._selector = DefaultSelector()
        self._ended, self._end = os.pipe()
        self._selector.register(self._ended, EVENT_READ)
        self._streams: dict[int, _Stream] = {}
        for number in (1, 2):
            reading, writing = os.pipe()
            os.set_blocking(reading, False)
            self._streams[reading] = _Stream(number, os.dup(number))
            os.dup2(writing, number)
            os.close(writing)
            self._selector.register(reading, EVENT_READ)
        self._thread = threading.Thread(target=self._run, name="masked-output", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Write all that was written by now; the descriptors are as they were. Repeatable.

        A child that goes on writes into a pipe that no one reads.
        """
        if not self._thread.is_alive():
            return  # in a process that a job has forked it never is: the parent reads
        for stream in self._streams.values():
            os.dup2(stream.real, stream.number)
        with suppress(OSError):  # another thread ends it, too
            os.write(self._end, b"x")
        self._thread.join(_MAX_DRAIN_S)

    def _run(self) -> None:
        ready = set[int]()
        while self._ended not in ready:
            ready = {key.fd for key, _ in self._selector.select()}
            for reading in ready & self._streams.keys():
                self._read(reading, self._streams[reading])
        for reading, stream in self._streams.items():
            while self._read(reading, stream):
                pass
            self._write(stream, stream.rest)

    def _read(self, reading: int, stream: _Stream) -> bool:
        """Whether anything was there."""
        try:
            found = os.read(reading, _MAX_LINE)
        except BlockingIOError:
            return False
        # Before it is parted: what may be half a secret waits for the rest of its line.
        said = self._mask((stream.rest + found).decode(errors="surrogateescape"))
        end = max(said.rfind("\n"), said.rfind("\r")) + 1  # a bar of progress has the latter
        if len(said) - end > _MAX_LINE:
            end = max(end, len(said) - self._mask.longest + 1)
        stream.rest = said[end:].encode(errors="surrogateescape")
        self._write(stream, said[:end].encode(errors="surrogateescape"))
        return bool(found)

    def _write(self, stream: _Stream, said: bytes) -> None:
        with suppress(OSError):  # its reader is gone: the job goes on
            while said:
                said = said[os.write(stream.real, said) :]


_begun: list[MaskedOutput] = []


def begin(mask: Mask) -> None:
    """Mask all that this process and its children print from now on."""
    _begun.append(MaskedOutput(mask))
    atexit.register(end)


def end() -> None:
    """Let nothing be lost that was printed: before this process ends, however it does."""
    while _begun:
        _begun.pop().end()
