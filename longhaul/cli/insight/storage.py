"""What outlives a stack, how much of it there is, and what it costs."""

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from longhaul.cli.insight.prices import read_prices
from longhaul.settings import RuntimeSettings

_GB: Final = 1024**3
# A page has a thousand objects. Beyond ten of them the listing would cost more than it tells.
_PAGES: Final = 10


def stored(
    settings: RuntimeSettings,
    dynamodb: Any,  # noqa: ANN401 - one of boto3's clients
    s3: Any,  # noqa: ANN401 - one of boto3's clients
) -> Iterator[str]:
    """The table and the data bucket: the template keeps both when the stack is deleted."""
    prices = read_prices()
    table = dynamodb.describe_table(TableName=settings.leases_table)["Table"]
    # DynamoDB's own counts, up to six hours old.
    items, size_bytes = table.get("ItemCount", 0), table.get("TableSizeBytes", 0)
    cost = _cost(size_bytes, prices.dynamodb.gb_month, prices.currency)
    yield f"table {settings.leases_table}: {items:,} items, {cost}"
    bucket = settings.paths.data_bucket
    pages = iter(s3.get_paginator("list_objects_v2").paginate(Bucket=bucket))
    sizes = [each["Size"] for page in islice(pages, _PAGES) for each in page.get("Contents", [])]
    least = "at least " if next(pages, None) is not None else ""
    cost = _cost(sum(sizes), prices.s3.gb_month, prices.currency)
    yield f"bucket {bucket}: {least}{len(sizes):,} objects, {cost}"


def _cost(size_bytes: int, gb_month: float, currency: str) -> str:
    size_gb = size_bytes / _GB
    return f"{size_gb:,.3f} GB: {gb_month * size_gb:,.2f} {currency} a month ({gb_month:g} a GB)"
