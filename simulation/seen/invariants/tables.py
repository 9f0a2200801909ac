"""Tables: the rows of a job that succeeded come once, and those of any other job never."""

from simulation.seen.checks import invariant
from simulation.seen.lake import TableChange, tokens_of
from simulation.seen.record import Seen
from simulation.seen.sightings import Token


@invariant("S18", "table changed", "no row is in a table twice")
def rows_are_there_once(_seen: Seen, change: TableChange) -> str | None:
    twice = sorted(row for row, times in change.after.items() if times > 1)
    return f"{twice[0]} is in {change.output} {change.after[twice[0]]} times" if twice else None


@invariant(
    "S18",
    "table changed",
    "what Longhaul adds to a table is all of one committed output, for the first time",
)
def one_output_comes_once(seen: Seen, change: TableChange) -> str | None:
    if change.by_others:
        return None
    tokens = tokens_of(seen, change.added)
    if len(tokens) != 1:
        return f"a commit to {change.output} adds rows of {tokens}"
    (token,) = tokens
    if token not in seen.committed or token in seen.voided:
        return f"{token} comes into {change.output}, and its commit is void or was never made"
    if seen.has_switched(token, change.output):
        return f"{token} comes into {change.output} once more"
    uploads = {key for key in seen.uploads[token] if key.startswith("tables/")}
    missing = sorted(uploads - change.added.keys())
    return f"{token} comes into {change.output} without {missing[0]}" if missing else None


@invariant(
    "S18",
    "table changed",
    "an append takes away the rows of earlier runs of its job alone; an overwrite those that were"
    " there before it, and no later ones",
)
def no_other_rows_go(seen: Seen, change: TableChange) -> str | None:
    tokens = tokens_of(seen, change.added)
    if change.by_others or len(tokens) != 1:
        return None
    (token,) = tokens
    came_at = seen.lake.came_at
    if seen.mode_of(token) == "append":
        late = sorted(row for row in change.removed if not _is_of_earlier_run(seen, row, token))
        # Where the job's row had expired, nobody knew any more that it ran before.
        known = change.after if token.key not in seen.expired else ()
        left = sorted(row for row in known if _is_of_earlier_run(seen, row, token))
    else:
        late = sorted(row for row in change.removed if came_at[row] > seen.lake.listed_at[token])
        began_at = seen.attempts[token].started_at
        rest = change.after - change.added
        left = sorted(row for row in rest if came_at[row] < began_at)
    if late:
        return f"{token} takes {late[0]} away from {change.output}"
    return f"{token} replaces the rows of {change.output}, and {left[0]} stays" if left else None


def _is_of_earlier_run(seen: Seen, row: str, token: Token) -> bool:
    owner = seen.token_in(row)
    return owner is not None and owner.key == token.key and owner.run < token.run


@invariant("S4", "table changed", "what is published is whole: a table names only files that exist")
def tables_are_whole(seen: Seen, change: TableChange) -> str | None:
    missing = sorted(seen.lake.files[change.output] - seen.objects().keys())
    return f"{change.output} names {missing[0]}, which is not there" if missing else None


@invariant("S4", "files deleted", "no file of a table is deleted")
def files_of_tables_stay(seen: Seen, names: list[str]) -> str | None:
    for output, files in seen.lake.files.items():
        if gone := files.intersection(names):
            return f"{min(gone)} is deleted, and {output} names it"
    return None
