"""The platform's parts: template, mapping, SDK, hosts, events and processes in virtual time."""

import json
import random
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.config import Config
from botocore.exceptions import ReadTimeoutError

from simulation.aws.clock import VirtualClock
from simulation.aws.cloud import FakeAws
from simulation.aws.platform.hosts import Host
from simulation.aws.platform.sdk import Sdk
from simulation.aws.platform.timeline import Timeline
from simulation.aws.platform.triggers import EventSourceMapping, items_to_keep
from simulation.aws.template import deployed
from simulation.worlds.injection import Injector
from simulation.worlds.plan import Fault, Plan
from simulation.worlds.stages import queues_of, stages_of

FOUR_TRIES = Config(read_timeout=5, retries={"mode": "standard", "max_attempts": 3})


class Bench:
    """A host, and a bucket that it writes to."""

    def __init__(self, *faults: Fault) -> None:
        self.timeline = Timeline(VirtualClock())
        self.aws = FakeAws(self.timeline.clock)
        self.aws.s3.create_bucket(Bucket="b")
        self.saw: list[str] = []
        injector = Injector(Plan(faults=faults), self.timeline)
        self.sdk = Sdk(
            self.aws,
            self.timeline,
            injector,
            lambda call, _host: self.saw.append(call.operation),
            lambda *_: None,
        )
        self.host = Host(self.timeline, "host", random.Random(1))
        self.ended: list[Any] = []

    def put(self, key: str = "k") -> None:
        self.sdk.client("s3", config=FOUR_TRIES).put_object(Bucket="b", Key=key, Body=b"")

    def run(self, work: Any) -> None:
        self.host.run(work, lambda *end: self.ended.append(end))
        while self.timeline.step(self.timeline.clock.now().replace(year=2027)):
            pass


def test_settings_and_state_machine_are_those_of_the_template() -> None:
    stack = deployed()
    assert {name: function.timeout_s for name, function in stack.functions.items()} == {
        "dispatcher": 75,
        "heartbeat": 30,
        "settle": 900,
        "sweeper": 300,
    }
    assert (stack.batch_size, stack.concurrency) == (10, 5)
    assert stack.settings.stages[0].queue_url.endswith("/Longhaul-main-jobs")
    assert '"StartAt":"RunUnderLease"' in stack.definition


def test_stages_of_a_pipeline_have_queues_like_those_of_the_first() -> None:
    stack = deployed()
    main, clean, joining = stages_of(stack.settings.stages[0], Plan(clean_slots=2))
    assert [stage.next for stage in (main, clean, joining)] == [("clean",), ("sum",), ()]
    queues = queues_of(stack.queues, (main, clean, joining), retention_s=0)
    for stage in (main, clean, joining):
        name = stage.queue_url.rpartition("/")[2]
        assert queues[name].keys() == stack.queues["Longhaul-main-jobs"].keys()
        dead_letters = json.loads(queues[name]["RedrivePolicy"])["deadLetterTargetArn"].rpartition(
            ":"
        )[2]
        assert (
            dead_letters
            == stage.dead_letter_queue_url.rpartition("/")[2]
            == f"Longhaul-{stage.name}-dead-letters"
        )
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
def test_mapping_keeps_listed_messages_and_all_for_an_unknown_response(
    answer: Any, kept: set[str]
) -> None:
    assert items_to_keep(answer, ["a", "b"]) == kept


def test_poll_of_a_busy_queue_is_not_put_off_by_what_happens_in_it() -> None:
    timeline, polled = Timeline(VirtualClock()), []
    began = timeline.clock.now()
    queue: Any = SimpleNamespace(url="q", shows_next_at=lambda: timeline.clock.now().timestamp())

    def receive_message(**_arguments: Any) -> dict[str, Any]:
        polled.append(timeline.clock.now())
        return {}

    platform: Any = SimpleNamespace()
    mapping = EventSourceMapping(
        label="",
        seed=1,
        timeline=timeline,
        sqs=SimpleNamespace(receive_message=receive_message),
        queue=queue,
        platform=platform,
        batch_size=10,
        concurrency=1,
    )
    for n in range(20):
        timeline.after(n * 0.01, mapping.look)
    while timeline.step(began + timedelta(seconds=0.15)):
        pass
    assert polled


def test_sdk_gives_up_after_its_tries() -> None:
    bench = Bench(Fault("host", 1, "lost/after/all"))
    began = bench.timeline.clock.now()
    bench.host.run(bench.put, lambda *end: bench.ended.append((bench.timeline.clock.now(), *end)))
    while not bench.ended:
        bench.timeline.step(began.replace(year=2027))
    at, error, _ = bench.ended[0]
    assert isinstance(error, ReadTimeoutError)
    assert bench.saw == ["PutObject"] * 4
    assert 20 <= (at - began).total_seconds() <= 20 + 1 + 2 + 4


@pytest.mark.parametrize(("kind", "written"), [("crash/before", []), ("crash/after", ["k"])])
def test_crashed_host_makes_no_more_calls(kind: str, written: list[str]) -> None:
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
