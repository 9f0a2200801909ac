"""Messages in batches that SQS takes in one call."""

import pytest

from longhaul.core.message import MAX_BATCH, MAX_BATCH_BYTES, in_batches


@pytest.mark.parametrize(
    ("weights", "sizes"),
    [
        ([], []),
        ([1], [1]),
        ([1] * MAX_BATCH, [MAX_BATCH]),
        ([1] * (MAX_BATCH + 1), [MAX_BATCH, 1]),
        ([MAX_BATCH_BYTES - 1, 1], [2]),
        ([MAX_BATCH_BYTES - 1, 2], [1, 1]),
        ([MAX_BATCH_BYTES + 1], [1]),
        ([MAX_BATCH_BYTES, MAX_BATCH_BYTES - 1, 1], [1, 2]),
        ([MAX_BATCH_BYTES, MAX_BATCH_BYTES - 1, 2], [1, 1, 1]),
    ],
)
def test_batch_ends_before_it_is_too_long_or_too_heavy(
    weights: list[int], sizes: list[int]
) -> None:
    batches = list(in_batches(weights, lambda weight: weight))

    assert [len(batch) for batch in batches] == sizes
    assert [weight for batch in batches for weight in batch] == weights
