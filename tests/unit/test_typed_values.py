from decimal import Decimal

import pytest
from boto3.dynamodb.types import TypeDeserializer, TypeSerializer

from longhaul.core.store.item import deserialize, serialize

VALUES = ["", "ü", 0, 7, -3, 10**37, True, None, ["a", 1], {"a": {"b": 2}}, {1, 2}, {"x"}]


@pytest.mark.parametrize("value", VALUES)
def test_a_value_is_typed_as_boto3_types_it(value: object) -> None:
    assert serialize(value) == TypeSerializer().serialize(value)


@pytest.mark.parametrize("value", [*VALUES, Decimal("1.5"), Decimal(-3)])
def test_a_typed_value_is_read_as_boto3_reads_it(value: object) -> None:
    typed = TypeSerializer().serialize(value)

    assert deserialize(typed) == TypeDeserializer().deserialize(typed) == value
