"""Each alarm of the template under CloudWatch's evaluation, with metrics that come late."""

import json
import random
import re
from collections.abc import Callable

import pytest

from longhaul.core.metrics import StageMetric, SweeperMetric
from simulation.aws.cloudwatch import LATENESSES, Alarm, Missing, State, Value
from tests.cdk.synthesis import Synthesis
from tests.layers import ROOT

MINUTE, HOUR = 60, 3600
END = 8 * HOUR
BEGINS, ENDS = 2 * HOUR, 5 * HOUR  # of the trouble in most tests
Level = Callable[[float], float]
"""Second → value."""


def sweeps(level: Level, lateness: str, rng: random.Random, until: float = END) -> list[Value]:
    """A value from every sweep; each sweep is up to half a minute late."""
    times = [n * 300 + rng.uniform(0, 30) for n in range(int(until // 300))]
    return [Value(at, level(at), at + LATENESSES[lateness](at, rng)) for at in times]


def minutes(level: Level, lateness: str, rng: random.Random) -> list[Value]:
    """A value each minute. A level of -1 is an idle queue, which reports none."""
    times = [float(n * MINUTE) for n in range(END // MINUTE)]
    return [
        Value(at, level(at), at + LATENESSES[lateness](at, rng)) for at in times if level(at) >= 0
    ]


def between(begin: float, end: float, bad: float, good: float = 0) -> Level:
    return lambda at: bad if begin <= at < end else good


def rings(states: list[tuple[float, State]]) -> tuple[float, float] | None:
    """When the alarm began and ceased to ring; None if it never rang. It must not ring twice."""
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
    """How many more periods than the alarm's own CloudWatch looks at: AWS does not say."""
    return int(request.param)


@pytest.fixture
def rng() -> random.Random:
    return random.Random(1)


# Name → a value with which it must ring, and one with which it must never ring.
BY_SWEEPS = {
    "MainWithoutBeat": (1, 0),
    "MainBlocked": (900, 899),
    "MainWaiting": (86_400, 86_399),
    "MainNearRetention": (1, 0),
    "UnreadableRows": (1, 0),
    "Owed": (3_600, 3_599),
}
BY_QUEUES = {
    "MainDeadLetters": (1, 0),
    "MainNeverReceived": (8 * 86_400, 8 * 86_400 - 1),
    "RulesUndelivered": (1, 0),
}
# A value may come 15 minutes late; an alarm that needs two values waits for the next sweep.
MUST_RING_WITHIN_S = 15 * MINUTE + 2 * 330
# An alarm looks back half an hour, and up to five periods more when values are missing.
MUST_CEASE_WITHIN_S = 15 * MINUTE + 30 * MINUTE + 25 * MINUTE


@pytest.mark.parametrize("name", BY_SWEEPS)
def test_an_alarm_on_a_sweeps_metric_rings_while_the_trouble_lasts(
    usual: Synthesis, name: str, lateness: str, extra: int, rng: random.Random
) -> None:
    bad, good = BY_SWEEPS[name]
    values = sweeps(between(BEGINS, ENDS, bad, good), lateness, rng)

    rang = rings(alarm(usual, name).play(values, END, extra=extra))

    assert rang
    assert BEGINS <= rang[0] <= BEGINS + MUST_RING_WITHIN_S
    assert ENDS - 6 * MINUTE <= rang[1] <= ENDS + MUST_CEASE_WITHIN_S


@pytest.mark.parametrize("name", BY_QUEUES)
def test_an_alarm_on_a_queue_rings_even_if_the_queue_was_idle_before(
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


def test_a_dead_letter_raises_an_alarm_even_if_it_stays_only_a_minute(
    usual: Synthesis, lateness: str, extra: int, rng: random.Random
) -> None:
    values = minutes(between(BEGINS, BEGINS + MINUTE, 1, -1), lateness, rng)

    assert rings(alarm(usual, "MainDeadLetters").play(values, END, extra=extra))


def test_a_lost_notice_raises_an_alarm_where_there_is_somebody_to_notify(
    with_all: Synthesis, usual: Synthesis, lateness: str, extra: int, rng: random.Random
) -> None:
    values = [Value(BEGINS, 1, BEGINS + LATENESSES[lateness](BEGINS, rng))]

    assert rings(alarm(with_all, "BusNoticesLost").play(values, END, extra=extra))
    assert rings(alarm(with_all, "BusNoticesLost").play([], END, extra=extra)) is None
    assert "AlarmsMainNoticesLost" not in usual.resources("AWS::CloudWatch::Alarm")


@pytest.mark.parametrize("seed", range(5))
def test_a_job_that_aws_goes_on_refusing_raises_an_alarm_within_half_an_hour(
    usual: Synthesis, lateness: str, extra: int, seed: int
) -> None:
    rng = random.Random(seed)
    refusals: list[float] = [BEGINS]
    while refusals[-1] < ENDS:
        # The longest back-off: as long as it has been refused, up to a quarter of an hour.
        refusals.append(refusals[-1] + min(900, max(10, refusals[-1] - BEGINS)))

    def age(at: float) -> float:
        return max((each for each in refusals if each <= at < ENDS), default=BEGINS) - BEGINS

    values = [each for each in sweeps(age, lateness, rng) if each.value > 0]

    rang = rings(alarm(usual, "MainRefused").play(values, END, extra=extra))

    assert rang
    assert BEGINS <= rang[0] <= BEGINS + 30 * MINUTE
    assert ENDS - 6 * MINUTE <= rang[1] <= ENDS + MUST_CEASE_WITHIN_S


@pytest.mark.parametrize("name", BY_SWEEPS)
@pytest.mark.parametrize("was_bad", [True, False])
def test_a_stopped_sweeper_neither_clears_an_alarm_nor_raises_another(
    usual: Synthesis, name: str, lateness: str, extra: int, rng: random.Random, *, was_bad: bool
) -> None:
    bad, good = BY_SWEEPS[name]
    values = sweeps(
        between(HOUR, END, bad, good) if was_bad else between(0, 0, bad, good),
        lateness,
        rng,
        3 * HOUR,
    )

    states = alarm(usual, name).play(values, END, extra=extra)

    assert {state for at, state in states if at >= 3 * HOUR} == {"ALARM" if was_bad else "OK"}


@pytest.mark.parametrize(
    ("stops", "goes_on", "told"),
    # For good, and for two sweeps.
    [(3 * HOUR, END, True), (HOUR, HOUR + 10 * MINUTE, False)],
)
def test_a_stopped_sweeper_raises_an_alarm_within_an_hour(
    usual: Synthesis, lateness: str, extra: int, rng: random.Random, *, stops: int, goes_on: int,
    told: bool,
) -> None:  # fmt: skip
    every = sweeps(lambda _: 1, lateness, rng)
    values = [value for value in every if not stops <= value.at < goes_on]

    states = alarm(usual, "SweeperStopped").play(values, END, extra=extra)

    first = min(value.visible_at for value in values)
    rang = rings([(at, state) for at, state in states if at > first])
    assert bool(rang) is told
    assert rang is None or (stops < rang[0] <= stops + HOUR and rang[1] == END)


@pytest.mark.parametrize(
    ("useful_s", "wasted_s", "is_told"),
    [
        (0, 3_600, True),  # all of it
        (7_200, 10_800, True),
        (7_200, 10_799, False),
        (0, 3_599, False),  # too little to call people
        (36_000, 18_000, False),  # a third
    ],
)
def test_work_that_is_mostly_wasted_over_a_day_raises_an_alarm(
    usual: Synthesis, lateness: str, rng: random.Random, *, useful_s: int, wasted_s: int,
    is_told: bool,
) -> None:  # fmt: skip
    values = [
        Value(at, value, at + LATENESSES[lateness](at, rng))
        for at, value in ((1.0 * HOUR, -useful_s), (3.0 * HOUR, wasted_s))
    ]

    rang = rings(alarm(usual, "MainWasted").play(values, 20 * HOUR, extra=0))

    assert bool(rang) is is_told
    if rang:
        assert 3 * HOUR <= rang[0] <= 3 * HOUR + 16 * MINUTE


TABLES: list[tuple[str, int, dict[Missing, State]]] = [
    # From "How alarm state is evaluated when data is missing": 3 of 3, then 2 of 3. Where it says
    # "retained", the state is that of before.
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


@pytest.mark.parametrize(("series", "to_alarm", "expected"), TABLES)
@pytest.mark.parametrize("missing", ["ignore", "breaching", "notBreaching"])
def test_the_evaluation_follows_the_tables_of_the_documentation(
    series: str, to_alarm: int, missing: Missing, expected: dict[Missing, State]
) -> None:
    rule = Alarm(60, 3, to_alarm, "Maximum", "GreaterThanThreshold", 0, missing)
    values = [
        Value(60.0 * n + 30, float(what == "X"), 0) for n, what in enumerate(series) if what != "-"
    ]
    found = rule.state(values, 60.0 * len(series), "INSUFFICIENT_DATA", extra=2)
    assert found == expected[missing]


def test_every_alarm_names_a_section_of_the_operations_page(varied: Synthesis) -> None:
    page = (ROOT / "docs" / "operations.md").read_text()
    sections = {
        re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-")
        for title in re.findall(r"(?m)^#+ (.+)$", page)
    }

    alarms = varied.resources("AWS::CloudWatch::Alarm").values()
    named = {each["AlarmDescription"].rpartition("docs/operations.md#")[2] for each in alarms}
    assert named <= sections
    assert len(named) == 12


# The dashboard and the alarms name the metrics that the handlers emit.


Name = tuple[str, str, str, str]
"""Namespace, metric, dimension, its value."""


def known(*stages: str) -> set[Name]:
    """The metrics that the handlers emit.

    `tests/handlers/test_metrics.py` proves these names and dimensions.
    """
    return {("Longhaul", metric, "stage", stage) for metric in StageMetric for stage in stages} | {
        ("Longhaul", metric, "service", "sweeper") for metric in SweeperMetric
    }


def shown(synthesis: Synthesis) -> list[Name]:
    body = json.loads(synthesis.only("AWS::CloudWatch::Dashboard")["DashboardBody"])
    found = []
    for widget in body["widgets"]:
        for metric in widget["properties"].get("metrics", ()):
            namespace, name, dimension, value, *_ = metric
            found.append((namespace, name, dimension, value))
    return found


def test_the_dashboard_shows_each_metric_of_the_handlers_once_and_no_other(
    varied: Synthesis,
) -> None:
    names = shown(varied)

    assert set(names) == known("main", "clean_up")
    assert len(names) == len(set(names))


def test_alarms_on_our_metrics_name_metrics_that_the_handlers_emit(varied: Synthesis) -> None:
    watched = set()
    for alarm in varied.resources("AWS::CloudWatch::Alarm").values():
        dimensions = {each["Name"]: each["Value"] for each in alarm["Dimensions"]}
        if alarm["Namespace"] == "Longhaul" and "job" not in dimensions:  # a job's own metric
            ((name, value),) = dimensions.items()
            watched.add((alarm["Namespace"], alarm["MetricName"], name, value))

    assert watched < known("main", "clean_up")
