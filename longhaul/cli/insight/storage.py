"""What outlives a stack, how much of it there is, and what it costs."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from longhaul.cli.insight.prices import read_prices
from longhaul.settings import RuntimeSettings

_GB: Final = 1024**3
# A page has a thousand objects. Beyond ten of them the listing would cost more than it tells.
_PAGES: Final = 10


@dataclass(frozen=True)
class Stored:
    """Lower bounds unless `is_all`."""

    what: str
    items: int
    unit: str
    size_bytes: int
    gb_month: float
    currency: str
    is_all: bool = True

    def __str__(self) -> str:
        cost = self.gb_month * self.size_bytes / _GB
        least = "" if self.is_all else "at least "
        return (
            f"{self.what}: {least}{self.items:,} {self.unit}, {self.size_bytes / _GB:,.3f} GB: "
            f"{least}{cost:,.2f} {self.currency} a month ({self.gb_month:g} a GB)"
        )


def stored(
    settings: RuntimeSettings,
    dynamodb: Any,  # noqa: ANN401 - one of boto3's clients
    s3: Any,  # noqa: ANN401 - one of boto3's clients
) -> Iterator[Stored]:
    """The table and the data bucket: the template keeps both when the stack is deleted."""
    prices = read_prices()
    table = dynamodb.describe_table(TableName=settings.leases_table)["Table"]
    yield Stored(
        f"table {settings.leases_table}",
        table.get("ItemCount", 0),  # DynamoDB's own count, up to six hours old
        "items",
        table.get("TableSizeBytes", 0),
        prices.dynamodb.gb_month,
        prices.currency,
    )
    bucket = settings.paths.data_bucket
    pages = iter(s3.get_paginator("list_objects_v2").paginate(Bucket=bucket))
    sizes = [each["Size"] for page in islice(pages, _PAGES) for each in page.get("Contents", [])]
    yield Stored(
        f"bucket {bucket}",
        len(sizes),
        "objects",
        sum(sizes),
        prices.s3.gb_month,
        prices.currency,
        is_all=next(pages, None) is None,
    )
