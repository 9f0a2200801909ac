"""The leases table's indexes.

They hold keys only and are a little late: the caller reads the rows.
"""

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from datetime import datetime

from longhaul.core.descent import BACKFILL
from longhaul.core.lease import TREE, OpenKind, State
from longhaul.core.store.item import (
    deserialize,
    key_of,
    milliseconds,
    primary_key,
    serialized,
    time_of,
)
from longhaul.core.store.records import Records
from longhaul.core.store.table import ENDED

_PAGE = 100
_STAGES = "stages"  # no job's key, which has a #


class DynamoIndex:
    """`ports.LeaseIndex`."""

    def __init__(self, records: Records) -> None:
        self._records = records

    def open_keys(self, stage: str, what: OpenKind) -> Iterator[str]:
        return self._open(f"{stage}#{what}")

    def watched_keys(self, stage: str) -> Iterator[str]:
        return self._open(f"{stage}#{TREE}")

    def watched_backfills(self, stage: str) -> Iterator[str]:
        return self._open(f"{stage}#{BACKFILL}")

    def stages(self, deployed: Iterable[str]) -> AbstractSet[str]:
        """A set that only grows, in an item of its own."""
        item = self._records.update(
            Key=primary_key(_STAGES, _STAGES),
            UpdateExpression="ADD stage_names :names",
            ExpressionAttributeValues=serialized({":names": set(deployed)}),
            ReturnValues="ALL_NEW",
        )
        names: AbstractSet[str] = deserialize(item["stage_names"])
        return names

    def ended_keys(
        self, stage: str, state: State, until: datetime, since: datetime, keys: int = _PAGE
    ) -> Iterator[tuple[datetime, str]]:
        """A page at a time: a caller that wants ten keys reads a hundred at most."""
        found = self._records.query(
            IndexName=ENDED.name,
            KeyConditionExpression="ended = :ended AND settled_at BETWEEN :since AND :until",
            ExpressionAttributeValues=serialized(
                {
                    ":ended": f"{stage}#{state.value}",
                    ":since": milliseconds(since),
                    ":until": milliseconds(until),
                }
            ),
            ScanIndexForward=False,
            PaginationConfig={"PageSize": keys},
        )
        return ((time_of(item["settled_at"]), key_of(item)) for item in found)

    def _open(self, why: str) -> Iterator[str]:
        return map(key_of, self._records.open(why))
