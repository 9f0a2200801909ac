"""What an attempt stores for the next one, and what it takes over from those before it.

Objects first, under names of this attempt; then a record that names all that counts; then one
write, fenced, that makes the record the one that counts. See `longhaul.saved.record`.
"""

import json
import logging
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any, Final, Protocol

from boto3.exceptions import S3UploadFailedError
from botocore.exceptions import BotoCoreError, ClientError
from pydantic import JsonValue

from longhaul.core import transitions
from longhaul.core.errors import (
    LeaseChangedError,
    LonghaulError,
    NotDeletedError,
    PermanentJobError,
)
from longhaul.core.lease import AttemptId
from longhaul.core.ports import Clock, Leases
from longhaul.runner.io.saved_files import JobFolder, Objects, SavedFiles
from longhaul.runner.io.written import Dataset, Folder
from longhaul.runner.reporting import Progress, stop_as_refused
from longhaul.runner.stopping import Stop
from longhaul.saved.record import (
    CHECKPOINTS,
    CODE,
    MAX_FOLDER_FILES,
    MAX_PARTS,
    MAX_STATE_BYTES,
    VERSION,
    FolderFile,
    Record,
    SavedDataset,
    SavedFolder,
    TableRead,
    Work,
    attempt_folder,
    job_prefix,
    pinned,
    record_ref,
    why_not,
)
from longhaul.saved.store import S3SavedWork

_LOOK_AGAIN_S: Final = 0.05
# Longer than boto3 goes on trying: eight times a minute, for the data, the record and the row.
_AWS_ANSWERS_WITHIN: Final = timedelta(minutes=30)
_STATE: Final = "the state"
_TROUBLE: Final = (ClientError, BotoCoreError, S3UploadFailedError, OSError)

logger = logging.getLogger(__name__)


class UnusableRecordError(LonghaulError):
    """What was stored is gone, or in a form that this version does not read."""


class Records(Protocol):
    """Where the record is that counts."""

    def load(self) -> Record | None:
        """The record that counted when the attempt began; None: there was none.

        Raises:
            UnusableRecordError: there was one, and it cannot be used.
        """

    def put(self, record: Record) -> None:
        """Make this the record that counts.

        Raises:
            LeaseChangedError: another attempt owns the job, it is committed, or cancelled.
        """

    def drop(self, objects: Collection[str]) -> None:
        """Remove objects, by their names below the job's prefix, that no record needs any more."""


class LeaseRecords:
    """`Records` in the data bucket, of which the lease's row names the one that counts."""

    def __init__(
        self,
        leases: Leases,
        store: S3SavedWork,
        attempt: AttemptId,
        known: str | None,
        clock: Clock,
    ) -> None:
        self._leases = leases
        self._store = store
        self._attempt = attempt
        self._begun_from = self._known = known
        self._clock = clock
        self._numbers = count(1)

    def load(self) -> Record | None:
        if self._begun_from is not None and self._first is None:
            raise UnusableRecordError("it is gone, or of another version")
        return self._first

    @cached_property
    def _first(self) -> Record | None:
        # Once: whoever asks has the same answer, whatever S3 says meanwhile.
        return None if self._begun_from is None else self._store.load(self._begun_from)

    def pinned(self, work: Work, files: Callable[[], Mapping[str, str]]) -> Mapping[str, TableRead]:
        """The versions in which the attempt reads tables (`longhaul.saved.record.pinned`)."""
        record = self._first
        if record is None or not record.tables:
            return {}
        return pinned(record, work, files())

    def put(self, record: Record) -> None:
        ref = record_ref(self._attempt, next(self._numbers))
        self._store.put(ref, record)
        before, self._known = self._known, self._move_pointer(ref, record.size_bytes)
        if before is not None and before != ref:
            self._delete([before])

    def drop(self, objects: Collection[str]) -> None:
        prefix = job_prefix(self._attempt.key)
        self._delete([prefix + name for name in objects])

    def _move_pointer(self, ref: str, size_bytes: int) -> str:
        """Move the row's pointer to the record.

        An earlier write may have come through although its answer did not: its record is this
        attempt's, and older than this one.
        """
        try:
            self._report(self._known, ref, size_bytes)
        except LeaseChangedError as error:
            row = error.current
            own = job_prefix(self._attempt.key) + attempt_folder(self._attempt)
            if row is None or not row.owns(self._attempt) or row.saved_ref == self._known:
                raise
            if row.saved_ref is None or not row.saved_ref.startswith(own):
                raise
            self._report(row.saved_ref, ref, size_bytes)
        return ref

    def _report(self, known: str | None, ref: str, size_bytes: int) -> None:
        now = self._clock.now()
        self._leases.report(transitions.save(self._attempt, known, ref, size_bytes, now))

    def _delete(self, names: list[str]) -> None:
        try:
            self._store.delete(names)
        except (*_TROUBLE, NotDeletedError) as error:  # they go with the rest when the run ends
            logger.warning("not removed yet", extra={"error": type(error).__name__})


