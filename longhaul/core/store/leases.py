"""The leases: a transition (`core.transitions`) is one conditional write here, or refused.

The table's indexes hold keys only and are a little late: the caller reads the rows.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any, Final, Literal

from botocore.exceptions import ClientError

from longhaul.core import transitions
from longhaul.core.aws_errors import code_of
from longhaul.core.claim import cancelled, cancelled_before_claim
from longhaul.core.errors import LeaseChangedError, NoFreeSlotError, UnreadableRowError
from longhaul.core.history import AttemptRecord, history, remembered
from longhaul.core.lease import Lease, OpenKind, State
from longhaul.core.pace import Room
from longhaul.core.ports import Rows
from longhaul.core.settings import Stage
from longhaul.core.store import item as items
from longhaul.core.store.item import mine, serialize, update_expression
from longhaul.core.store.records import TRIES, Records, has_failed
from longhaul.core.store.slots import DynamoSlots, slots_key
from longhaul.core.store.table import ENDED, TTL
from longhaul.core.transitions import Change, Clause, Report, Requires

_CLAUSES: Final[Mapping[Clause, str]] = {
    Clause.ABSENT: "attribute_not_exists(#key)",
    Clause.RUNNING: "#state = :running",
    Clause.SAME_STATE: "#state = :state",
    Clause.MINE: "run = :run AND attempt = :attempt",
    Clause.FIRST_TASK: "(attribute_not_exists(task_arn) OR task_arn = :task_arn)",
    Clause.UNCOMMITTED: "attribute_not_exists(#output)",
    Clause.UNPUBLISHED: "attribute_not_exists(published_at)",
    Clause.SAME_LOOK: "gone_at = :gone_at",
    Clause.NOT_CANCELLED: "attribute_not_exists(cancel_requested_at)",
    Clause.SAME_CANCEL: "cancelled_at = :cancelled_at",
    Clause.NEWER_RECEIVE: "receive_count < :receive_count",
    Clause.SAME_HANDLE: "receipt_handle = :receipt_handle",
    Clause.SAME_MESSAGE: "message_id = :message_id",
    Clause.SAME_SEEN: "seen_at = :seen_at",
    Clause.SAME_SAVED: "saved_ref = :saved_ref",
    Clause.SAME_TREE: "tree = :tree",
    Clause.SAME_OWED: "owed = :owed",
}
_COMPARED: Final[Mapping[Clause, str]] = {
    Clause.SAME_STATE: "state",
    Clause.FIRST_TASK: "task_arn",
    Clause.SAME_LOOK: "gone_at",
    Clause.SAME_CANCEL: "cancelled_at",
    Clause.NEWER_RECEIVE: "receive_count",
    Clause.SAME_HANDLE: "receipt_handle",
    Clause.SAME_MESSAGE: "message_id",
    Clause.SAME_SEEN: "seen_at",
    Clause.SAME_SAVED: "saved_ref",
    Clause.SAME_TREE: "tree",
    Clause.SAME_OWED: "owed",
}
"""The attribute that a clause compares; its value's placeholder has the same name.

