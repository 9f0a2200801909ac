"""Bugs about what a job stores for its next attempt."""

from typing import Final

from simulation.tools.mutants.mutant import Mutant

_SAVING: Final = "longhaul/runner/saving.py"
_RUNNING: Final = "longhaul/runner/running_job.py"
_FILES: Final = "longhaul/runner/io/saved_files.py"
_AREA: Final = "longhaul/runner/io/work_area.py"
_SAVED: Final = "longhaul/domain/saved.py"

SAVED: Final = (
    Mutant(
        "a stale attempt moves the pointer of the one that replaced it",
        _SAVING,
        "            if row is None or not row.owns(self._attempt) or row.saved_ref == self._known:\n"
        "                raise\n"
        "            if row.saved_ref is None or not row.saved_ref.startswith(own):\n"
        "                raise\n"
        "            self._report(row.saved_ref, ref, size_bytes)",
        "            if row is None:\n"
        "                raise\n"
        "            self._leases.report(transitions.save(row.id, row.saved_ref, ref, size_bytes,"
        " self._clock.now()))",
    ),
    Mutant(
        "the pointer moves after a cancel mark",
        "longhaul/domain/transitions.py",
        "also={Clause.UNCOMMITTED: None, Clause.NOT_CANCELLED: None, **unmoved}",
        "also={**unmoved}",
    ),
    Mutant(
        "the pointer moves before the record is there",
        _SAVING,
        "        self._store.put(ref, record)\n"
        "        before, self._known = self._known, self._move_pointer(ref, record.size_bytes)",
        "        before, self._known = self._known, self._move_pointer(ref, record.size_bytes)\n"
        "        self._store.put(ref, record)",
    ),
    Mutant(
        "a stored part is published that was not asked for",
        "longhaul/runner/attempt.py",
        "        output = upload.send(job.written, found,",
        "        for part, each in job.saving._record.parts.get('.', {}).items():\n"
        "            if part not in job._parts.get('.', {}):\n"
        "                job._take(job._target('.', None), each, job.saving, '')\n"
        "        output = upload.send(job.written, found,",
    ),
    Mutant(
        "what other code has computed is taken over",
        _SAVING,
        'f"{CODE}{self.work.code}" if version is None',
        "CODE if version is None",
    ),
    Mutant(
        "the state of other code is taken over",
        _SAVING,
        "if before.code == self.work.code",
        "if before.code",
    ),
    Mutant(
        "what was computed of other inputs is taken over",
        _SAVED,
        "record.reads.get(name) != work.reads.get(name)",
        "False",
    ),
    Mutant(
        "a correction goes on from what the work before it has stored",
        _SAVED,
        "(old.fingerprint == fingerprint)",
        "True",
    ),
    Mutant(
        "a new run goes on from what may be gone",
        _SAVED,
        "(now - old.ended_at < KEPT_FOR_REDRIVE)",
        "True",
    ),
    Mutant(
        "what was stored is never removed",
        "longhaul/sweep.py",
        'decide_saved(row, self.context.clock.now()) == "remove"',
        'decide_saved(row, self.context.clock.now()) == "never"',
        also=Mutant(
            "nor by who finishes the job",
            "longhaul/finish.py",
            "            self.context.saved.remove(lease.id)",
            "            pass",
        ),
    ),
    Mutant(
        "what a job may still take over is removed",
        _SAVED,
        'case State.RUNNING | State.RELEASED:\n            return "keep"',
        'case State.RUNNING | State.RELEASED:\n            return "remove"',
    ),
    Mutant(
        "what the new record names is dropped with the old one",
        _SAVING,
        "(self._left | before.objects.keys()) - record.objects.keys()",
        "self._left | before.objects.keys()",
    ),
    Mutant(
        "half of a frame is restored",
        _FILES,
        "{place + file.path: half / file.path for file in files}",
        "{place + file.path: half / file.path for file in files[:1]}",
    ),
    Mutant(
        "a folder is restored without its last file",
        _FILES,
        "{file.object: self.folder / path for path, file in files.items()}",
        "{file.object: self.folder / path for path, file in [*files.items()][:-1]}",
        also=Mutant(
            "and nobody looks",
            _FILES,
            "self._seen = {path: _Seen.of(self.folder / path, file) for path, file in files.items()}",
            "self._seen = {}",
        ),
    ),
    Mutant(
        "a record that S3 does not give now counts as none",
        "longhaul/adapters/saved_work.py",
        'if code_of(error) != "NoSuchKey":\n                raise',
        "",
    ),
    Mutant(
        "a part of a table that is late is not where it is sent from",
        _RUNNING,
        "copy_function=os.link",
        "copy_function=shutil.move",
    ),
    Mutant(
        "a cluster stores frames where its work area is cleared",
        _AREA,
        "BucketFiles(self._s3, objects.bucket, objects.prefix)",
        'BucketFiles(self._s3, objects.bucket, (self._folder / "saved").prefix)',
    ),
    Mutant(
        "a cluster's frame is the first of its files",
        _FILES,
        "tuple(stored_files(self._s3, self.folder(place)))",
        "tuple(stored_files(self._s3, self.folder(place)))[:1]",
    ),
    Mutant(
        "a wait for S3 while a job stores is a stall",
        _SAVING,
        "max(before or longest, longest)",
        "before",
    ),
)
