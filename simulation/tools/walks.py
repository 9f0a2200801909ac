"""Follow a job through the code: `python -m simulation.tools.walks`.

Prints the files of `functions/` and `longhaul/` in the order in which they run in a world with one
job: for the first process of each kind, from the dispatcher that receives the message to the settle
that deletes it. The functions are warm: `longhaul/wiring.py` has put their parts together before. A
move to a new file has a number; a return to an earlier one names its old number.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Final

from simulation.aws.platform.hosts import current_host
from simulation.worlds.run import run
from simulation.worlds.systematic import SCENARIOS

_ROOT: Final = Path(__file__).resolve().parents[2]
_FOLDERS: Final = tuple(f"{_ROOT / folder}{os.sep}" for folder in ("functions", "longhaul"))


def walks() -> dict[str, list[str]]:
    """The files that ran, in order, by process; a file again, when the code comes back to it."""
    one_job, found = SCENARIOS["a job succeeds"], dict[str, list[str]]()
    first: dict[str, str] = {}  # process, by its kind

    def note(frame: FrameType, event: str, _: object) -> None:
        host = current_host()
        if host is None or event not in {"call", "return"} or _file(frame) is None:
            return
        kind = host.name.partition("@")[0]
        file = _nearest(frame if event == "call" else frame.f_back)
        if file is None or first.setdefault(kind, host.name) != host.name:
            return
        files = found.setdefault(kind, [])
        if event == "call" and (file, frame.f_code.co_name) == (f"functions/{kind}.py", "handle"):
            files.clear()
        if files[-1:] != [file]:
            files.append(file)

    run(one_job)  # loads the modules that are imported late
    sys.setprofile(note)
    try:
        run(one_job)
    finally:
        sys.setprofile(None)
    return found


def _nearest(frame: FrameType | None) -> str | None:
    """The file of this frame, or of the nearest of its callers that is the product's."""
    while frame is not None:
        if (file := _file(frame)) is not None:
            return file
        frame = frame.f_back
    return None


def _file(frame: FrameType) -> str | None:
    return _relative(frame.f_code.co_filename)


@cache
def _relative(name: str) -> str | None:
    return str(Path(name).relative_to(_ROOT)) if name.startswith(_FOLDERS) else None


def lines(name: str, files: Sequence[str]) -> Iterator[str]:
    """For people: each file with its number; one that was there before with its old number."""
    numbers: dict[str, int] = {}
    for file in files:
        if file in numbers:
            yield f"      back to {numbers[file]:2}  {file}"
        else:
            numbers[file] = len(numbers) + 1
            yield f"  {numbers[file]:2}  {file}"
    yield f"{name}: {len(numbers)} files, {len(files) - len(numbers)} returns"


if __name__ == "__main__":
    for process, files in walks().items():
        print("\n".join(lines(process, files)), end="\n\n")
