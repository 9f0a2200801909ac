"""What an attempt leaves for the next, and the secrets that it gets."""

import json
from collections import Counter
from datetime import timedelta
from typing import Any

from longhaul.core.claim import KEPT_FOR_REDRIVE
from simulation.aws.platform.job_process import JobProcess
from simulation.aws.platform.parts import CHECKPOINT, Piece, Restored
from simulation.seen.checks import invariant
from simulation.seen.record import Seen
from simulation.seen.sightings import DeadLetter, Token, time_in
from simulation.seen.stored import PREFIX, Record, process_of, ref_in
from simulation.worlds.requests import BESIDE

_OWNING = ("RUNNING", "RELEASED")


@invariant("S19", "pointer moved", "what counts as stored is there, and whole")
def stored_is_whole(seen: Seen, _before: Any, _row: Any, ref: str | None) -> str | None:
    record = seen.stored.records.get(ref or "")
    return f"{ref} names {record.missing[0]}" if record and record.missing else None


@invariant("S19", "pointer moved", "only the attempt that owns the row makes what it stored count")
def fenced(_seen: Seen, before: Any, row: Any, ref: str | None) -> str | None:
    if ref is None or _is_new_run(before, row):
        return None
    key, run, attempt = row["key"]["S"], row["run"]["N"], row["attempt"]["N"]
    if f"/{run}-{attempt}/" not in ref:
        return f"{ref} counts for {key} in attempt {run}-{attempt}"
    marks = {"output", "cancel_requested_at"} & row.keys()
    if row["state"]["S"] != "RUNNING" or marks:
        return f"{ref} counts in a row that is {row['state']['S']} with {sorted(marks)}"
    return None


@invariant("S19", "pointer moved", "what a stale attempt stored is in no record that counts")
def of_no_stale_attempt(seen: Seen, before: Any, row: Any, ref: str | None) -> str | None:
    if ref is None or _is_new_run(before, row):
        return None
    record = seen.stored.records[ref]
    known = seen.stored.records.get(ref_in(before or {}) or "")
    strange = [
        name
        for name in record.sizes
        if not name.startswith(record.folder) and (known is None or name not in known.sizes)
    ]
    return f"{ref} names {strange[0]}" if strange else None


@invariant(
    "S19",
    "row written",
    "a new run goes on from what was stored for the same work, within days, and from nothing else",
)
def heirs(seen: Seen, before: Any, row: Any) -> str | None:
    if before is None or ref_in(row) is None or not _is_new_run(before, row):
        return None
    key = row["key"]["S"]
    if ref_in(row) != ref_in(before):
        return f"{key} begins from {ref_in(row)}, and {ref_in(before)} counted"
    if before["state"]["S"] != "DEAD" or before["fingerprint"] != row["fingerprint"]:
        return f"{key} goes on with other work, or after an end as {before['state']['S']}"
    waited = seen.now - time_in(before, "settled_at")
    longest = _kept(seen) + timedelta(seconds=2 * seen.world.plan.mix.skew_s + 60)
    return f"{key} goes on after {waited}" if waited > longest else None


@invariant("S19", "pointer moved", "within a run, what is stored is replaced and never dropped")
def never_dropped(_seen: Seen, before: Any, row: Any, ref: str | None) -> str | None:
    if ref is not None or before is None or _is_new_run(before, row):
        return None
    return f"{row['key']['S']} drops {ref_in(before)} after {row.get('last_class')}"


@invariant("S19", "files deleted", "what a job may still take over is not removed")
def stored_stays(seen: Seen, names: list[str]) -> str | None:
    for name in names:
        row = seen.stored.row_of(name) if name.startswith(PREFIX) else None
        ref = ref_in(row or {})
        if row is None or ref is None or not _is_waited_for(seen, row):
            continue
        if gone := ({ref, *seen.stored.records[ref].sizes}.intersection(names)):
            return f"{min(gone)} is removed, and {row['key']['S']} is {row['state']['S']}"
    return None


@invariant("L14", "computed", "what a job has stored is not computed again")
def computed_once(seen: Seen, process: JobProcess, piece: Piece) -> str | None:
    record = _begun_from(seen, process)
    stored = record.pieces.get(piece.name) if record else None
    if stored is None or stored._replace(process=piece.process) != piece:
        return None
    return f"{piece.process} computes {piece.name}, which {stored.process} has stored"


@invariant("S19", "restored", "an attempt begins with the folder and the state of one save")
def restored_whole(seen: Seen, restored: Restored) -> str | None:
    process, generation, files = restored
    record = _begun_from(seen, process)
    is_used = record is not None and _is_for(record, process)
    wanted = (record.generation, record.files) if record and is_used else (None, {})
    if process.job.saves != "folder":
        wanted = wanted[0], {}
    if len({*files.values()}) > 1:
        return f"{process.host.name} finds files of two saves: {files}"
    if (generation, files) != wanted:
        return f"{process.host.name} finds {generation} and {files}, and not {wanted}"
    return None