@dataclass
class Saving:
    """One at a time: a job may save from a thread of its own, and what it does at a stop does."""

    records: Records
    files: SavedFiles
    objects: Objects
    attempt: AttemptId
    work: Work
    folder: Path  # where the job's folders are
    clock: Clock
    stop: Stop
    progress: Progress
    state: dict[str, JsonValue] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    _taken: Counter[str] = field(default_factory=Counter)
    _record: Record = field(init=False)
    _folders: dict[str, tuple[str, JobFolder]] = field(default_factory=dict)
    _asked: set[tuple[str, str]] = field(default_factory=set)
    # Parts and checkpoints that AWS did not take at first.
    _late: dict[tuple[str, str], SavedDataset] = field(default_factory=dict)
    _why_left: str = ""
    _left: frozenset[str] = frozenset()  # objects of a record that no attempt will use
    _places: Iterator[int] = field(default_factory=lambda: count(1))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        work = self.work
        self._record = Record(
            fingerprint=work.fingerprint,
            spark=work.spark,
            code=work.code,
            reads=dict(work.reads),
            tables=dict(work.tables),
        )

    def begin(self, why_nothing: str | None = None) -> None:
        """Look at what was stored, and take over what is of use. Nothing is brought yet.

        `why_nothing`: why the attempt begins from nothing, if it was decided before.
        """
        before, reason = None, why_nothing
        try:
            if reason is None and (before := self.records.load()) is not None:
                reason = why_not(before, self.work)
        except UnusableRecordError as error:
            reason = str(error)
        if reason is not None:
            self._left = frozenset(before.objects if before else ())
            self._leave(reason)
        if before is None or reason is not None:
            return
        self._record = before.model_copy(update={"code": self.work.code})
        if before.code == self.work.code:
            # Of its own: what a job changes in it is compared with what is stored.
            self.state.update(deepcopy(before.state))
            self.metrics.update(before.metrics)
            if before.state:  # the job may look at it at any time
                self._note_taken_over(_STATE)
        else:  # what names a version of its own is still of use
            # The folders with the state: they are of one save, and only together of use again.
            folders = {
                name: each
                for name, each in before.folders.items()
                if each.made_by.startswith(VERSION)
            }
            self._record = self._record.model_copy(
                update={"state": {}, "metrics": {}, "folders": folders}
            )
            self._left = frozenset(before.objects.keys() - self._record.objects.keys())
            self._leave("the job's code has changed")

    def _leave(self, reason: str) -> None:
        logger.warning("what was stored is left: %s", reason)
        self._why_left = reason
        self.progress.taken_over = f"nothing: {reason}"

    def _note_taken_over(self, kind: str) -> None:
        self._taken[kind] += 1
        taken = ", ".join(
            name if name == _STATE else f"{count} {name}{'s' if count > 1 else ''}"
            for name, count in self._taken.items()
        )
        left = f"; not the rest: {self._why_left}" if self._why_left else ""
        self.progress.taken_over = taken + left

    def once(
        self,
        dataset: str,
        part: str,
        version: str | None,
        columns: str,
        write: Callable[[Folder], Dataset],
        fits: Callable[[SavedDataset], bool] = lambda _: True,
    ) -> tuple[SavedDataset, bool]:
        """A part of a dataset, or of `CHECKPOINTS`: as it is stored, if it fits, or written now.

        Also returns whether it is stored. If S3 does not take it now, its files are in its place of
        `files` alone.

        Raises:
            PermanentJobError: the attempt has asked for too many.
        """
        kind = "checkpoint" if dataset == CHECKPOINTS else "part"
        self._asked.add((dataset, part))
        if len(self._asked) > MAX_PARTS:
            raise PermanentJobError(
                f"output: more than {MAX_PARTS:,} parts: let each part hold more of the data"
            )
        stored = self._record.parts.get(dataset, {}).get(part)
        if stored is not None and fits(stored) and stored.made_by == self.made_by(version):
            if kind == "checkpoint":
                self.progress.say(f"going on from checkpoint {part}")
            self._note_taken_over(kind)
            return stored, True
        place = self.new_place()
        found = write(self.files.folder(place))
        layout = found.layout
        written = SavedDataset(
            place=place,
            made_by=self.made_by(version),
            files=(),
            rows=found.rows or 0,
            columns=columns,
            partition_by=layout.partition_by if layout else None,
            required=layout.required if layout else (),
            without_null=tuple(sorted(found.without_null)),
        )
        with self._alone():  # another thread's save may go on: the next one takes this
            self._late[dataset, part] = written
        what = f"part {part} of dataset {dataset}" if kind == "part" else f"checkpoint {part}"
        if self._store_now(what):
            return self._record.parts[dataset][part], True
        return written, False

    def new_place(self) -> str:
        """A folder of the job's prefix that nothing has used."""
        return f"{attempt_folder(self.attempt)}{next(self._places)}/"

    def made_by(self, version: str | None) -> str:
        """What a frame or folder is known by: the job's code, or a version in its place."""
        return f"{CODE}{self.work.code}" if version is None else f"{VERSION}{version}"

    def job_folder(self, name: str, version: str | None) -> Path:
        """The job's folder of that name, with what was stored.

        Raises:
            PermanentJobError: the attempt has opened it with another version.
        """
        made_by = self.made_by(version)
        with self._alone():
            if name in self._folders:
                opened, folder = self._folders[name]
                if opened != made_by:
                    raise PermanentJobError(
                        f"folder {name!r} was opened with another version: name the same one in"
                        " each call"
                    )
                return folder.folder
            folder = JobFolder(self.objects, self.folder / name)
            stored = self._record.folders.get(name)
            files: Mapping[str, FolderFile] = {}
            if stored is not None and stored.made_by == made_by:
                self._note_taken_over("folder")
                files = stored.files
            with self._waiting():
                folder.restore(files)
            self._folders[name] = made_by, folder
            return folder.folder

    def save(self) -> bool:
        """Store the folders and the state; whether it could be done now."""
        return self._store_now("folders and state")

    def _store_now(self, what: str) -> bool:
        """Store what is written and not stored yet, with the folders and the state.

        In an outage of S3 or DynamoDB the job goes on, and the next call tries it again.

        Raises:
            LeaseChangedError: this attempt may store nothing any more.
        """
        with self._alone():
            self.stop.check()
            try:
                with self._waiting():
                    self._store()
            except LeaseChangedError as error:
                stop_as_refused(self.stop, error, self.attempt)
                raise
            except _TROUBLE as error:
                logger.warning(
                    "not stored yet", extra={"what": what, "error": type(error).__name__}
                )
                self.progress.remark(f"{what} is not stored yet: {type(error).__name__}")
                return False
            return True

    def _store(self) -> None:
        before = self._record
        record = self._with_folders(self._with_parts(before))
        if record == before and _text_of(record.state) == _text_of(before.state):
            # Nothing new: a save that counted would make the attempt one that has got further.
            self._late.clear()
            return
        self.records.put(record)
        self._record = record
        self._late.clear()
        self.records.drop((self._left | before.objects.keys()) - record.objects.keys())
        self._left = frozenset()

    def _with_parts(self, record: Record) -> Record:
        parts = {dataset: dict(of_dataset) for dataset, of_dataset in record.parts.items()}
        for (dataset, part), written in self._late.items():
            files = self.files.store(written.place)
            stored = written.model_copy(update={"files": files})
            parts.setdefault(dataset, {})[part] = stored
        asked = self._asked
        if sum(map(len, parts.values())) > MAX_PARTS:
            # Without those of earlier attempts that this one has not asked for.
            parts = {
                dataset: {part: of_dataset[part] for part in of_dataset if (dataset, part) in asked}
                for dataset, of_dataset in parts.items()
            }
        return record.model_copy(update={"parts": parts})

    def _with_folders(self, record: Record) -> Record:
        state = _checked(self.state)
        folders = dict(record.folders)
        for name, (made_by, folder) in self._folders.items():
            if state and made_by.startswith(VERSION):
                raise PermanentJobError(
                    f"folder {name!r} names a version, and job.state does not outlive a change of"
                    " the code: keep what belongs to the folder in one of its files"
                )
            folders[name] = SavedFolder(made_by=made_by, files=folder.store(self.new_place()))
        if sum(len(each.files) for each in folders.values()) > MAX_FOLDER_FILES:
            raise PermanentJobError(
                f"the job's folders hold more than {MAX_FOLDER_FILES:,} files: pack them together"
            )
        return record.model_copy(
            update={"state": state, "metrics": {**self.metrics}, "folders": folders}
        )

    def _waiting(self) -> AbstractContextManager[None]:
        """The wait for AWS, which is no stall of the job's."""
        return self.progress.quiet(self.clock.now() + _AWS_ANSWERS_WITHIN)

    def await_upload(self) -> None:
        """Wait until what is being stored is stored."""
        with self._alone():
            pass

    @contextmanager
    def _alone(self) -> Iterator[None]:
        # By looks, so that time passes by the attempt's clock.
        while not self._lock.acquire(blocking=False):
            self.clock.sleep(_LOOK_AGAIN_S)
        try:
            yield
        finally:
            self._lock.release()


def _text_of(state: Mapping[str, JsonValue]) -> str:
    """For a comparison that tells `1` from `True`."""
    return json.dumps(state, sort_keys=True)


def _checked(state: Mapping[str, Any]) -> dict[str, JsonValue]:
    """The state as the next attempt will read it.

    Raises:
        PermanentJobError: it would come back as something else, or is too much.
    """
    try:
        # A copy of one moment: the job may go on changing it.
        given = {"fingerprint": "", "spark": "", "code": "", "state": state}
        whole = Record.model_validate(given, strict=True)
        text = json.dumps(whole.state, allow_nan=False)
        read = Record.model_validate_json(whole.model_dump_json()).state
    except (TypeError, ValueError, RecursionError) as error:
        raise PermanentJobError(
            "job.state: it takes what JSON has (texts, numbers, lists, mappings whose keys are"
            " texts), in some depth"
        ) from error
    if len(text.encode()) > MAX_STATE_BYTES:
        raise PermanentJobError(
            f"job.state: {len(text):,} characters of JSON are more than the {MAX_STATE_BYTES:,}"
            " bytes that it may have: put them into job.folder"
        )
    return read
