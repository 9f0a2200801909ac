"""What jobs have stored for their next attempts, as its objects and the rows' pointers say."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from simulation.aws.platform.parts import Piece
from simulation.seen.sightings import Row, Token

if TYPE_CHECKING:
    from simulation.aws.platform.job_process import JobProcess
    from simulation.seen.record import Seen

PREFIX = "longhaul/saved/"


@dataclass
class Record:
    """What a record names, as of the time when a row named it first."""

    folder: str  # of the attempt that wrote it
    sizes: dict[str, int]  # of all objects, by name
    missing: list[str]  # that were not there, or not whole
    pieces: dict[str, Piece] = field(default_factory=dict)
    generation: str | None = None
    files: dict[str, str] = field(default_factory=dict)  # of the folder, by path
    code: str = ""
    reads: str = ""


class Stored:
    """What is known of it, by when.

    Attributes:
        records: By name.
        begun_from: The record that an attempt began from; None: from none.
        lasting: The pieces that a record has named which counted.
    """

    def __init__(self, seen: "Seen") -> None:
        self._seen = seen
        self.records: dict[str, Record] = {}
        self.begun_from: dict[Token, str | None] = {}
        self.lasting: set[Piece] = set()

    def note_row(self, before: "Row | None", row: "Row") -> None:
        ref = ref_in(row)
        self.begun_from.setdefault(Token.of(row), ref)
        if ref == ref_in(before or {}):
            return
        if ref is not None and ref not in self.records:
            self.records[ref] = self._read(ref)
            self.lasting |= set(self.records[ref].pieces.values())
        self._seen.check("pointer moved", before, row, ref)

    def objects(self) -> Iterator[str]:
        """The names of all."""
        return self._seen.bucket().objects.listed(PREFIX, "")

    def is_left(self) -> bool:
        """Whether something is there that no dead job waits with."""
        return any(not self.may_stay(name) for name in list(self.objects()))

    def may_stay(self, name: str) -> bool:
        """Whether the object is of a job that is dead, and may be sent again."""
        row = self.row_of(name)
        is_dead = row is not None and row["state"]["S"] == "DEAD"
        return is_dead and not self._seen.world.plan.kept_s

    def row_of(self, name: str) -> Row | None:
        """The row of the job that has stored an object."""
        folder = name.removeprefix(PREFIX).split("/")[0]
        rows = self._seen.rows.items()
        return next(
            (row for key, row in rows if key.replace("#", "!").replace("/", "!") == folder), None
        )

    def _read(self, ref: str) -> Record:
        objects = self._seen.objects()
        prefix = PREFIX + ref.removeprefix(PREFIX).split("/")[0] + "/"
        folder = ref.rpartition("/")[0] + "/"
        if ref not in objects:
            return Record(folder, {}, [ref])
        document: dict[str, Any] = json.loads(objects[ref].body)
        found = Record(folder, {}, [], code=document["code"])
        found.reads = json.dumps(document.get("reads", {}), sort_keys=True)
        found.generation = document.get("state", {}).get("generation")
        frames = [*document.get("checkpoints", {}).values()]
        for parts in document.get("parts", {}).values():
            frames += parts.values()
        for frame in frames:
            for file in frame["files"]:
                name = f"{prefix}{frame['place']}{file['path']}"
                found.sizes[name] = file["size"]
                if name in objects:
                    piece = Piece(*json.loads(objects[name].body)["piece"])
                    found.pieces[piece.name] = piece
        for each in document.get("folders", {}).values():
            for path, file in each.get("files", {}).items():
                name = prefix + file["object"]
                found.sizes[name] = file["size"]
                if name in objects:
                    found.files[path] = objects[name].body.decode()
        found.missing = [
            name
            for name, size in found.sizes.items()
            if name not in objects or len(objects[name].body) != size
        ]
        return found


def ref_in(row: Mapping[str, Any]) -> str | None:
    """The record that a row names."""
    found = row.get("saved_ref", {}).get("S")
    return None if found is None else str(found)


def process_of(seen: "Seen", row: "Row") -> "JobProcess | None":
    """The process that the row says works on its attempt."""
    arn = row.get("task_arn", {}).get("S")
    return next(
        (each for each in seen.attempts[Token.of(row)].containers if each.task_ref == arn), None
    )
