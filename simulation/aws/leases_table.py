"""The leases table where no stack deploys it: for a double, an oracle or a benchmark."""

from typing import Any

from longhaul.core.store.table import INDEXES, PARTITION_KEY, SORT_KEY


def creation(table: str) -> dict[str, Any]:
    """CreateTable's arguments."""
    sort_keys = [index.sort_key for index in INDEXES if index.sort_key]
    return {
        "TableName": table,
        "KeySchema": _key_schema(PARTITION_KEY, SORT_KEY),
        "AttributeDefinitions": [
            *_typed("S", PARTITION_KEY, SORT_KEY, *(index.name for index in INDEXES)),
            *_typed("N", *sort_keys),
        ],
        "GlobalSecondaryIndexes": [
            {
                "IndexName": index.name,
                "KeySchema": _key_schema(index.name, index.sort_key),
                "Projection": {"ProjectionType": "KEYS_ONLY"},
            }
            for index in INDEXES
        ],
        "BillingMode": "PAY_PER_REQUEST",
    }


def _key_schema(partition_key: str, sort_key: str | None) -> list[dict[str, str]]:
    names = {"HASH": partition_key, "RANGE": sort_key}
    return [{"AttributeName": name, "KeyType": kind} for kind, name in names.items() if name]


def _typed(kind: str, *names: str) -> list[dict[str, str]]:
    return [{"AttributeName": name, "AttributeType": kind} for name in names]
