"""DynamoDB in memory: conditional writes, transactions, queries.

Strict: expressions are parsed and evaluated, and what DynamoDB's validation refuses is refused.
Open to faults: `index_lag_s`, `batch_size`, `page_size`, `make_busy`.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar

from simulation.aws.dynamodb import expressions
from simulation.aws.dynamodb.expressions import environment, hash_value
from simulation.aws.dynamodb.tables import (
    MAX_ITEM_BYTES,
    Item,
    PrimaryKey,
    Table,
    invalid,
    size_of,
    stored,
    table_of,
)
from simulation.aws.service import Answer, Gate, Pages, RefusedError, Service, known, operation

_TOKENS_LIVE = timedelta(minutes=10)
_CONDITION_FAILED = ("ConditionalCheckFailed", "The conditional request failed")
_CONFLICT = ("TransactionConflict", "Transaction is ongoing for the item")

_CONDITIONAL = {
    "TableName",
    "ConditionExpression",
    "ExpressionAttributeNames",
    "ExpressionAttributeValues",
    "ReturnValuesOnConditionCheckFailure",
}
_KNOWN = {
    "Put": {*_CONDITIONAL, "Item"},
    "Update": {*_CONDITIONAL, "Key", "UpdateExpression"},
    "ConditionCheck": {*_CONDITIONAL, "Key"},
}


@dataclass(frozen=True)
class _Plan:
    """The effect of a write on the present items."""

    table: Table
    key: PrimaryKey
    before: Item | None
    after: Item | None
    holds: bool
    shows_before: bool  # a failed condition returns the item
    size: int  # bytes of the item afterwards


def _require_strong(is_strong: bool) -> None:  # noqa: FBT001 - as the request has it
    """A weak read may be old. What does without ever claims a slot again that is taken."""
    if not is_strong:
        raise NotImplementedError("this fake has strong reads alone: ask with ConsistentRead")


class FakeDynamoDB(Service):
    service = "dynamodb"
    paginators: ClassVar[Pages] = {"query": (("ExclusiveStartKey", "LastEvaluatedKey"),)}

    def __init__(self, gate: Gate, now: Callable[[], datetime]) -> None:
        super().__init__(gate, now)
        self.tables: dict[str, Table] = {}
        self.index_lag_s: Callable[[], float] = lambda: 0.0  # of each write
        self.batch_size = 100  # keys that one BatchGetItem reads; the rest returns unprocessed
        self.page_size = 1000  # items on a page of a query
        self._busy: Counter[tuple[str, PrimaryKey]] = Counter()
        self._done: dict[str, datetime] = {}

    def make_busy(self, table: str, key: Mapping[str, Any], times: int = 1) -> None:
        """Let the next writes on an item conflict with another transaction."""
        self._busy[table, self._table(table).key_of(key)] += times

    def expire(self, table: str, key: PrimaryKey) -> None:
        """Delete an item whose time to live has passed."""
        self.tables[table].write(key, None, self._now().timestamp(), self.index_lag_s(), 0)

    @operation
    def create_table(self, **request: Any) -> Answer:
        table = table_of(request)
        if table.name in self.tables:
            raise RefusedError("ResourceInUseException", f"Table already exists: {table.name}")
        self.tables[table.name] = table
        return {"TableDescription": {"TableName": table.name, "TableStatus": "ACTIVE"}}

    @operation
    def get_item(
        self, *, TableName: str, Key: Mapping[str, Any], ConsistentRead: bool = False
    ) -> Answer:
        _require_strong(ConsistentRead)
        table = self._table(TableName)
        item = table.read(table.key_of(Key))
        return {} if item is None else {"Item": dict(item)}

    @operation
    def batch_get_item(self, *, RequestItems: Mapping[str, Any]) -> Answer:
        asked = [
            (name, dict(key)) for name, request in RequestItems.items() for key in request["Keys"]
        ]
        if len(asked) > 100:
            raise invalid("Too many items requested for the BatchGetItem call")
        _require_strong(all(each.get("ConsistentRead") for each in RequestItems.values()))
        keys = [(name, self._table(name).key_of(key)) for name, key in asked]
        if len(set(keys)) < len(keys):
            raise invalid("Provided list of item keys contains duplicates")
        responses: dict[str, list[Item]] = {name: [] for name in RequestItems}
        for name, key in keys[: self.batch_size]:
            if (item := self._table(name).read(key)) is not None:
                responses[name].append(dict(item))
        left: dict[str, Any] = {}
        for name, key_given in asked[self.batch_size :]:
            left.setdefault(name, {**RequestItems[name], "Keys": []})["Keys"].append(key_given)
        return {"Responses": responses, "UnprocessedKeys": left}

    @operation
    def put_item(self, **request: Any) -> Answer:
        self._write("Put", request)
        return {}

    @operation
    def update_item(self, *, ReturnValues: str = "NONE", **request: Any) -> Answer:
        plan = self._write("Update", request)
        if ReturnValues not in ("NONE", "ALL_NEW"):
            raise NotImplementedError(ReturnValues)
        return {"Attributes": dict(plan.after or {})} if ReturnValues == "ALL_NEW" else {}

    def transact_write_items(self, **request: Any) -> Answer:
        """A call without a token gets one, as in botocore, and its retries carry the same."""
        return self._transact_write_items(
            **{"ClientRequestToken": f"token-{next(self._ids)}", **request}
        )

    @operation
    def _transact_write_items(
        self, *, TransactItems: Sequence[Mapping[str, Any]], ClientRequestToken: str
    ) -> Answer:
        now = self._now()
        done_at = self._done.get(ClientRequestToken)
        if done_at is not None and now - done_at < _TOKENS_LIVE:
            return {}
        plans = [
            self._plan(kind, request) for item in TransactItems for kind, request in item.items()
        ]
        touched = [(plan.table.name, plan.key) for plan in plans]
        if len(set(touched)) < len(touched):
            raise invalid("Transaction request cannot include multiple operations on one item")
        reasons = [self._reason(plan) for plan in plans]
        if any(reason["Code"] != "None" for reason in reasons):
            codes = ", ".join(reason["Code"] for reason in reasons)
            raise RefusedError(
                "TransactionCanceledException",
                "Transaction cancelled, please refer cancellation reasons for specific reasons"
                f" [{codes}]",
                CancellationReasons=reasons,
            )
        for plan in plans:
            self._apply(plan)
        self._done[ClientRequestToken] = now
        return {}

    @operation
    def query(
        self,
        *,
        TableName: str,
        KeyConditionExpression: str,
        IndexName: str | None = None,
        ExclusiveStartKey: Mapping[str, Any] | None = None,
        ConsistentRead: bool = False,
        ScanIndexForward: bool = True,
        **placeholders: Any,
    ) -> Answer:
        table, start, forward = self._table(TableName), ExclusiveStartKey, ScanIndexForward
        holds = expressions.condition(KeyConditionExpression)
        env = environment(placeholders, KeyConditionExpression)
        if IndexName is None:
            _require_strong(ConsistentRead)
            hash_key, sort_key = table.key_names[0], None
            partition = hash_value(KeyConditionExpression, env, hash_key)
            candidates = list(table.items_under(partition))
        else:
            if ConsistentRead:
                raise invalid("Consistent reads are not supported on global secondary indexes")
            index = table.indexes[IndexName]
            index.catch_up(self._now().timestamp())
            hash_key, sort_key = index.hash_key, index.sort_key
            partition = hash_value(KeyConditionExpression, env, hash_key)
            candidates = list(index.shown.get(partition, {}).items())

        def place(pair: tuple[PrimaryKey, Mapping[str, Any]]) -> tuple[float, PrimaryKey]:
            return (float(pair[1][sort_key]["N"]) if sort_key else 0.0), pair[0]

        found = [(key, item) for key, item in candidates if holds(item, env)]
        found.sort(key=place, reverse=not forward)
        if start is not None:
            after = place((table.key_in(start), start))
            found = [
                pair for pair in found if (place(pair) > after if forward else place(pair) < after)
            ]
        page = found[: self.page_size]
        answer: Answer = {
            "Items": [dict(item) for _, item in page],
            "Count": len(page),
            "ScannedCount": len(page),
        }
        if len(page) < len(found):
            last = page[-1][1]
            answer["LastEvaluatedKey"] = {
                each: last[each] for each in (*table.key_names, hash_key, sort_key) if each in last
            }
        return answer

    def _table(self, name: str) -> Table:
        return known(self.tables, name, "ResourceNotFoundException", "Requested resource not found")

    def _write(self, kind: str, request: Mapping[str, Any]) -> _Plan:
        """One write on its own."""
        plan = self._plan(kind, request)
        reason = self._reason(plan)
        if reason["Code"] == _CONFLICT[0]:
            raise RefusedError("TransactionConflictException", _CONFLICT[1])
        if reason["Code"] != "None":
            item = {"Item": reason["Item"]} if "Item" in reason else {}
            raise RefusedError("ConditionalCheckFailedException", _CONDITION_FAILED[1], **item)
        self._apply(plan)
        return plan

    def _plan(self, kind: str, request: Mapping[str, Any]) -> _Plan:
        if unknown := request.keys() - _KNOWN[kind]:
            raise TypeError(f"{kind}: this fake does not know {unknown}")
        table = self._table(request["TableName"])
        key = table.key_in(request["Item"]) if kind == "Put" else table.key_of(request["Key"])
        before = after = table.read(key)
        update_text = request.get("UpdateExpression")
        update = None if update_text is None else expressions.update(update_text)
        condition = request.get("ConditionExpression")
        holds_for = None if condition is None else expressions.condition(condition)
        env = environment(request, condition, update_text)
        holds = holds_for is None or holds_for(before or {}, env)
        size = 0
        if kind == "Put":
            after = {name: stored(value) for name, value in request["Item"].items()}
            size = size_of(after, after)
        elif update is not None:
            targets = update.targets(env)
            if of_key := set(table.key_names) & set(targets):
                raise invalid(
                    "One or more parameter values were invalid: Cannot update attribute"
                    f" {min(of_key)}. This attribute is part of the key"
                )
            if holds:  # otherwise the attributes that it reads may be missing
                base = before or {name: stored(request["Key"][name]) for name in table.key_names}
                after = update.applied(base, env)
                # Only what it writes is measured: measuring all is half the cost.
                known = size_of(base, base) if before is None else table.size_of(key)
                size = known + size_of(after, targets) - size_of(base, targets)
        if after is not None and after is not before:
            table.check_index_keys(after, before)
            if size > MAX_ITEM_BYTES:
                raise invalid(
                    "Item size has exceeded the maximum allowed size"
                    if kind == "Put"
                    else "Item size to update has exceeded the maximum allowed size"
                )
        shows_before = request.get("ReturnValuesOnConditionCheckFailure") == "ALL_OLD"
        return _Plan(table, key, before, after, holds, shows_before, size)

    def _reason(self, plan: _Plan) -> dict[str, Any]:
        """The cancellation reason of a write; its code is `None` for one that is not refused."""
        place = plan.table.name, plan.key
        if self._busy[place]:
            self._busy[place] -= 1
            return {"Code": _CONFLICT[0], "Message": _CONFLICT[1]}
        if plan.holds:
            return {"Code": "None"}
        shown = {"Item": dict(plan.before)} if plan.shows_before and plan.before is not None else {}
        return {"Code": _CONDITION_FAILED[0], "Message": _CONDITION_FAILED[1], **shown}

    def _apply(self, plan: _Plan) -> None:
        if plan.after is not plan.before:
            plan.table.write(
                plan.key, plan.after, self._now().timestamp(), self.index_lag_s(), plan.size
            )
