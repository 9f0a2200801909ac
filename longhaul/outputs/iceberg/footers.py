"""A data file's statistics, from the footer of the Parquet file.

Only the jobs' image and the command line have pyarrow.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyiceberg.io.pyarrow import DataFileStatistics, StatisticsCollector


def statistics_of(
    footer: Any,  # noqa: ANN401 - pyarrow's FileMetaData
    plan: Mapping[int, "StatisticsCollector"],
    ids: Mapping[str, int],
) -> "DataFileStatistics":
    """A file's statistics. A column has bounds only if each of its row groups has usable ones.

    pyiceberg takes the bounds of those that have some for those of the file, and Python's `max`
    over a NaN depends on the order: readers would leave out files that hold what they look for.
    """
    from pyiceberg.io.pyarrow import (  # noqa: PLC0415
        MetricModeTypes,
        MetricsMode,
        data_file_statistics_from_parquet_metadata,
    )

    counts = MetricsMode(MetricModeTypes.COUNTS)
    counted = {each: replace(plan[each], mode=counts) for each in without_bounds(footer, ids)}
    return data_file_statistics_from_parquet_metadata(footer, {**plan, **counted}, dict(ids))


def without_bounds(footer: Any, ids: Mapping[str, int]) -> set[int]:  # noqa: ANN401 - as above
    """The columns whose least or greatest value does not follow from the footer."""
    return {
        ids[chunk.path_in_schema]
        for group in range(footer.num_row_groups)
        for chunk in map(footer.row_group(group).column, range(footer.num_columns))
        if not _has_bounds(chunk)
    }


def _has_bounds(chunk: Any) -> bool:  # noqa: ANN401 - pyarrow's ColumnChunkMetaData
    """Whether the least and the greatest value of a column in a row group are known.

    One that has a NaN has it as its greatest, in Spark's files. Of nulls alone there is neither.
    """
    found = chunk.statistics
    if found is None:
        return True  # pyiceberg leaves out the column itself
    if not found.has_min_max:
        return bool(found.has_null_count and found.null_count == chunk.num_values)
    try:
        ends = found.min, found.max
    except OverflowError:  # Spark's years go beyond 1 to 9999, and so do Iceberg's, not Python's
        return False
    except NotImplementedError:  # of pyarrow; pyiceberg leaves out the column itself
        return True
    return all(each == each for each in ends)  # noqa: PLR0124 - a NaN is not