Where the value is None, the row must have none.
"""

_PAGE = 100
_STAGES = "stages"  # no job's key, which has a #

# Some names are DynamoDB's own words.
_PLACEHOLDERS = {"#key": "key", "#state": "state", "#output": "output"}

_TELLS_THE_WINNER: Final = {"ReturnValuesOnConditionCheckFailure": "ALL_OLD"}


class DynamoLeases:
    """`ports.Leases`."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._slots = DynamoSlots(records)

    def load(self, key: str) -> Lease | None:
        item = self._records.get(items.lease_key(key))
        return None if item is None else items.from_item(item)

    def aws_time(self) -> datetime:
        return self._records.aws_time()

    def load_many(self, keys: Iterable[str]) -> Rows:
        return rows_of(self._records.many(items.lease_key(key) for key in dict.fromkeys(keys)))

    def survey(self, keys: Iterable[str], stage: Stage, now: datetime) -> tuple[Rows, Room]:
        wanted = [items.lease_key(key) for key in dict.fromkeys(keys)]
        slots = slots_key(stage.name)
        found = {items.key_of(item): item for item in self._records.many([*wanted, slots])}
        room = self._slots.room_in(stage, found.pop(items.key_of(slots), {}), now)
        return rows_of(found.values()), room

    def history(self, rows: Iterable[Lease]) -> Mapping[str, Sequence[AttemptRecord]]:
        """The row's attempt says which items there may be, so a hundred of them are one call."""
        wanted = {row.key: row for row in rows}
        kept: dict[str, list[AttemptRecord]] = {key: [] for key in wanted}
        keys = (items.attempt_key(key, n) for key, row in wanted.items() for n in remembered(row))
        for item in self._records.many(keys):
            with suppress(UnreadableRowError):
                kept[items.key_of(item)].append(items.record_from(item))
        return {key: history(row, kept[key]) for key, row in wanted.items()}

    def open_keys(self, stage: str, what: OpenKind) -> Iterator[str]:
        return map(items.key_of, self._records.open(f"{stage}#{what}"))

    def stages(self, deployed: Iterable[str]) -> AbstractSet[str]:
        """A set that only grows, in an item of its own."""
        item = self._records.update(
            Key=items.primary_key(_STAGES, _STAGES),
            UpdateExpression="ADD stage_names :names",
            ExpressionAttributeValues=items.serialized({":names": set(deployed)}),
            ReturnValues="ALL_NEW",
        )
        names: AbstractSet[str] = items.deserialize(item["stage_names"])
        return names

    def ended_keys(
        self, stage: str, state: State, until: datetime, since: datetime, keys: int = _PAGE
    ) -> Iterator[tuple[datetime, str]]:
        """A page at a time: a caller that wants ten keys reads a hundred at most."""
        found = self._records.query(
            IndexName=ENDED.name,
            KeyConditionExpression="ended = :ended AND settled_at BETWEEN :since AND :until",
            ExpressionAttributeValues=items.serialized(
                {
                    ":ended": f"{stage}#{state.value}",
                    ":since": items.milliseconds(since),
                    ":until": items.milliseconds(until),
                }
            ),
            ScanIndexForward=False,
            PaginationConfig={"PageSize": keys},
        )
        return ((items.time_of(item["settled_at"]), items.key_of(item)) for item in found)

    def apply(self, change: Change) -> Lease:
        try:
            self._change(change)
        except LeaseChangedError as error:
            return own_write(error, change.is_own)
        return change.after

    def report(self, report: Report) -> Lease:
        update = update_expression(
            items.attributes(report.sets),
            [report.clears] if report.clears else [],
            add={report.counts: 1} if report.counts else None,
        )
        request = {
            "Key": items.lease_key(report.attempt.key),
            **_conditional(report.requires, update),
            **_TELLS_THE_WINNER,
        }
        try:
            with _refused():
                row = self._records.update(**request, ReturnValues="ALL_NEW")
            return items.from_item(row)
        except LeaseChangedError as error:
            return own_write(error, report.is_own)

    def keep(self, key: str, now: datetime) -> None:
        self._records.update_if(
            "#ttl < :ttl",  # else it is unfinished, gone, or lives as long anyway
            Key=items.lease_key(key),
            UpdateExpression="SET #ttl = :ttl",
            ExpressionAttributeNames={"#ttl": TTL},
            ExpressionAttributeValues={":ttl": items.expiry(now)},
        )

    def request_cancel(self, key: str, stage: str, at: datetime | None = None) -> Lease:
        """Of a job that has not been claimed yet, the mark is left for its claim to find."""
        for _ in range(TRIES):
            row = self.load(key)
            now = at or self.aws_time()
            try:
                if row is None:
                    after = cancelled_before_claim(key, stage, now)
                    self.apply(transitions.mark_before_claim(after))
                else:
                    after = cancelled(row, now)
                    if after != row:  # DynamoDB refuses an update that changes nothing
                        self.apply(transitions.cancel(row, after))
            except LeaseChangedError:
                continue  # it was claimed, settled or marked meanwhile
            return after
        raise LeaseChangedError(row)

    def cancel_tree(self, root: str) -> None:
        for _ in range(TRIES):
            row = self.load(root)
            now = self.aws_time()
            # Nothing is left of it; or DynamoDB would refuse an update that changes nothing.
            if row is None or row.tree_cancelled_at == now:
                return
            with suppress(LeaseChangedError):  # it was claimed or settled meanwhile
                self.apply(transitions.cancel_tree(row, now))
                return
        raise LeaseChangedError(row)

    def _change(self, change: Change) -> None:
        """Make the row `after`, and with it what is to be written in the same transaction."""
        others = []
        if change.takes_slot is not None:
            others.append(self._slots.taken(*change.takes_slot))
        if change.gives_slot_back:
            others.append(self._slots.given_back(change.after.stage))
        if change.record is not None:
            record = items.record_item(change.record)
            others.append({"Put": {"TableName": self._records.table, "Item": record}})
        if change.before is None or change.is_whole:
            put = {"Item": items.to_item(change.after), **_conditional(change.requires, {})}
            self._write("Put", put, others)
            return
        # It touches only what differs: a mark or a progress report written meanwhile stays.
        update = update_expression(*items.changes(change.before, change.after))
        key = {"Key": items.lease_key(change.after.key)}
        self._write("Update", key | _conditional(change.requires, update), others)

    def _write(
        self, kind: Literal["Put", "Update"], row: dict[str, Any], others: Sequence[Any]
    ) -> None:
        """Write the row and the others, or nothing.

        Of the others only a slots' counter has a condition: NoFreeSlotError when it fails.
        """
        if not others:
            with _refused():
                write = self._records.put if kind == "Put" else self._records.update
                write(**row, **_TELLS_THE_WINNER)
            return
        of_row = {"TableName": self._records.table, **row, **_TELLS_THE_WINNER}
        reasons = self._records.transact([{kind: of_row}, *others])
        if reasons is None:
            return
        if has_failed(reasons[0]):
            raise LeaseChangedError(_winner(reasons[0]))
        raise NoFreeSlotError


