"""The slots of a stage: an item that counts its running jobs, and the limit that adapts to what AWS can give.

The counter is written in the transactions that start and end attempts, never alone: it cannot leak.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from longhaul.adapters.dynamodb_writes import expression
from longhaul.settings import Stage

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

SLOT_FREE = (
    "attribute_not_exists(running) OR "
    "(running < :limit AND (attribute_not_exists(effective_limit) OR running < effective_limit))"
)

# A throttle halves the effective limit at most this often, and each such stretch without one raises it by one: additive increase, multiplicative decrease.
CALM = timedelta(seconds=60)


class DynamoSlots:
    def __init__(self, client: "DynamoDBClient", table: str) -> None:
        self._client = client
        self._table = table

    def free_slots(self, stage: Stage, now: datetime) -> int:
        """A hint that saves failing transactions; the claim itself decides."""
        return self.free_in(stage, self._item(stage), now)

    def free_in(self, stage: Stage, slots: Mapping[str, Any], now: datetime) -> int:
        """The same for an item that was read already."""
        running, limit = _number(slots, "running", 0), min(stage.slots, _number(slots, "effective_limit", stage.slots))
        if limit < stage.slots and now - _time(slots, "limit_changed_at") >= CALM:
            limit = self._raise_limit(stage, limit, slots["limit_changed_at"], now)
        return max(0, limit - running)

    def in_use(self, stage: Stage) -> int:
        return _number(self._item(stage), "running", 0)

    def blocked_s(self, stage: Stage, *, waiting: bool, now: datetime) -> float:
        """`ports.LeaseStore.blocked_s`: the item remembers since when, and every claim makes it forget, in its own transaction."""
        item = self._item(stage)
        if waiting and self.free_in(stage, item, now):
            return self._blocked_since(stage, now)
        if "blocked_since" in item:
            update = expression({}, ["blocked_since"], {})
            del update["ExpressionAttributeValues"]  # DynamoDB refuses an empty one
            self._client.update_item(TableName=self._table, Key=slots_key(stage.name), **update)
        return 0.0

    def _item(self, stage: Stage) -> Mapping[str, Any]:
        return self._client.get_item(TableName=self._table, Key=slots_key(stage.name)).get("Item", {})

    def _blocked_since(self, stage: Stage, now: datetime) -> float:
        answer = self._client.update_item(
            TableName=self._table,
            Key=slots_key(stage.name),
            UpdateExpression="SET blocked_since = if_not_exists(blocked_since, :now)",
            ExpressionAttributeValues={":now": _milliseconds(now)},
            ReturnValues="ALL_NEW",
        )
        return max(0.0, (now - _time(answer["Attributes"], "blocked_since")).total_seconds())

    def throttled(self, stage: Stage, now: datetime) -> None:
        """Halve the effective limit, at most once in a stretch of `CALM`."""
        item = self._item(stage)
        limit = min(stage.slots, _number(item, "effective_limit", stage.slots))
        sets = {"effective_limit": {"N": str(max(1, limit // 2))}, "limit_changed_at": _milliseconds(now)}
        long_ago = {":long_ago": _milliseconds(now - CALM)}
        self._set_limit(
            stage, sets, "attribute_not_exists(limit_changed_at) OR limit_changed_at <= :long_ago", long_ago
        )

    def _raise_limit(self, stage: Stage, limit: int, changed_at: Any, now: datetime) -> int:  # noqa: ANN401 - an attribute value
        sets = {"effective_limit": {"N": str(limit + 1)}, "limit_changed_at": _milliseconds(now)}
        return limit + 1 if self._set_limit(stage, sets, "limit_changed_at = :seen", {":seen": changed_at}) else limit

    def _set_limit(self, stage: Stage, sets: dict[str, Any], condition: str, values: Mapping[str, Any]) -> bool:
        """Whether the limit was changed; somebody else may have been first."""
        update = expression(sets, [], {})
        update["ExpressionAttributeValues"] |= values
        try:
            self._client.update_item(
                TableName=self._table, Key=slots_key(stage.name), ConditionExpression=condition, **update
            )
        except ClientError as error:
            if error.response["Error"]["Code"] != "ConditionalCheckFailedException":
                raise
            return False
        return True

    def change(self, stage: str, by: int, limit: int | None = None) -> dict[str, Any]:
        """The part of a transaction that takes (+1, below `limit`) or gives back (-1) a slot."""
        update: dict[str, Any] = {
            "TableName": self._table,
            "Key": slots_key(stage),
            "UpdateExpression": "ADD running :by",
            "ExpressionAttributeValues": {":by": {"N": str(by)}},
        }
        if limit is not None:
            update["UpdateExpression"] += " REMOVE blocked_since"
            update["ConditionExpression"] = SLOT_FREE
            update["ExpressionAttributeValues"][":limit"] = {"N": str(limit)}
        return {"Update": update}


def slots_key(stage: str) -> dict[str, Any]:
    return {"key": {"S": f"slots#{stage}"}, "item": {"S": "slots"}}


def _number(item: Mapping[str, Any], name: str, default: int) -> int:
    return int(item[name]["N"]) if name in item else default


def _milliseconds(time: datetime) -> dict[str, Any]:
    return {"N": str(round(time.timestamp() * 1000))}


def _time(item: Mapping[str, Any], name: str) -> datetime:
    return datetime.fromtimestamp(_number(item, name, 0) / 1000, UTC)
