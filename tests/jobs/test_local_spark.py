"""Spark's JVM and the stop of an attempt: each ends the other."""

import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that every PySpark text uses

from jobs.resources import Resources
from jobs.spark.gateway import Gateway, GatewayError
from jobs.spark.local import LocalSpark
from jobs.spark.session import shuffle_partitions
from jobs.stopping import Stop, StopReason

RESOURCES = Resources(cores=1, memory_mib=1536)
WITHIN_S = 20


class FakeGateway:
    """A JVM that never answers, until it is stopped or dies."""

    def __init__(self) -> None:
        self.ended = threading.Event()
        self.died: Callable[[int], None] = lambda _: None

    def attach(self) -> None:
        self.ended.wait(WITHIN_S)
        raise GatewayError("the JVM ended")

    def on_death(self, callback: Callable[[int], None]) -> None:
        self.died = callback

    def last_words(self) -> str:
        return "the end"

    def stop(self) -> None:
        self.ended.set()


def running(gateway: Any, scratch: Path, stop: Stop) -> LocalSpark:
    return LocalSpark(gateway, "tests", RESOURCES, scratch, stop, watch_every_s=1.0)


def test_a_stop_ends_the_jvm_and_the_wait_for_the_session(tmp_path: Path) -> None:
    stop, gateway = Stop(), FakeGateway()
    spark = running(gateway, tmp_path, stop)
    stop.request(StopReason.CANCELLED, "cancelled on request")
    assert gateway.ended.is_set()
    with pytest.raises(GatewayError):
        spark.await_session(0)


def test_the_death_of_the_jvm_is_a_stop_with_its_cause(tmp_path: Path) -> None:
    stop, gateway = Stop(), FakeGateway()
    running(gateway, tmp_path, stop)
    gateway.died(134)
    assert (stop.reason, stop.detail) == (
        StopReason.JVM_DIED,
        "Spark's JVM ended with 134: the end",
    )


def test_another_cause_beats_the_jvms_death(tmp_path: Path) -> None:
    stop, gateway = Stop(), FakeGateway()
    running(gateway, tmp_path, stop)
    stop.request(StopReason.TERMINATED, "SIGTERM")
    gateway.died(143)
    assert stop.reason is StopReason.TERMINATED


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    gateway = Gateway(tmp_path, Resources(1, 1024))
    yield gateway
    gateway.stop()


def test_a_jvm_that_ends_before_it_answers_is_an_error_at_once(gateway: Gateway) -> None:
    heard: list[int] = []
    noticed = threading.Event()
    gateway.on_death(lambda code: (heard.append(code), noticed.set()))
    gateway._process.kill()
    with pytest.raises(GatewayError, match="the JVM ended with -9"):
        gateway.attach(WITHIN_S)
    assert noticed.wait(WITHIN_S)
    assert heard == [-9]


def test_a_jvm_that_was_stopped_on_purpose_has_not_died(gateway: Gateway) -> None:
    heard: list[int] = []
    gateway.on_death(heard.append)
    gateway.stop()
    watch = next((thread for thread in threading.enumerate() if thread.name == "jvm-watch"), None)
    if watch is not None:
        watch.join(WITHIN_S)
    assert heard == []


@pytest.mark.parametrize(
    ("cores", "mib", "expected"),
    [
        (2, 0, 8),
        (2, 1, 2),
        (4, 1, 4),
        (2, 500, 8),
        (2, 513, 10),
        (4, 100 * 1024, 1600),
        (16, 1_000_000, 4000),
    ],
)
def test_shuffles_are_cut_by_the_size_of_the_input_in_whole_rounds_of_the_cores(
    cores: int, mib: int, expected: int
) -> None:
    assert shuffle_partitions(cores, mib * 1024 * 1024) == expected


def test_python_workers_run_the_runners_interpreter_whatever_path_says(spark: SparkSession) -> None:
    interpreter = F.udf(lambda _: sys.executable)
    rows = spark.range(1).select(interpreter("id").alias("of")).collect()
    assert [row["of"] for row in rows] == [sys.executable]
