import pytest

from simulation.aws.stepfunctions.asl.limits import MAX_BYTES, ExecutionError, crossed, sized


@pytest.mark.parametrize(("character", "bytes_each"), [("x", 1), ("é", 2), ("☂", 3)])
def test_payload_has_at_most_the_bytes_that_step_functions_allows(
    character: str, bytes_each: int
) -> None:
    quotes = 2
    most = (MAX_BYTES - quotes) // bytes_each

    assert sized(character * most, "State") == character * most
    with pytest.raises(ExecutionError, match="'State'") as failure:
        sized(character * (most + 1), "State")
    assert failure.value.error == "States.DataLimitExceeded"


def test_crossed_payload_is_a_copy() -> None:
    answer = {"list": [1]}

    received = crossed(answer, "lambda")
    answer["list"].append(2)

    assert received == {"list": [1]}


def test_payload_that_is_not_json_does_not_cross() -> None:
    with pytest.raises(TypeError):
        crossed({1, 2}, "lambda")
