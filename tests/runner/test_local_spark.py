"""Spark's JVM and the stop of an attempt: each ends the other."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from longhaul.runner.resources import Resources
from longhaul.runner.spark.driver import LocalSpark
from longhaul.runner.spark.gateway import Gateway, GatewayError
from longhaul.runner.spark.session import shuffle_partitions
from longhaul.runner.stopping import Stop, StopReason
from tests.patience import DEADLINE_S

RESOURCES = Resources(cores=1, memory_mib=1536)
WITHIN_S = 20
REPOSITORY = Path(__file__).parents[2]


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


_ASK_A_WORKER = """
import sys
from pathlib import Path

from pyspark.sql import functions

from longhaul.runner.resources import Resources
from longhaul.runner.spark.gateway import Gateway
from longhaul.runner.spark.session import build_session, session_options

resources, scratch = Resources(1, 1024), Path(sys.argv[1])
gateway = Gateway(scratch, resources)
try:
    gateway.attach()
    spark = build_session("interpreter", session_options(resources, scratch))
    interpreter = functions.udf(lambda _: sys.executable)
    print(spark.range(1).select(interpreter("id")).first()[0])
finally:
    gateway.stop()
"""


# In a process of its own: the context of a process asks for the interpreter when it starts.
def test_python_workers_run_the_runners_interpreter_whatever_path_says(tmp_path: Path) -> None:
    other = tmp_path / "bin" / "python3"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\necho 'the first python3 of PATH was run' >&2\nexit 3\n")
    other.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_")}
    done = subprocess.run(
        [sys.executable, "-c", _ASK_A_WORKER, str(tmp_path)],
        env=kept | {"PATH": f"{other.parent}{os.pathsep}{os.environ['PATH']}"},
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.stdout == f"{sys.executable}\n", done.stderr


def test_no_other_program_of_the_machine_reaches_a_driver(spark: Any) -> None:
    jvm = spark._jvm
    conf = jvm.org.apache.spark.SparkConf(False)
    companion = getattr(getattr(jvm.org.apache.spark, "SecurityManager$"), "MODULE$")
    defaults = [getattr(companion, f"$lessinit$greater$default${n}")() for n in (2, 3)]
    without_secret = jvm.org.apache.spark.SecurityManager(conf, *defaults)
    stranger = jvm.org.apache.spark.rpc.RpcEnv.create(
        "stranger", "127.0.0.1", 0, conf, without_secret, True
    )
    driver = jvm.org.apache.spark.rpc.RpcAddress(
        "127.0.0.1", int(spark.conf.get("spark.driver.port"))
    )
    try:
        with pytest.raises(Py4JJavaError, match="awaitResult"):
            stranger.setupEndpointRef(driver, "HeartbeatReceiver")
    finally:
        stranger.shutdown()
        stranger.awaitTermination()