@contextmanager
def _refused() -> Iterator[None]:
    """A condition that fails in the block becomes LeaseChangedError with the row that won."""
    try:
        yield
    except ClientError as error:
        if code_of(error) != "ConditionalCheckFailedException":
            raise
        raise LeaseChangedError(_winner(error.response)) from error


def _conditional(requires: Requires, update: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a write, with the clauses and the values that they compare.

    DynamoDB refuses empty and unused names and values.
    """
    clauses, values = [], dict(update.get("ExpressionAttributeValues", {}))
    for clause, value in requires.items():
        name = _COMPARED.get(clause)
        if name is not None and value is None:
            clauses.append(f"attribute_not_exists({name})")
            continue
        clauses.append(_CLAUSES[clause])
        if clause is Clause.RUNNING:
            values[":running"] = serialize(State.RUNNING.value)
        elif clause is Clause.MINE:
            values |= mine(value)
        elif name is not None:
            values[f":{name}"] = items.attributes({name: value})[name]
    condition = " AND ".join(clauses)
    names = {mark: name for mark, name in _PLACEHOLDERS.items() if mark in condition}
    arguments = {
        **update,
        "ConditionExpression": condition,
        "ExpressionAttributeNames": {**update.get("ExpressionAttributeNames", {}), **names},
        "ExpressionAttributeValues": values,
    }
    return {name: argument for name, argument in arguments.items() if argument != {}}


def own_write(error: LeaseChangedError, is_ours: Callable[[Lease], bool]) -> Lease:
    """The row that won, if this very write made it: the SDK retries after a lost answer.

    Raises:
        LeaseChangedError: another write won.
    """
    if error.current is None or not is_ours(error.current):
        raise error
    return error.current


def _winner(response: Any) -> Lease | None:  # noqa: ANN401 - an error response, or a reason
    item = response.get("Item")
    return items.from_item(item) if item else None


def rows_of(found: Iterable[Mapping[str, Any]]) -> Rows:
    """Each item by itself: one that cannot be read leaves the others readable."""
    readable: dict[str, Lease] = {}
    unreadable = set()
    for item in found:
        try:
            readable[items.key_of(item)] = items.from_item(item)
        except UnreadableRowError as error:
            unreadable.add(error.key)
    return Rows(readable, unreadable)
