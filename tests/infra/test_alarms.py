"""Alarms that hold when metrics come late: CloudWatch's evaluation, played on each alarm of the template."""

import random
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from app import REPOSITORY
from tests.cloudwatch import LATENESSES, Alarm, Missing, State, Value
from tests.infra.synthesis import Synthesis

MINUTE, HOUR = 60, 3600
END = 8 * HOUR
BEGINS, ENDS = 2 * HOUR, 5 * HOUR  # of the trouble in most tests
Level = Callable[[float], float]
"""Second → value."""


def sweeps(level: Level, lateness: str, rng: random.Random, until: float = END) -> list[Value]:
    """A value from every sweep, none of which is quite on time."""
    times = [n * 300 + rng.uniform(0, 30) for n in range(int(until // 300))]
    return [Value(at, level(at), at + LATENESSES[lateness](at, rng)) for at in times]


def minutes(level: Level, lateness: str, rng: random.Random) -> list[Value]:
    """A value each minute, as a queue that is not idle has them; a level of -1 is an idle queue, which has none."""
    times = [float(n * MINUTE) for n in range(END // MINUTE)]
    return [Value(at, level(at), at + LATENESSES[lateness](at, rng)) for at in times if level(at) >= 0]


def between(begin: float, end: float, bad: float, good: float = 0) -> Level:
    return lambda at: bad if begin <= at < end else good


def rings(states: list[tuple[float, State]]) -> tuple[float, float] | None:
    """When it began and ceased to ring; None when it never did. It must not ring twice."""
    seconds = [at for at, state in states if state == "ALARM"]
    if not seconds:
        return None
    assert len(seconds) == (seconds[-1] - seconds[0]) / MINUTE + 1, "it rang twice"
    return seconds[0], seconds[-1]


def alarm(synthesis: Synthesis, name: str) -> Alarm:
    return Alarm.of(synthesis.resources("AWS::CloudWatch::Alarm")[f"Alarms{name}"])


@pytest.fixture(params=list(LATENESSES))
def lateness(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=[0, 2, 5], ids=lambda extra: f"{extra} periods more")
def extra(request: pytest.FixtureRequest) -> int:
    """How many periods CloudWatch looks at beyond those of the alarm: AWS does not say."""
    return int(request.param)


@pytest.fixture
def rng() -> random.Random:
    return random.Random(1)


# Name → a value with which it must ring, and one with which it must not, however long it lasts.
BY_SWEEPS = {
    "MainWithoutBeat": (1, 0),
    "MainBlocked": (900, 899),
    "MainWaiting": (86_400, 86_399),
    "MainNearRetention": (1, 0),
}
BY_QUEUES = {
    "MainDeadLetters": (1, 0),
    "MainNeverReceived": (9 * 86_400, 9 * 86_400 - 1),
    "RulesUndelivered": (1, 0),
}
# A value may come 15 minutes late; the alarm that asks for two waits for the next sweep.
MUST_RING_WITHIN_S = 15 * MINUTE + 2 * 330
# It looks back half an hour, and up to five periods more when values are missing.
MUST_CEASE_WITHIN_S = 15 * MINUTE + 30 * MINUTE + 25 * MINUTE


@pytest.mark.parametrize("name", BY_SWEEPS)
def test_what_a_sweep_measures_rings_soon_for_as_long_as_it_lasts_and_only_then(
    usual: Synthesis, name: str, lateness: str, extra: int, rng: random.Random
) -> None:
    bad, good = BY_SWEEPS[name]
    values = sweeps(between(BEGINS, ENDS, bad, good), lateness, rng)

    rang = rings(alarm(usual, name).play(values, END, extra=extra))

    assert rang
    assert BEGINS <= rang[0] <= BEGINS + MUST_RING_WITHIN_S
    assert ENDS - 6 * MINUTE <= rang[1] <= ENDS + MUST_CEASE_WITHIN_S


@pytest.mark.parametrize("name", BY_QUEUES)
def test_what_a_queue_holds_rings_though_the_queue_was_idle_before(
    usual: Synthesis, name: str, lateness: str, extra: int, rng: random.Random
) -> None:
    bad, _ = BY_QUEUES[name]
    values = minutes(between(BEGINS, ENDS, bad, -1), lateness, rng)

    rang = rings(alarm(usual, name).play(values, END, extra=extra))

    assert rang
    assert BEGINS <= rang[0] <= BEGINS + 16 * MINUTE
    assert ENDS - MINUTE <= rang[1] <= ENDS + MUST_CEASE_WITHIN_S


@pytest.mark.parametrize("name", [*BY_SWEEPS, *BY_QUEUES])
def test_no_alarm_rings_while_all_is_well(
    usual: Synthesis, name: str, lateness: str, extra: int, rng: random.Random
) -> None:
    level = between(0, END, (BY_SWEEPS | BY_QUEUES)[name][1])
    values = (sweeps if name in BY_SWEEPS else minutes)(level, lateness, rng)

    assert rings(alarm(usual, name).play(values, END, extra=extra)) is None


def test_a_dead_letter_that_was_there_for_a_minute_is_heard_of(
    usual: Synthesis, lateness: str, extra: int, rng: random.Random
) -> None:
    values = minutes(between(BEGINS, BEGINS + MINUTE, 1, -1), lateness, rng)

    assert rings(alarm(usual, "MainDeadLetters").play(values, END, extra=extra))


def test_a_lease_that_the_next_sweep_finds_repaired_is_no_call_at_night(
    usual: Synthesis, lateness: str, extra: int, rng: random.Random
) -> None:
    values = sweeps(between(BEGINS, BEGINS + 5 * MINUTE, 1), lateness, rng)

    assert rings(alarm(usual, "MainWithoutBeat").play(values, END, extra=extra)) is None


@pytest.mark.parametrize("name", BY_SWEEPS)
@pytest.mark.parametrize("was_bad", [True, False])
def test_a_sweeper_that_stops_neither_clears_an_alarm_nor_raises_one(
    usual: Synthesis, name: str, lateness: str, extra: int, rng: random.Random, *, was_bad: bool
) -> None:
    bad, good = BY_SWEEPS[name]
    values = sweeps(between(HOUR, END, bad, good) if was_bad else between(0, 0, bad, good), lateness, rng, 3 * HOUR)

    states = alarm(usual, name).play(values, END, extra=extra)

    assert {state for at, state in states if at >= 3 * HOUR} == {"ALARM" if was_bad else "OK"}


def test_a_sweeper_that_stops_is_heard_of_within_an_hour_and_a_late_metric_is_not(
    usual: Synthesis, lateness: str, extra: int, rng: random.Random
) -> None:
    values = sweeps(lambda _: 1, lateness, rng, 3 * HOUR)

    states = alarm(usual, "SweeperStopped").play(values, END, extra=extra)

    first = min(value.visible_at for value in values)
    rang = rings([(at, state) for at, state in states if at > first])
    assert rang
    assert 3 * HOUR < rang[0] <= 4 * HOUR
    assert rang[1] == END  # until it runs again


def test_two_sweeps_in_a_row_may_fail_to_come(usual: Synthesis, lateness: str, extra: int, rng: random.Random) -> None:
    values = [value for value in sweeps(lambda _: 1, lateness, rng) if not HOUR <= value.at < HOUR + 10 * MINUTE]

    states = alarm(usual, "SweeperStopped").play(values, END, extra=extra)

    first = min(value.visible_at for value in values)
    assert rings([(at, state) for at, state in states if at > first]) is None


def test_an_alarm_that_looks_back_one_minute_would_never_see_a_dead_letter_whose_metric_is_late(
    rng: random.Random,
) -> None:
    one_minute = Alarm(60, 1, 1, "Maximum", "GreaterThanThreshold", 0, "notBreaching")
    values = minutes(between(BEGINS, ENDS, 1, -1), "always as late as can be", rng)

    assert rings(one_minute.play(values, END)) is None


TABLES: list[tuple[str, int, dict[Missing, State]]] = [
    # From "How alarm state is evaluated when data is missing": 3 of 3, then 2 of 3. "RETAINED" is what was before.
    ("0-X-X", 3, {"ignore": "OK", "breaching": "OK", "notBreaching": "OK"}),
    ("----0", 3, {"ignore": "OK", "breaching": "OK", "notBreaching": "OK"}),
    ("-----", 3, {"ignore": "INSUFFICIENT_DATA", "breaching": "ALARM", "notBreaching": "OK"}),
    ("0XX-X", 3, {"ignore": "ALARM", "breaching": "ALARM", "notBreaching": "ALARM"}),
    ("--X--", 3, {"ignore": "INSUFFICIENT_DATA", "breaching": "ALARM", "notBreaching": "OK"}),
    ("0-X-X", 2, {"ignore": "ALARM", "breaching": "ALARM", "notBreaching": "ALARM"}),
    ("00X0X", 2, {"ignore": "ALARM", "breaching": "ALARM", "notBreaching": "ALARM"}),
    ("0-X--", 2, {"ignore": "OK", "breaching": "ALARM", "notBreaching": "OK"}),
    ("----0", 2, {"ignore": "OK", "breaching": "ALARM", "notBreaching": "OK"}),
    ("---X-", 2, {"ignore": "INSUFFICIENT_DATA", "breaching": "ALARM", "notBreaching": "OK"}),
]


def cases() -> Iterator[Any]:
    for series, to_alarm, expected in TABLES:
        for missing, state in expected.items():
            yield pytest.param(series, to_alarm, missing, state, id=f"{series} {to_alarm} of 3, {missing}")


@pytest.mark.parametrize(("series", "to_alarm", "missing", "expected"), list(cases()))
def test_the_evaluation_is_the_one_of_the_documentations_tables(
    series: str, to_alarm: int, missing: Missing, expected: State
) -> None:
    rule = Alarm(60, 3, to_alarm, "Maximum", "GreaterThanThreshold", 0, missing)
    values = [Value(60.0 * n + 30, float(what == "X"), 0) for n, what in enumerate(series) if what != "-"]

    assert rule.state(values, 60.0 * len(series), "INSUFFICIENT_DATA", extra=2) == expected


def test_every_alarm_tells_the_topic_and_does_nothing_else(varied: Synthesis) -> None:
    alarms = varied.resources("AWS::CloudWatch::Alarm")

    assert {
        (
            tuple(each.get("AlarmActions", ())),
            tuple(each.get("OKActions", ())),
            *each.get("InsufficientDataActions", ()),
        )
        for each in alarms.values()
    } == {(("<AlarmsTopic>",), ())}
    assert len(alarms) == 2 * 6 + 3  # six for each stage, and three for the stack


def test_cloudwatch_of_this_account_may_publish_and_nobody_without_tls(usual: Synthesis) -> None:
    statements = {each["Sid"]: each for each in usual.only("AWS::SNS::TopicPolicy")["PolicyDocument"]["Statement"]}

    publish = statements.pop("AlarmsPublish")
    assert (publish["Principal"], publish["Action"]) == ({"Service": "cloudwatch.amazonaws.com"}, "sns:Publish")
    assert publish["Condition"] == {"StringEquals": {"aws:SourceAccount": "<AWS::AccountId>"}}
    (refusal,) = statements.values()
    assert (refusal["Effect"], refusal["Condition"]) == ("Deny", {"Bool": {"aws:SecureTransport": "false"}})


def test_every_alarm_names_the_section_of_the_docs_that_says_what_to_do(varied: Synthesis) -> None:
    page = (REPOSITORY / "docs" / "operations.md").read_text()
    sections = {
        re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-") for title in re.findall(r"(?m)^#+ (.+)$", page)
    }

    named = set()
    for each in varied.resources("AWS::CloudWatch::Alarm").values():
        (anchor,) = re.findall(r"docs/operations\.md#([a-z-]+)$", each["AlarmDescription"])
        named.add(anchor)
    assert named <= sections
    assert len(named) == 7
