"""Notices that could not be sent: an item for each, in the index of what is left to do."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Final

from longhaul.core.store.item import (
    deserialize,
    milliseconds,
    primary_key,
    serialized,
    time_of,
)
from longhaul.core.store.records import Records
from longhaul.core.store.table import OPEN, PARTITION_KEY, SORT_KEY, TTL
from longhaul.notices.notice import Notice, Untold

_KEPT: Final = timedelta(days=14)
"""Longer than any is tried, also where no sweep runs for some days."""


class DynamoUntold:
    """`announcer.UntoldNotices`."""

    def __init__(self, records: Records) -> None:
        self._records = records

    def owe(self, stage: str, notice: Notice, now: datetime) -> None:
        values = {
            "notice": json.dumps(asdict(notice)),
            "since": milliseconds(now),
            OPEN.name: _left_to_do(stage),
            TTL: int((now + _KEPT).timestamp()),
        }
        item = primary_key(_key(stage), notice.id) | serialized(values)
        self._records.put(Item=item)

    def owed(self, stage: str) -> Iterator[Untold]:
        keys = [
            {PARTITION_KEY: item[PARTITION_KEY], SORT_KEY: item[SORT_KEY]}
            for item in self._records.open(_left_to_do(stage))
        ]
        self._records.rng.shuffle(keys)
        for item in self._records.many(keys):
            if OPEN.name in item:  # the index is a little late
                notice = Notice(**json.loads(deserialize(item["notice"])))
                yield Untold(stage, notice, time_of(item["since"]))

    def strike(self, untold: Untold) -> None:
        self._records.update(
            Key=primary_key(_key(untold.stage), untold.notice.id),
            # Not deleted: no one has that right.
            UpdateExpression="REMOVE #open, notice",
            ExpressionAttributeNames={"#open": OPEN.name},
        )


def _key(stage: str) -> str:
    return f"notices#{stage}"


def _left_to_do(stage: str) -> str:
    return f"{stage}#NOTICE"
