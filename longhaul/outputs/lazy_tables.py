"""Tables on first use: pyiceberg takes a third of a second to import, and most jobs need none."""

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from longhaul.outputs.iceberg.catalog import Tables


def tables_of(
    glue: Callable[[], Any], s3: "S3Client", bucket: str, *, is_bounded: bool = True
) -> "Callable[[], Tables]":
    """`glue` makes boto3's client. `is_bounded`: read only what fits into a function's memory."""

    @cache
    def make() -> "Tables":
        from longhaul.outputs.iceberg.catalog import Tables  # noqa: PLC0415

        return Tables(glue, s3, bucket, is_bounded=is_bounded)

    return make
