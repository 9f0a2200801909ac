"""The parts of a world that stand for AWS, one by one."""

import json
import random
from typing import Any

import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, ReadTimeoutError

from tests.fakes.aws import FakeAws
from tests.fakes.clock import VirtualClock
from tests.simulation.hosts import Host
from tests.simulation.injection import Injector
from tests.simulation.mapping import items_to_keep
from tests.simulation.plan import Fault, Plan
from tests.simulation.sdk import Sdk
from tests.simulation.stages import queues_of, stages_of
from tests.simulation.template import deployed
from tests.simulation.threads import Threads
from tests.simulation.timeline import Timeline

FOUR_TRIES = Config(read_timeout=5, retries={"mode": "standard", "max_attempts": 3})


class Bench:
    """One host, and a bucket that it writes to."""

    def __init__(self, *faults: Fault) -> None:
        self.timeline = Timeline(VirtualClock())
        self.aws = FakeAws(self.timeline.clock)
        self.aws.s3.create_bucket(Bucket="b")
        self.saw: list[str] = []
        injector = Injector(Plan(faults=faults), self.timeline)
        self.sdk = Sdk(
            self.aws, self.timeline, injector, lambda call, _host: self.saw.append(call.operation), lambda *_: None
        )
        self.host = Host(self.timeline, "host", random.Random(1))
        self.ended: list[Any] = []

    def put(self, key: str = "k") -> None:
        self.sdk.client("s3", config=FOUR_TRIES).put_object(Bucket="b", Key=key, Body=b"")

    def run(self, work: Any) -> None:
        self.host.run(work, lambda *end: self.ended.append(end))
        while self.timeline.step(self.timeline.clock.now().replace(year=2027)):
            pass


def test_the_settings_and_the_machine_are_those_of_the_template() -> None:
    stack = deployed()
    assert {name: function.timeout_s for name, function in stack.functions.items()} == {
        "dispatcher": 75,
        "heartbeat": 30,
        "settle": 900,
        "sweeper": 300,
    }
    assert (stack.batch_size, stack.concurrency) == (10, 2)
    assert stack.settings.stages[0].queue_url.endswith("/Longhaul-main-jobs")
    assert '"StartAt":"RunUnderLease"' in stack.definition


def test_the_stages_of_a_pipeline_have_queues_like_those_of_the_first() -> None:
    stack = deployed()
    main, clean, joining = stages_of(stack.settings.stages[0], Plan(clean_slots=2))
    assert [stage.next for stage in (main, clean, joining)] == [("clean",), ("sum",), ()]
    queues = queues_of(stack.queues, (main, clean, joining))
    for stage in (main, clean, joining):
        name = stage.queue_url.rpartition("/")[2]
        assert queues[name].keys() == stack.queues["Longhaul-main-jobs"].keys()
        dead_letters = json.loads(queues[name]["RedrivePolicy"])["deadLetterTargetArn"].rpartition(":")[2]
        assert dead_letters == stage.dead_letter_queue_url.rpartition("/")[2] == f"Longhaul-{stage.name}-dead-letters"
        assert list(queues).index(dead_letters) < list(queues).index(name)


@pytest.mark.parametrize(
    ("answer", "kept"),
    [
        (None, set()),
        ({}, set()),
        ({"batchItemFailures": []}, set()),
        ({"batchItemFailures": [{"itemIdentifier": "a"}]}, {"a"}),
        ({"batchItemFailures": [{"itemIdentifier": "unknown"}]}, {"a", "b"}),
        ({"batchItemFailures": [{"itemIdentifier": ""}]}, {"a", "b"}),
        ({"batchItemFailures": [{"wrong": "a"}]}, {"a", "b"}),
        ("text", {"a", "b"}),
    ],
)
def test_the_mapping_keeps_what_is_listed_and_everything_when_it_does_not_understand(
    answer: Any, kept: set[str]
) -> None:
    assert items_to_keep(answer, ["a", "b"]) == kept


def test_a_lost_answer_is_tried_again_though_the_call_took_effect() -> None:
    bench = Bench(Fault("host", 1, "lost/after/1"))
    bench.run(bench.put)
    assert bench.saw == ["PutObject", "PutObject"]
    assert bench.ended == [(None, None)]


def test_the_sdk_gives_up_after_its_tries() -> None:
    bench = Bench(Fault("host", 1, "lost/after/all"))
    began = bench.timeline.clock.now()
    bench.host.run(bench.put, lambda *end: bench.ended.append((bench.timeline.clock.now(), *end)))
    while not bench.ended:
        bench.timeline.step(began.replace(year=2027))
    at, error, _ = bench.ended[0]
    assert isinstance(error, ReadTimeoutError)
    assert bench.saw == ["PutObject"] * 4
    assert 20 <= (at - began).total_seconds() <= 20 + 1 + 2 + 4


def test_a_fault_before_leaves_nothing_behind() -> None:
    bench = Bench(Fault("host", 1, "unavailable/before/all"))
    bench.run(bench.put)
    assert bench.saw == []
    assert isinstance(bench.ended[0][0], ClientError)
    assert not bench.aws.s3.buckets["b"].objects


@pytest.mark.parametrize(("kind", "written"), [("crash/before", []), ("crash/after", ["k"])])
def test_a_host_that_crashes_does_nothing_more_whatever_its_code_would_still_do(kind: str, written: list[str]) -> None:
    bench = Bench(Fault("host", 1, kind))
    told = []
    bench.host.crashed = lambda: told.append("crashed")

    def work() -> None:
        try:
            bench.put()
        finally:
            bench.put("never")

    bench.run(work)
    assert list(bench.aws.s3.buckets["b"].objects) == written
    assert (told, bench.ended) == (["crashed"], [])


def test_threads_interleave_up_to_their_number_and_answer_in_order() -> None:
    bench = Bench()
    running: list[int] = []
    most = 0

    def one(number: int) -> int:
        nonlocal most
        running.append(number)
        most = max(most, len(running))
        bench.timeline.sleep(10 - number)
        running.remove(number)
        return number

    def work() -> list[int]:
        with Threads(3) as pool:
            return list(pool.map(one, range(5)))

    bench.run(work)
    assert (bench.ended, most) == ([(None, [0, 1, 2, 3, 4])], 3)


def test_what_a_thread_raises_is_raised_where_its_answer_is_asked_for() -> None:
    bench = Bench()

    def work() -> None:
        with Threads(1) as pool:
            pool.submit(lambda: 1 / 0).result()

    bench.run(work)
    assert isinstance(bench.ended[0][0], ZeroDivisionError)
