"""Outputs: committed once, by the latest attempt, visible only after that, and always whole."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from longhaul.core.lease import AttemptId
from longhaul.job import Parent
from simulation.seen.checks import invariant
from simulation.seen.record import Seen
from simulation.seen.sightings import Token
from simulation.worlds.results import MARK, kept, mark

_FAILED = ("RELEASED", "DEAD", "CANCELLED")


@invariant(
    "S2",
    "commit",
    "at most one commit per job and run, unless the one before turned out to be void",
)
def one_commit(seen: Seen, token: Token, _row: Any) -> str | None:
    others = [
        each
        for each in seen.committed
        if each[:2] == token[:2] and each != token and each not in seen.voided
    ]
    return f"{token} committed after {others[0]}" if others else None


@invariant(
    "S2",
    "commit voided",
    "a commit is void only when an upload of it is gone, or when others have changed its table",
)
def void_for_a_reason(seen: Seen, token: Token) -> str | None:
    if shown := [each for each in seen.places[token] if seen.has_switched(token, each)]:
        return f"{token} is void, and {shown[0]} was published"
    changed_at = seen.lake.changed_by_others.get(seen.places[token][0])
    if changed_at is not None and changed_at >= seen.attempts[token].started_at:
        return None
    objects, pending = seen.objects(), seen.bucket().uploads
    uploads = seen.uploads[token]
    if all(key in objects or id_ in pending for key, id_ in uploads.items()):
        return f"{token} is void, and each of its {len(uploads)} uploads is pending or completed"
    return None


@invariant(
    "S2", "upload aborted", "the uploads of a committed output are not aborted before it is void"
)
def committed_uploads_stay(seen: Seen, key: str) -> str | None:
    token = seen.token_in(key)
    if token is None or not _must_stay(seen, token, key):
        return None
    return f"the upload of {key} is aborted, and {token} has committed"


@invariant(
    "S2", "files deleted", "the files of a committed output are not deleted before it is void"
)
def committed_files_stay(seen: Seen, names: list[str]) -> str | None:
    for name in names:
        token = seen.token_in(name)
        if token is not None and _must_stay(seen, token, name):
            return f"{name} is deleted, and {token} is still to be published"
    return None


def _must_stay(seen: Seen, token: Token, key: str) -> bool:
    """Whether the attempt's output is still to be published, and the plan does not end it now.

    Of several outputs one that was overtaken goes before another is published.
    """
    if any(
        key.startswith(each) and seen.is_overtaken(token, each)
        for each in seen.places.get(token, ())
    ):
        return False
    running = seen.world.containers.running
    is_ended = any(
        each.ending.kind == "uploads_end" and each.id in running
        for each in seen.attempts[token].containers
    )
    return seen.is_to_be_published(token) and not is_ended


@invariant(
    "S2",
    "commit",
    "what is kept is what the attempt that commits returned and measured, or why it is not kept",
)
def own_results(_: Seen, token: Token, row: Any) -> str | None:
    results = json.loads(row["output"]["S"]).get("results") or {}
    own = AttemptId(*token).token
    value, metrics = results.get("value"), results.get("metrics")
    is_own = (value, metrics) == kept(own) and (value is None) == bool(results.get("problem"))
    return None if is_own else f"{own} committed, with the results {results}"


@invariant("S2", "measured", "what goes to the metrics is measured by a published attempt")
def measured_by_success(seen: Seen, values: Mapping[str, float]) -> str | None:
    marks = {mark(AttemptId(*each).token): each for each in seen.committed}
    token = marks.get(int(values[MARK]))
    if token is None or token in seen.voided:
        return f"{values} was measured by no attempt whose commit holds"
    if not seen.shows(token):
        return f"{token} is not published, and what it measured goes to the metrics"
    return None


@invariant(
    "S2", "parents read", "what an input says of its writer is what that attempt kept with it"
)
def own_of_parents(seen: Seen, parents: Mapping[str, Parent]) -> str | None:
    for name, parent in parents.items():
        id_ = AttemptId(f"{parent.stage}#{parent.id}", parent.run, parent.attempt)
        if (parent.result, parent.metrics) != kept(id_.token):
            return f"{name} is of {id_.token}, with the results {parent}"
        if not any(AttemptId(*each) == id_ for each in seen.committed):
            return f"{name} is of {id_.token}, which has not committed"
    return None


@invariant("S3", "commit", "only the latest attempt commits, while its row is RUNNING")
def latest_commits(seen: Seen, token: Token, row: Any) -> str | None:
    if row["state"]["S"] != "RUNNING" or int(row["attempt"]["N"]) != token.attempt:
        state, attempt = row["state"]["S"], row["attempt"]["N"]
        return f"{token} committed in a row that is {state} for attempt {attempt}"
    if seen.latest.get(token.key) != token.attempt:
        return f"{token} committed after attempt {seen.latest.get(token.key)} had begun"
    return None


@invariant("S3", "commit", "a job that was cancelled in time does not commit")
def no_commit_after_cancel(_seen: Seen, token: Token, row: Any) -> str | None:
    return (
        f"{token} committed in a row with a cancel mark" if "cancel_requested_at" in row else None
    )


@invariant("S3", "row written", "what has committed succeeds: no later verdict fails it")
def commits_stand(seen: Seen, _before: Any, row: dict[str, Any]) -> str | None:
    key, state = row["key"]["S"], row["state"]["S"]
    if key in seen.lost:  # people deleted what it emitted: what follows is not known any more
        return None
    return f"{key} is {state} and has committed" if "output" in row and state in _FAILED else None


@invariant("S4", "file shows", "no file shows before its attempt has committed")
def committed_files_show(seen: Seen, name: str) -> str | None:
    token = seen.token_in(name)
    if token is None:
        return f"{name} carries no attempt's token"
    return None if token in seen.committed else f"{name} shows, but its attempt has not committed"


@invariant(
    "S4",
    "manifest put",
    "only committed output is published, and none replaces what a later attempt published",
)
def manifests_go_forward(seen: Seen, token: Token, prefix: str) -> str | None:
    if token not in seen.committed:
        return f"{token} published under {prefix} without a commit"
    for _, before in seen.puts[prefix][-1:]:
        if before.key == token.key and before > token:
            return f"{token} replaced the later {before} under {prefix}"
    return None


@invariant(
    "S4",
    "manifest put",
    "an append takes nothing away, an overwrite nothing that was appended since its commit, and a"
    " compaction nothing that was appended since it read",
)
def appended_stays(seen: Seen, token: Token, prefix: str) -> str | None:
    lost = seen.named.get(prefix, frozenset()).difference(seen.files_at(prefix))
    for path in sorted(lost):
        owner = seen.token_in(path)
        if owner is not None and owner.key == token.key and owner.run < token.run:
            continue  # it runs again in its place
        if seen.mode_of(token) == "append":
            return f"{token} appends to {prefix}, and {path} of {owner} is gone"
        if (
            owner
            and seen.mode_of(owner) == "append"
            and _put_at(seen, owner, prefix) > _replaces_until(seen, token)
        ):
            return f"{token} took away {path} of {owner}, which came later"
    return None


@invariant("S4", "manifest put", "a manifest names the files of one run of each job")
def one_run_of_each(seen: Seen, token: Token, prefix: str) -> str | None:
    owners = set(map(seen.token_in, seen.files_at(prefix)))
    runs = sorted({each[:2] for each in owners if each and each.key == token.key})
    return f"{token} put files of {runs} under {prefix}" if len(runs) > 1 else None


def _put_at(seen: Seen, token: Token, prefix: str) -> datetime:
    return next(at for at, each in seen.puts[prefix] if each == token)


def _replaces_until(seen: Seen, token: Token) -> datetime:
    read = [each.read_own_at for each in seen.attempts[token].containers if each.read_own_at]
    return max(read, default=seen.committed[token])


@invariant("S4", "manifest put", "beside appends, a manifest names the files of one attempt")
def of_one_overwrite(seen: Seen, token: Token, prefix: str) -> str | None:
    owners = set(map(seen.token_in, seen.files_at(prefix)))
    whole = sorted(each for each in owners if each and seen.mode_of(each) != "append")
    return f"{token} put files of {whole} under {prefix}" if len(whole) > 1 else None


@invariant("S2", "manifest put", "at most one attempt of a run publishes")
def one_publishes(seen: Seen, token: Token, _prefix: str) -> str | None:
    others = [each for each in seen.published if each[:2] == token[:2] and each != token]
    return f"{token} published, as {others[0]} had before" if others else None


@invariant(
    "S4",
    "manifest put",
    "of several outputs none shows before the uploads of all are completed, and they show in the"
    " order of their paths",
)
def all_whole_before_the_first(seen: Seen, token: Token, prefix: str) -> str | None:
    places = [each for each in seen.places.get(token, ()) if not each.startswith("table://")]
    if len(places) < 2 or seen.has_switched(token, prefix):
        return None
    late = [each for each in places if each > prefix and seen.has_switched(token, each)]
    if late:
        return f"{token} published {late[0]} before {prefix}"
    if any(seen.has_switched(token, each) for each in places):
        return None  # what is replaced by another job since may be gone
    due = tuple(each for each in places if not seen.is_overtaken(token, each))
    missing = sorted(
        key for key in seen.uploads[token].keys() - seen.objects().keys() if key.startswith(due)
    )
    return f"{token} published {prefix} without {missing[0]}" if missing else None


@invariant(
    "S2",
    "row written",
    "a job is called published once each of its outputs, tables too, shows or was overtaken",
)
def published_means_all(seen: Seen, before: Any, row: dict[str, Any]) -> str | None:
    if "published_at" not in row or "output" not in row or (before and "published_at" in before):
        return None
    attempt = json.loads(row["output"]["S"])["attempt"]
    token = Token(row["key"]["S"], int(row["run"]["N"]), attempt)
    return None if seen.shows(token) else f"{token} is called published, and lacks an output"


@invariant(
    "S4", "manifest put", "what is published is whole: the manifest names only files that are there"
)
def whole_when_put(seen: Seen, _token: Token, prefix: str) -> str | None:
    return _missing(seen, prefix)


@invariant("S4", "files deleted", "what is published stays whole")
def whole_after_deletes(seen: Seen, names: list[str]) -> str | None:
    prefixes = {prefix for name in names for prefix in seen.puts if name.startswith(prefix)}
    return next((wrong for prefix in sorted(prefixes) if (wrong := _missing(seen, prefix))), None)


def _missing(seen: Seen, prefix: str) -> str | None:
    objects = seen.objects()
    missing = [path for path in seen.files_at(prefix) if prefix + path not in objects]
    return f"{prefix}_SUCCESS names {missing[0]}, which is not there" if missing else None