@invariant("S19", "checkpoint read", "a checkpoint is read whole, and was stored for this work")
def checkpoint_whole(
    seen: Seen, process: JobProcess, pieces: list[Piece], files: int
) -> str | None:
    if len(pieces) != files or files != process.job.files:
        return f"{process.host.name} reads {len(pieces)} files of {process.job.files}"
    wrong = [each for each in pieces if _wrong_piece(seen, process, each)]
    return f"{process.host.name} reads {wrong[0]}" if wrong else None


@invariant(
    "S19",
    "commit",
    "an output has each part that its attempt asked for, once and whole, and no other",
)
def parts_are_whole(seen: Seen, token: Token, row: Any) -> str | None:
    process = process_of(seen, row)
    if process is None or not process.asked:
        return None
    uploads = seen.bucket().uploads
    bodies = [
        json.loads(b"".join(part.content for part in uploads[id_].parts.values()))
        for key, id_ in seen.uploads[token].items()
        if not key.startswith(BESIDE)
    ]
    found = Counter((each["piece"][0], each["n"]) for each in bodies)
    wanted = Counter((name, n) for name in process.asked for n in range(process.job.files))
    if found != wanted:
        more, missing = sorted((found - wanted).elements()), sorted((wanted - found).elements())
        return f"{token} commits {more} too many, and lacks {missing}"
    pieces = {Piece(*each["piece"]) for each in bodies}
    wrong = sorted(each for each in pieces if _wrong_piece(seen, process, each))
    return f"{token} commits {wrong[0]}" if wrong else None


@invariant(
    "S10", "the end", "nothing is left of what jobs have stored, but for a dead job's redrive"
)
def nothing_stored_is_left(seen: Seen, _: None) -> str | None:
    left = [name for name in seen.stored.objects() if not seen.stored.may_stay(name)]
    return f"{left[0]} is left" if left else None


def _is_new_run(before: Any, row: Any) -> bool:
    return before is None or before["run"] != row["run"]


def _kept(seen: Seen) -> timedelta:
    kept_s = seen.world.plan.kept_s
    return timedelta(seconds=kept_s) if kept_s else KEPT_FOR_REDRIVE


def _is_waited_for(seen: Seen, row: Any) -> bool:
    """Whether an attempt may come that begins from what the row names."""
    if row["state"]["S"] in _OWNING:
        return True
    owed = [each["S"] for each in row.get("owed", {}).get("L", [])]
    if row["state"]["S"] == "SUCCEEDED":
        return "publish" in owed
    return row["state"]["S"] == "DEAD" and seen.now - time_in(row, "settled_at") < _kept(seen)


def _begun_from(seen: Seen, process: JobProcess) -> Record | None:
    ref = seen.stored.begun_from.get(Token.of_task(process.attempt))
    return seen.stored.records.get(ref or "")


def _is_for(record: Record, process: JobProcess) -> bool:
    """Whether the state and the folder of a record are of use to a process."""
    return (record.code, record.reads) == (str(process.code), process.reads)


def _wrong_piece(seen: Seen, process: JobProcess, piece: Piece) -> bool:
    is_own = piece.process == process.host.name
    same = (piece.work, piece.reads) == (process.work, process.reads)
    code = piece.made_by in (f"code {process.code}", "version 1")
    if piece.name == CHECKPOINT:
        code = piece.made_by == f"code {process.code}"
    return not (same and code and (is_own or piece in seen.stored.lasting))


@invariant("S21", "row written", "no row has the value of a secret")
def rows_show_no_secret(seen: Seen, _before: Any, row: Any) -> str | None:
    return _shown(seen, json.dumps(row), row["key"]["S"])


@invariant("S21", "dead letter", "no dead letter has the value of a secret")
def letters_show_no_secret(seen: Seen, letter: DeadLetter) -> str | None:
    return _shown(seen, f"{letter.body}{letter.reason}", f"the letter of {letter.job_id}")


@invariant("S21", "container over", "an attempt has the secret that was there when it began")
def secrets_are_read_by_each_attempt(seen: Seen, container: JobProcess) -> str | None:
    if container.secret is None:
        return None
    before = [value for at, value in seen.world.secrets if at <= container.began_at]
    since = [value for at, value in seen.world.secrets if at > container.began_at]
    if container.secret in (*before[-1:], *since):
        return None
    return f"{container.host.name} has {container.secret!r}, and there was {before[-1:] + since}"


def _shown(seen: Seen, text: str, where: str) -> str | None:
    shown = any(value and value in text for _, value in seen.world.secrets)
    return f"{where} shows a secret" if shown else None
