"""The slots of a stage: an item with the number of running jobs, and a limit that adapts.

The number is written in the transactions that start and end attempts, never alone, so slots cannot
leak. Want of room halves the limit, which grows by a half in each calm minute; a throttle slows
down the starts alone (`core.pace`). The transactions of claims also write the stage's pace, by
which messages wait, and look at what an operator has set: a pause, and another number of slots than
the deployed.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from math import ceil
from typing import Any

from longhaul.core.pace import LIMIT_GROWTH, UNPACED, Pace, Room, SlotUse, StartRate
from longhaul.core.settings import Stage
from longhaul.core.store.item import (
    deserialize,
    milliseconds,
    primary_key,
    serialized,
    time_of,
    update_expression,
)
from longhaul.core.store.records import Records

NOT_PAUSED = "attribute_not_exists(paused_at)"
# The operator's number, and without one the deployed.
BELOW_SLOTS = (
    "(running < operator_slots OR (attribute_not_exists(operator_slots) AND running < :limit))"
)
BELOW_LIMIT = "(attribute_not_exists(effective_limit) OR running < effective_limit)"
SLOT_FREE = f"{NOT_PAUSED} AND (attribute_not_exists(running) OR ({BELOW_SLOTS} AND {BELOW_LIMIT}))"

# Want of room halves the effective limit at most this often, and each such stretch without one
# raises it.
CALM = timedelta(seconds=60)


class DynamoSlots:
    """`ports.Slots`."""

    def __init__(self, records: Records) -> None:
        self._records = records

    def room(self, stage: Stage, now: datetime) -> Room:
        """A hint that saves failing transactions; the claim itself decides."""
        return self.room_in(stage, self._item(stage), now)

    def room_in(self, stage: Stage, slots: Mapping[str, Any], now: datetime) -> Room:
        """The same for an item that was read already."""
        use = _use(stage, slots)
        limit = _limit(use, slots)
        if limit < use.slots and now - time_of(slots["limit_changed_at"]) >= CALM:
            limit = min(use.slots, self._raise_limit(stage, limit, slots["limit_changed_at"], now))
        pace = None
        if "claimed_at" in slots:
            pace = Pace(time_of(slots["claimed_at"]), _number(slots, "claim_gap_ms", 0) / 1000)
        free = 0 if use.paused_at or stage.retired else max(0, limit - use.running)
        room = Room(limit, free, use.running, pace=pace)
        rate = _rate(slots)
        if pace is None or rate.at(now) >= UNPACED:
            return room
        starts = rate.starts(pace.claimed_at, now)
        return replace(room, free=starts, starts_per_s=rate.at(now)) if starts < free else room

    def use(self, stage: Stage) -> SlotUse:
        return _use(stage, self._item(stage))

    def pause(self, stage: Stage, now: datetime) -> None:
        # Before the first claim messages must have a time from which their wait grows.
        since = "claimed_at = if_not_exists(claimed_at, :now)"
        self._update(
            stage,
            UpdateExpression=f"SET paused_at = if_not_exists(paused_at, :now), {since}",
            ExpressionAttributeValues=serialized({":now": milliseconds(now)}),
        )

    def resume(self, stage: Stage, now: datetime) -> None:
        # The next gap between claims begins now: the pause is none.
        self._records.update_if(
            "attribute_exists(paused_at)",
            Key=slots_key(stage.name),
            UpdateExpression="SET claimed_at = :now REMOVE paused_at",
            ExpressionAttributeValues=serialized({":now": milliseconds(now)}),
        )

    def set_slots(self, stage: Stage, slots: int) -> None:
        adapted = "REMOVE effective_limit, limit_changed_at"
        if slots == stage.slots:
            self._update(stage, UpdateExpression=f"{adapted}, operator_slots")
            return
        self._update(
            stage,
            UpdateExpression=f"{adapted} SET operator_slots = :slots",
            ExpressionAttributeValues=serialized({":slots": slots}),
        )

    def blocked_s(self, stage: Stage, *, waiting: bool, now: datetime) -> float:
        """The item keeps since when; every claim removes that, in its own transaction."""
        item = self._item(stage)
        if waiting and self.room_in(stage, item, now).free:
            item = self._update(
                stage,
                UpdateExpression="SET blocked_since = if_not_exists(blocked_since, :now)",
                ExpressionAttributeValues=serialized({":now": milliseconds(now)}),
                ReturnValues="ALL_NEW",
            )
            return max(0.0, (now - time_of(item["blocked_since"])).total_seconds())
        if "blocked_since" in item:
            self._update(stage, UpdateExpression="REMOVE blocked_since")
        return 0.0

    def slow_down(self, stage: Stage, now: datetime) -> None:
        # Without a condition: of several at once all write the same.
        before = _rate(self._item(stage))
        rate = before.slowed(now)
        if rate != before:
            values = {"starts_per_min": round(60 * rate.per_s), "slowed_at": milliseconds(now)}
            self._update(stage, **update_expression(serialized(values)))

    def lower_limit(self, stage: Stage, now: datetime) -> None:
        item = self._item(stage)
        limit = _limit(_use(stage, item), item)
        self._set_limit(
            stage,
            max(1, limit // 2),
            now,
            "attribute_not_exists(limit_changed_at) OR limit_changed_at <= :long_ago",
            serialized({":long_ago": milliseconds(now - CALM)}),
        )

    def taken(self, stage: Stage, pace: Pace | None) -> dict[str, Any]:
        """The part of a transaction that takes a slot, if one is free."""
        update = self._change(stage.name, +1)
        update["UpdateExpression"] += " REMOVE blocked_since"
        update["ConditionExpression"] = SLOT_FREE
        values = {":limit": stage.slots}
        if pace is not None:
            update["UpdateExpression"] += " SET claimed_at = :at, claim_gap_ms = :gap"
            values |= {":at": milliseconds(pace.claimed_at), ":gap": round(pace.gap_s * 1000)}
        update["ExpressionAttributeValues"] |= serialized(values)
        return {"Update": update}

    def given_back(self, stage: str) -> dict[str, Any]:
        """The part of a transaction that gives a slot back."""
        return {"Update": self._change(stage, -1)}

    def _change(self, stage: str, by: int) -> dict[str, Any]:
        return {
            "TableName": self._records.table,
            "Key": slots_key(stage),
            "UpdateExpression": "ADD running :by",
            "ExpressionAttributeValues": serialized({":by": by}),
        }

    def _item(self, stage: Stage) -> Mapping[str, Any]:
        # Strongly: a dispatcher that reads of a slot that is taken tries to claim it again.
        return self._records.get(slots_key(stage.name)) or {}

    def _raise_limit(self, stage: Stage, limit: int, changed_at: Any, now: datetime) -> int:  # noqa: ANN401 - a typed value
        unchanged, raised = "limit_changed_at = :seen", ceil(limit * LIMIT_GROWTH)
        is_ours = self._set_limit(stage, raised, now, unchanged, {":seen": changed_at})
        return raised if is_ours else limit

    def _set_limit(
        self, stage: Stage, limit: int, now: datetime, condition: str, values: Mapping[str, Any]
    ) -> bool:
        """Whether the limit was changed; another function may have been first."""
        update = update_expression(
            serialized({"effective_limit": limit, "limit_changed_at": milliseconds(now)})
        )
        update["ExpressionAttributeValues"] |= values
        key = slots_key(stage.name)
        return self._records.update_if(condition, Key=key, **update) is not None

    def _update(self, stage: Stage, **request: Any) -> Mapping[str, Any]:  # noqa: ANN401 - UpdateItem's
        return self._records.update(Key=slots_key(stage.name), **request)


def slots_key(stage: str) -> dict[str, Any]:
    return primary_key(f"slots#{stage}", "slots")


def _use(stage: Stage, item: Mapping[str, Any]) -> SlotUse:
    return SlotUse(
        running=_number(item, "running", 0),
        slots=_number(item, "operator_slots", stage.slots),
        is_by_hand="operator_slots" in item,
        paused_at=time_of(item["paused_at"]) if "paused_at" in item else None,
    )


def _limit(use: SlotUse, item: Mapping[str, Any]) -> int:
    """The slots, or fewer while AWS refuses capacity."""
    return min(use.slots, _number(item, "effective_limit", use.slots))


def _rate(item: Mapping[str, Any]) -> StartRate:
    """Before the first throttle, as if the last one were long ago."""
    slowed_at = time_of(item.get("slowed_at", {"N": "0"}))
    return StartRate(_number(item, "starts_per_min", 0) / 60, slowed_at)


def _number(item: Mapping[str, Any], name: str, default: int) -> int:
    return int(deserialize(item[name])) if name in item else default
