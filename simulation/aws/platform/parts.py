"""A planned job that works in parts, and stores each for the next attempt.

It asks the real `longhaul.runner.saving` and `running_job`. Only what Spark would compute is
planned: each part's files say what they were computed for, and by whom.
"""

import json
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from longhaul.outputs.manifest import MAIN
from longhaul.runner.io.frame import WriteOptions
from longhaul.runner.io.written import Dataset, Folder, TableLayout
from longhaul.runner.running_job import RunningJob
from longhaul.saved.record import CHECKPOINTS

if TYPE_CHECKING:
    from simulation.aws.platform.job_process import JobProcess

COLUMNS: Final = {"type": "struct", "fields": [{"name": "n", "type": "long"}]}
_ROWS: Final = 3  # in each file
MARKER: Final = "_SUCCESS"
"""Spark's last file in a folder that it has written."""

_FOLDER: Final = "model"
_FILES_OF_FOLDER: Final = ("a", "b")
CHECKPOINT: Final = "checkpoint"
DATASETS: Final = "datasets"
_SECOND: Final = "rejected"
_PART: Final = "part "


class Piece(NamedTuple):
    """A part, or a checkpoint: what it was computed for, and which process has computed it."""

    name: str
    work: int
    reads: str
    made_by: str
    process: str


class Restored(NamedTuple):
    """What an attempt finds when it begins: `generation` of its state, and each file's content."""

    process: "JobProcess"
    generation: str | None
    files: dict[str, str]


def asked(parts: int, code: int) -> list[str]:
    """The parts of the output; every other version of the code asks for one part less."""
    return [f"{_PART}{n}" for n in range(max(1, parts - code % 2))]


class PlannedFrame:
    """`longhaul.runner.io.frame.Frame` of rows that `compute` writes, and counts."""

    columns = json.dumps(COLUMNS)

    def __init__(self, compute: Callable[[Folder], int]) -> None:
        self._compute = compute

    def write(self, folder: Folder, _how: WriteOptions) -> int:
        return self._compute(folder)

    def write_for_table(
        self, folder: Folder, _layout: TableLayout, _options: Mapping[str, str]
    ) -> tuple[int, frozenset[str]]:
        return self._compute(folder), frozenset()

    def stored(self, _folder: Folder, _columns: str) -> None:
        """A checkpoint's files are looked at, and no rows."""


class WorkInParts:
    """One attempt."""

    def __init__(
        self, container: "JobProcess", job: RunningJob[Any], work: Callable[[float], None]
    ) -> None:
        """`work` takes as many seconds, unless the plan ends the attempt before."""
        self._container = container
        self._planned = container.job
        self._job = job
        self._work = work
        self._generations = 0

    def run(self) -> None:
        planned = self._planned
        names = asked(planned.parts, self._container.code)
        pieces = planned.parts + (planned.saves == CHECKPOINT)
        self._restore()
        self._job.on_stop(lambda _left_s: self._job.save())
        if planned.saves == CHECKPOINT:
            self._checkpoint(planned.work_s / pieces)
        for name in names:
            self._write(name, planned.work_s / pieces)
            self._change_state()
            if planned.saves:
                self._job.save()
        self._work(0)

    def made_by(self, name: str) -> str:
        """What a piece is known by: the code, or a version for each second part."""
        version = self._version(name)
        return f"code {self._container.code}" if version is None else f"version {version}"

    def _version(self, name: str) -> str | None:
        return "1" if name in asked(self._planned.parts, 0)[1::2] else None

    def _restore(self) -> None:
        folder = self._job.folder(_FOLDER) if self._planned.saves == "folder" else None
        files = {each.name: each.read_text() for each in folder.iterdir()} if folder else {}
        generation = self._job.state.get("generation")
        found = Restored(self._container, cast("str | None", generation), files)
        self._container.world.seen.check("restored", found)

    def _change_state(self) -> None:
        """In the state and in both files of the folder the same."""
        self._generations += 1
        generation = f"{self._container.host.name} {self._generations}"
        self._job.state["generation"] = generation
        if self._planned.saves == "folder":
            for name in _FILES_OF_FOLDER:
                (self._job.folder(_FOLDER) / name).write_text(generation)

    def _write(self, name: str, seconds: float) -> None:
        def compute(folder: Folder) -> int:
            self._compute(name, seconds, folder)
            return _ROWS * self._planned.files

        # In the place of Spark; all that is around it stays.
        self._job.frame_of = PlannedFrame
        self._container.asked.append(name)
        dataset, part = self._place(name)
        self._job.write(compute, dataset, part=part, version=self._version(name))

    def _place(self, name: str) -> tuple[str, str]:
        """The dataset of a part, and its name there: two datasets have parts of equal names."""
        if self._planned.saves != DATASETS or self._planned.table:
            return MAIN, name
        number = int(name.removeprefix(_PART))
        return (MAIN, _SECOND)[number % 2], f"{_PART}{number // 2}"

    def _checkpoint(self, seconds: float) -> None:
        written = False

        def write(folder: Folder) -> Dataset:
            nonlocal written
            written = True
            self._compute(CHECKPOINT, seconds, folder)
            return Dataset(MAIN, folder, _ROWS)

        saving = self._job.saving
        stored, _ = saving.once(CHECKPOINTS, CHECKPOINT, None, json.dumps(COLUMNS), write)
        if not written:
            texts = self._container.read(saving.files.bring(stored.place, stored.files))
            files = [json.loads(each)["piece"] for each in texts]
            found = [Piece(*each) for each in files], len(stored.files)
            self._container.world.seen.check("checkpoint read", self._container, *found)

    def _compute(self, name: str, seconds: float, folder: Folder) -> None:
        """Half of the files are there before the work is done."""
        container = self._container
        piece = Piece(
            name, container.work or 0, container.reads, self.made_by(name), container.host.name
        )
        container.world.seen.check("computed", container, piece)
        digest = sha256(f"{container.task_ref} {name}".encode()).hexdigest()[:32]
        names = [f"part-{n:05d}-{digest}-c000.parquet" for n in range(self._planned.files)]
        texts = {file: json.dumps({"piece": piece, "n": n}) for n, file in enumerate(names)}
        early = len(names) // 2
        container.write({file: texts[file] for file in names[:early]}, folder)
        self._work(seconds)
        container.write({file: texts[file] for file in names[early:]} | {MARKER: ""}, folder)
