"""Follow a job through the code: `python -m simulation.tools.walks`.

Prints the files of `functions/` and `longhaul/` in the order in which they run in a world with one
job: for the first process of each kind, from the dispatcher that receives the message to the settle
that deletes it, and then for `longhaul status JOB`. The functions are warm: `longhaul/wiring.py`
has put their parts together before; and the command knows the stack. A move to a new file has a
number; a return to an earlier one names its old number.
"""

import ast
import io
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout, suppress
from functools import cache
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any, Final
from unittest.mock import patch

from longhaul.cli.entry import main as longhaul
from longhaul.cli.place import Place
from longhaul.core.background import Threads
from simulation.aws.platform.hosts import current_host
from simulation.worlds.run import play
from simulation.worlds.systematic import SCENARIOS
from simulation.worlds.world import World

_ROOT: Final = Path(__file__).resolve().parents[2]
_STATUS: Final = "status"
_FOLDERS: Final = tuple(f"{_ROOT / folder}{os.sep}" for folder in ("functions", "longhaul"))


def walks() -> dict[str, list[str]]:
    """The files that ran, in order, by process; a file again, when the code comes back to it."""
    found = dict[str, list[str]]()
    first: dict[str, str] = {}  # process, by its kind

    def note(frame: FrameType, event: str, _: object) -> None:
        if event not in {"call", "return"} or _file(frame) is None:
            return
        host = current_host()
        name = _STATUS if host is None else host.name
        kind = name.partition("@")[0]
        file = _nearest(frame if event == "call" else frame.f_back)
        if file is None or first.setdefault(kind, name) != name:
            return
        files = found.setdefault(kind, [])
        if event == "call" and (file, frame.f_code.co_name) == (f"functions/{kind}.py", "handle"):
            files.clear()
        if files[-1:] != [file]:
            files.append(file)

    for follow in (None, note):  # the first round loads the modules that are imported late
        world = World(SCENARIOS["a job succeeds"])
        with _followed(follow):
            play(world)
        found.pop(_STATUS, None)  # the world's own steps
        said = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
        with (
            _operator_of(world),
            redirect_stdout(said),
            redirect_stderr(said),
            suppress(SystemExit),
            _followed(follow),
        ):
            longhaul()
        said.seek(0)
        if "SUCCEEDED" not in (text := said.read()):
            raise AssertionError(f"the command does not know the job: {text}")
    return found


@contextmanager
def _followed(note: Callable[[FrameType, str, Any], None] | None) -> Iterator[None]:
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)


@contextmanager
def _operator_of(world: World) -> Iterator[None]:
    """Commands speak to the world; what they do at once is done in turn, so that it is followed."""
    session = SimpleNamespace(
        region_name="us-east-1", client=lambda service, **_: getattr(world.aws, service)
    )
    place = Place(None, "us-east-1", None, False)
    with ExitStack() as patched:
        for name, value in (
            ("boto3.Session", lambda **_: session),
            ("longhaul.cli.target.locate", lambda *_: place),
            ("longhaul.cli.target.Target.settings", world.settings),
            ("longhaul.wiring.SystemClock", lambda: world.timeline.clock),
            ("sys.argv", ["longhaul", "status", "j0"]),
        ):
            patched.enter_context(patch(name, value))
        patched.enter_context(
            patch.object(Threads, "run_all", lambda _, tasks, **__: [task() for task in tasks])
        )
        yield


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
    """For people: each file with its number and what it is for; then with its number alone."""
    numbers: dict[str, int] = {}
    for file in files:
        if file in numbers:
            yield f"      back to {numbers[file]:2}  {file}"
        else:
            numbers[file] = len(numbers) + 1
            yield f"  {numbers[file]:2}  {file}: {_is_for(file)}"
    yield f"{name}: {len(numbers)} files, {len(files) - len(numbers)} returns"


def _is_for(file: str) -> str:
    """The first line of its docstring."""
    module = ast.parse((_ROOT / file).read_text("utf-8"))
    return (ast.get_docstring(module) or "").partition("\n")[0]


if __name__ == "__main__":
    for process, files in walks().items():
        print("\n".join(lines(process, files)), end="\n\n")
