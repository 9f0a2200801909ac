"""Inputs that come while the job runs."""

import json
import pickle
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from botocore.exceptions import ClientError

from longhaul.adapters.saved_work import S3SavedWork
from longhaul.domain.job_kinds import JobKind
from longhaul.domain.manifest import MANIFEST, Manifest, ManifestFile
from longhaul.domain.paths import DataPath
from longhaul.domain.verdict import ExitCode
from longhaul.job import Job, Params, Parent, PermanentJobError
from longhaul.runner import attempt as attempts_module
from longhaul.runner.io.incoming import Incoming
from longhaul.runner.io.listing import InputListing, Source, digest_of
from longhaul.runner.io.staged import StagedInput
from longhaul.runner.io.transfer import InputChangingError
from longhaul.runner.io.work_area import DiskArea
from longhaul.runner.loading import FoundJob, LoadedJob
from longhaul.runner.on_demand import SparkOnDemand
from longhaul.runner.reporting import Phase, Progress
from longhaul.runner.running_job import RunningJob
from longhaul.runner.saving import Saving
from longhaul.runner.script import ScriptParams, run_script
from longhaul.runner.spark.sample import SparkSample
from longhaul.runner.stopping import Stop, StopReason, StopRequestedError
from tests.builders import BUCKET
from tests.forks import exit_code, fork
from tests.runner.conftest import Cloud, MakeAttempt
from tests.runner.job_attempts import Attempts, no_jvm, plain_job

SMALL, LARGE = "raw/small.txt", "raw/large.txt"
BEGUN: list[Incoming] = []
"""The inputs that have begun to come in a test."""


@dataclass
class SlowS3:
    """An S3 in which objects come when a test lets them."""

    s3: Any
    gates: dict[str, threading.Event] = field(default_factory=dict)
    instead: dict[str, Callable[[], Exception]] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.s3, name)

    def get_object(self, **given: Any) -> Any:
        if gate := self.gates.get(given["Key"]):
            gate.wait()
        if error := self.instead.get(given["Key"]):
            raise error()
        return self.s3.get_object(**given)

    def hold(self, key: str) -> threading.Event:
        return self.gates.setdefault(key, threading.Event())


@pytest.fixture
def slow(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowS3]:
    monkeypatch.setattr(attempts_module, "_LAST_BYTES_S", 0)
    begin = Incoming.begin

    def noting(self: Incoming, *parts: Any) -> None:
        BEGUN.append(self)
        begin(self, *parts)

    monkeypatch.setattr(Incoming, "begin", noting)
    slow = SlowS3(cloud.s3)
    cloud.s3.put_object(Bucket=BUCKET, Key=SMALL, Body=b"small")
    cloud.s3.put_object(Bucket=BUCKET, Key=LARGE, Body=b"large, and more")
    yield slow
    for gate in slow.gates.values():
        gate.set()
    await_download()
    BEGUN.clear()


Run = Callable[..., ExitCode]


@pytest.fixture
def run(cloud: Cloud, make_attempt: MakeAttempt, slow: SlowS3, tmp_path: Path) -> Run:
    def run_(job: Callable[[Job[Any]], object], stop: Stop | None = None, **parts: Any) -> ExitCode:
        if cloud.leases.load("main#january") is None:
            inputs = {"small": f"s3://{BUCKET}/{SMALL}", "large": f"s3://{BUCKET}/{LARGE}"}
            cloud.claim(inputs=inputs, output=f"s3://{BUCKET}/counts/")
        stop = stop or Stop()
        usual: dict[str, Any] = {
            "find_job": lambda *_: plain_job(job),
            "spark": SparkOnDemand(no_jvm, stop),
            "stop": stop,
            "s3": slow,
            "area": DiskArea(slow, tmp_path / "scratch", {}),  # type: ignore[arg-type]
            "id": cloud.lease().id,
        }
        return make_attempt(**usual | parts).run()

    return run_


def text_of(job: Job[Any], name: str) -> str:
    (file,) = Path(job.input(name)).iterdir()
    return file.read_text()


def write(job: Job[Any], *texts: str) -> None:
    job.write(pa.table({"text": texts}))


def test_a_job_runs_before_its_inputs_are_there_and_waits_for_the_one_that_it_asks_for(
    run: Run, slow: SlowS3
) -> None:
    gate = slow.hold(LARGE)

    def job(job: Job[Any]) -> None:
        small = text_of(job, "small")
        gate.set()  # not before: a job that waited for all would wait for good
        write(job, small, text_of(job, "large"))

    assert run(job) is ExitCode.OK


def test_the_path_of_an_input_waits_as_well(run: Run, slow: SlowS3) -> None:
    gate = slow.hold(LARGE)

    def job(job: Job[Any]) -> None:
        large = job.inputs["large"]
        gate.set()
        (file,) = Path(large.path).iterdir()
        write(job, file.read_text())

    assert run(job) is ExitCode.OK


def test_an_input_that_the_job_does_not_ask_for_is_not_waited_for(
    cloud: Cloud, run: Run, slow: SlowS3
) -> None:
    slow.hold(LARGE)  # for good

    assert run(lambda job: write(job, text_of(job, "small"))) is ExitCode.OK

    manifest = json.loads(cloud.s3.get_object(Bucket=BUCKET, Key="counts/_SUCCESS")["Body"].read())
    assert [each["name"] for each in manifest["origins"][0]["inputs"]] == ["small", "large"]


def refused(code: str) -> Callable[[], Exception]:
    answer: Any = {"Error": {"Code": code, "Message": "no"}, "ResponseMetadata": {}}
    return lambda: ClientError(answer, "GetObject")


@pytest.mark.parametrize("asks", [True, False])
@pytest.mark.parametrize(
    ("code", "exit_code", "text"),
    [
        ("AccessDenied", ExitCode.FAILED, "ClientError: An error occurred (AccessDenied)"),
        ("KMS.DisabledException", ExitCode.FAILED, "(KMS.DisabledException)"),
        ("SlowDown", ExitCode.INTERRUPTED, "(SlowDown)"),
        ("InvalidObjectState", ExitCode.PERMANENT, f"s3://{BUCKET}/{LARGE} is archived"),
    ],
)
def test_an_input_that_cannot_be_brought_is_the_end_whatever_the_job_does(
    cloud: Cloud, run: Run, slow: SlowS3, code: str, exit_code: ExitCode, text: str, *, asks: bool
) -> None:
    gate = slow.hold(LARGE)
    slow.instead[LARGE] = refused(code)
    caught: list[int] = []

    def job(job: Job[Any]) -> None:
        gate.set()
        while True:  # a job that catches what it can, or has other things to do
            try:
                if asks:
                    job.input("large")
            except Exception:  # noqa: BLE001
                caught.append(1)
            time.sleep(0.001)  # for the thread that ends it

    assert run(job) is exit_code

    result = cloud.lease().attempt.result
    assert result is not None
    assert text in result.error
    assert cloud.objects("counts/") == []


def test_a_connection_that_breaks_each_time_is_no_fault_of_the_job(
    cloud: Cloud, run: Run, slow: SlowS3
) -> None:
    slow.instead[LARGE] = lambda: ConnectionResetError(104, "Connection reset by peer")

    assert run(lambda job: job.input("large")) is ExitCode.INTERRUPTED

    result = cloud.lease().attempt.result
    assert result is not None
    assert "Connection reset by peer" in result.error


def test_a_full_disk_is_the_end_of_a_job_that_waits(run: Run, slow: SlowS3) -> None:
    slow.instead[LARGE] = lambda: OSError(28, "No space left on device")

    assert run(lambda job: job.input("large")) is ExitCode.OUT_OF_DISK


@pytest.mark.parametrize(
    ("reason", "exit_code"),
    [
        (StopReason.TERMINATED, ExitCode.INTERRUPTED),
        (StopReason.SUPERSEDED, ExitCode.SUPERSEDED),
        (StopReason.CANCELLED, ExitCode.INTERRUPTED),
    ],
)
def test_a_stop_wakes_a_job_that_waits(
    run: Run, slow: SlowS3, reason: StopReason, exit_code: ExitCode
) -> None:
    slow.hold(LARGE)  # for good
    stop = Stop()

    def job(job: Job[Any]) -> None:
        threading.Thread(target=stop.request, args=(reason, "stop")).start()
        job.input("large")

    assert run(job, stop) is exit_code


def assert_stored_for_what_was_read(cloud: Cloud) -> None:
    """The record names the large input as it is now: `others`."""
    seen = cloud.lease().saved_ref
    assert seen is not None
    record = S3SavedWork(cloud.s3, BUCKET).load(seen)
    assert record is not None
    now = cloud.s3.head_object(Bucket=BUCKET, Key=LARGE)["ETag"]
    assert record.reads["large"] == digest_of([Source(BUCKET, LARGE, 6, etag=now)])


def test_an_input_that_changes_before_the_job_asks_for_it_is_read_as_it_is_then(
    cloud: Cloud, run: Run, slow: SlowS3
) -> None:
    gate = slow.hold(LARGE)

    def gone() -> Exception:
        del slow.instead[LARGE]
        return refused("PreconditionFailed")()

    slow.instead[LARGE] = gone

    def job(job: Job[Any]) -> None:
        small = text_of(job, "small")
        cloud.s3.put_object(Bucket=BUCKET, Key=LARGE, Body=b"others")
        gate.set()
        assert text_of(job, "large") == "others"
        write(job, small)
        job.checkpoint("texts", pa.table({"n": [1]}))
        if job.attempt == 1:
            raise RuntimeError("cut off")

    assert run(job) is ExitCode.FAILED
    assert_stored_for_what_was_read(cloud)


def test_an_input_that_is_replaced_before_it_comes_is_listed_as_it_is_then(
    cloud: Cloud, run: Run, slow: SlowS3
) -> None:
    gate = slow.hold(LARGE)

    def job(job: Job[Any]) -> None:
        cloud.s3.put_object(Bucket=BUCKET, Key=LARGE, Body=b"others")
        gate.set()
        write(job, text_of(job, "large"))

    assert run(job) is ExitCode.OK
    manifest = json.loads(cloud.s3.get_object(Bucket=BUCKET, Key="counts/_SUCCESS")["Body"].read())
    (large,) = (each for each in manifest["origins"][0]["inputs"] if each["name"] == "large")
    assert large["etag"] == cloud.s3.head_object(Bucket=BUCKET, Key=LARGE)["ETag"]


def test_an_input_that_others_replace_before_it_comes_has_no_parent_any_more(
    cloud: Cloud, run: Run, slow: SlowS3
) -> None:
    manifest, ours = f"clean/{MANIFEST}", "clean/a.txt"
    written = Manifest(key="main#x", run=1, attempt=1, files=(ManifestFile(path="a.txt", size=1),))
    cloud.s3.put_object(Bucket=BUCKET, Key=ours, Body=b"1")
    cloud.s3.put_object(Bucket=BUCKET, Key=manifest, Body=written.model_dump_json().encode())
    cloud.claim(inputs={"large": f"s3://{BUCKET}/clean/"}, output=f"s3://{BUCKET}/counts/")
    gate = slow.hold(ours)

    def job(job: Job[Any]) -> None:
        for key in (manifest, ours):
            cloud.s3.delete_object(Bucket=BUCKET, Key=key)
        cloud.s3.put_object(Bucket=BUCKET, Key="clean/b.txt", Body=b"others")
        gate.set()
        assert text_of(job, "large") == "others"
        assert job.parents == {}
        write(job, "x")

    assert run(job) is ExitCode.OK
    body = cloud.s3.get_object(Bucket=BUCKET, Key="counts/_SUCCESS")["Body"].read()
    (large,) = json.loads(body)["origins"][0]["inputs"]
    assert large["writers"] == []


def test_an_input_of_whose_parent_the_job_knows_may_not_change() -> None:
    incoming, results = Incoming(known(a="1", b="1")), [1, 2, 2]  # replaced while the job looks
    job = running(
        incoming,
        parents_now=lambda: {"a": Parent("a", "main", 1, 1, results.pop(0), {}, {})},
    )
    assert job.parents["a"].result == 2
    assert job.parents["a"].result == 2  # a join has thousands, and looks at each
    assert incoming.replace(known(a="1", b="2"), lambda: None) == {"a", "b"}
    with pytest.raises(InputChangingError, match="'a' has changed since the job began to use it"):
        incoming.replace(known(a="2", b="2"), pytest.fail)


def test_what_is_stored_is_for_an_input_that_changes_while_its_job_begins(
    cloud: Cloud, run: Run, slow: SlowS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = slow.hold(LARGE)

    def gone() -> Exception:
        del slow.instead[LARGE]
        return refused("PreconditionFailed")()

    slow.instead[LARGE] = gone
    read_others = Saving.read_others

    def late(self: Saving, reads: Any) -> None:
        if threading.current_thread() is threading.main_thread():
            cloud.s3.put_object(Bucket=BUCKET, Key=LARGE, Body=b"others")
            gate.set()
            await_download()
        read_others(self, reads)

    monkeypatch.setattr(Saving, "read_others", late)

    def job(job: Job[Any]) -> None:
        job.checkpoint("texts", pa.table({"text": [text_of(job, "large")]}))
        raise RuntimeError("cut off")

    assert run(job) is ExitCode.FAILED
    assert_stored_for_what_was_read(cloud)


def test_an_attempt_that_goes_on_has_all_its_inputs_before_its_job_begins(
    cloud: Cloud, make_attempt: MakeAttempt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud.s3.put_object(Bucket=BUCKET, Key=SMALL, Body=b"small")
    cloud.claim(inputs={"small": f"s3://{BUCKET}/{SMALL}"}, output=f"s3://{BUCKET}/counts/")
    attempts = Attempts(cloud, make_attempt, tmp_path / "attempts", JobKind.PLAIN)
    begun: list[bool] = []
    begin = Incoming.begin

    def noting(self: Incoming, *parts: Any) -> None:
        begun.append(self.has("small"))
        begin(self, *parts)

    monkeypatch.setattr(Incoming, "begin", noting)

    def job(job: Job[Any]) -> None:
        job.state["n"] = job.attempt
        job.save()
        if job.attempt == 1:
            raise RuntimeError("cut off")
        write(job, "x")

    assert attempts.run_found(plain_job(job)) is ExitCode.FAILED
    assert attempts.run_found(plain_job(job)) is ExitCode.OK
    assert begun == [False, True]


def test_a_process_that_the_job_forks_waits_for_its_inputs_as_well(run: Run, slow: SlowS3) -> None:
    gate = slow.hold(LARGE)

    def job(job: Job[Any]) -> None:
        def read() -> None:  # it has none of the runner's threads
            assert text_of(job, "large") == "large, and more"

        child = fork(read)
        gate.set()
        assert exit_code(child) == 0
        write(job, "x")

    assert run(job) is ExitCode.OK


def test_a_process_that_is_forked_while_an_input_arrives_gets_it_as_well() -> None:
    incoming = Incoming.of(known(a="1"))
    with incoming._lock:  # as the download has it
        child = fork(lambda: incoming.await_input("a"), within_s=10)
    assert exit_code(child) == 0


def test_a_process_that_is_forked_while_bytes_arrive_waits_and_says_what_it_does() -> None:
    progress = Progress()

    def wait() -> None:
        with progress.waiting_for_input():
            progress.say("reading")

    with progress._lock:  # as the download has it
        child = fork(wait, within_s=10)
    assert exit_code(child) == 0


def test_an_input_that_a_forked_process_uses_may_not_change() -> None:
    gate, begun = threading.Event(), threading.Event()

    def bring(incoming: Incoming) -> None:
        incoming.arrive("a")
        begun.set()
        gate.wait()

    incoming = Incoming(known(a="1", b="1"), Stop(), bring)
    incoming.begin()
    begun.wait()
    child = fork(lambda: incoming.await_input("a"))
    gate.set()
    assert exit_code(child) == 0
    with pytest.raises(InputChangingError, match="'a' has changed since the job began to use it"):
        incoming.replace(known(a="2", b="1"), pytest.fail)


def test_a_stop_ends_what_is_brought_before_the_job_begins() -> None:
    stop = Stop()

    def bring(incoming: Incoming) -> None:
        stop.request(StopReason.TERMINATED, "stop")
        incoming.halt.check()

    with pytest.raises(StopRequestedError):
        Incoming(known(a="1"), stop, bring).bring()


def running(incoming: Incoming, **parts: Any) -> RunningJob[Any]:
    usual: dict[str, Any] = {
        "params": Params(),
        "output_folder": Path(),
        "progress": lambda *_: None,
        "emitter": None,
    }
    return RunningJob(incoming=incoming, **usual | parts)


def test_the_inputs_of_a_job_are_values() -> None:
    job = running(Incoming.of(known(a="1")))
    a = job.inputs["a"]
    assert a == job.inputs["a"]
    assert "Params" not in repr(job.inputs)  # a job that prints them prints no more than them
    assert pickle.loads(pickle.dumps(a)).path == "a"  # noqa: S301 - our own


def test_an_input_that_has_changed_is_looked_at_once_more() -> None:
    incoming = Incoming(known(a="1"))

    @contextmanager
    def waiting() -> Iterator[None]:
        packed = StagedInput("a", 1, 1, frozenset({"zip"}), "2")
        incoming.replace({"a": packed}, lambda: None)
        incoming.arrive("a")
        yield

    with pytest.raises(PermanentJobError, match=r"Spark does not unpack \.zip files"):
        running(incoming, waiting=waiting).input("a")


def test_a_script_that_names_an_unknown_input_waits_for_none(tmp_path: Path) -> None:
    params = ScriptParams(argv=("{inputs.large}", "--with={inputs.smal}"))
    job = running(Incoming(known(large="1")), params=params, waiting=pytest.fail)
    with pytest.raises(PermanentJobError, match=r"argv: 'smal' is no input .*; given: large"):
        run_script(tmp_path / "script.py", job)


def test_words_of_a_script_name_no_input_together(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import sys\nassert sys.argv[1:] == ['{inputs.a', 'b}']\n")
    params = ScriptParams(argv=("{inputs.a", "b}"))
    run_script(script, running(Incoming({}), params=params, output_folder=tmp_path / "output"))


@dataclass
class ClosingSpark:
    """Fails the download while it ends."""

    spark: SparkOnDemand
    meanwhile: Callable[[], None]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.spark, name)

    def run(self, loaded: LoadedJob, job: RunningJob[Any]) -> None:
        self.spark.run(loaded, job)
        self.meanwhile()


def await_download() -> None:
    for incoming in BEGUN:
        while incoming._is_coming:
            time.sleep(0.01)


def test_an_input_that_cannot_be_brought_while_spark_ends_is_not_needed(
    run: Run, slow: SlowS3
) -> None:
    gate, stop = slow.hold(LARGE), Stop()
    slow.instead[LARGE] = refused("AccessDenied")

    def meanwhile() -> None:
        gate.set()
        await_download()

    spark = ClosingSpark(SparkOnDemand(no_jvm, stop), meanwhile)
    assert run(lambda job: write(job, "x"), stop, spark=spark) is ExitCode.OK


def test_what_fails_before_the_job_is_the_failure_and_not_an_input_after_it(
    run: Run, slow: SlowS3
) -> None:
    gate, stop = slow.hold(LARGE), Stop()
    slow.instead[LARGE] = refused("AccessDenied")

    class Publisher:
        def discard(self, _: object) -> None:
            gate.set()
            await_download()

    def load(*_: object) -> LoadedJob:
        raise PermanentJobError("params.n: wrong")

    found = FoundJob(load, "1", JobKind.PLAIN, needs_session=True)
    parts = {"find_job": lambda *_: found, "publisher": Publisher()}
    assert run(lambda _: None, stop, **parts) is ExitCode.PERMANENT
    assert not stop.requested


def known(**digests: str) -> dict[str, StagedInput]:
    return {name: StagedInput(name, 1, 1, frozenset(), digest) for name, digest in digests.items()}


def test_an_input_that_the_job_uses_may_not_change() -> None:
    incoming = Incoming(known(a="1", b="1"))
    incoming.arrive("a")
    incoming.await_input("a")
    assert incoming.replace(known(a="1", b="2"), lambda: None) == {"b"}
    with pytest.raises(InputChangingError, match="'a' has changed since the job began to use it"):
        incoming.replace(known(a="2", b="2"), pytest.fail)


def test_an_input_that_has_come_and_changed_is_brought_again() -> None:
    incoming = Incoming(known(a="1", b="1"))
    changes = []
    incoming.on_change = lambda: changes.append({**incoming.inputs})
    incoming.arrive("a")
    assert incoming.replace(known(a="2", b="1"), lambda: None) == {"a", "b"}
    assert not incoming.has("a")
    assert changes == [known(a="2", b="1")]


def test_nothing_is_listed_again_for_a_job_that_has_ended() -> None:
    incoming = Incoming(known(a="1"))
    incoming.end()
    with pytest.raises(StopRequestedError):
        incoming.replace(known(a="2"), pytest.fail)


def test_what_the_job_waits_for_comes_before_the_rest() -> None:
    incoming = Incoming(known(a="1", b="1", c="1"))
    assert incoming.next_of(["a", "b", "c"]) == "a"
    waiter = threading.Thread(target=incoming.await_input, args=("c",))
    waiter.start()
    while incoming.next_of(["a", "b", "c"]) != "c":
        pass
    assert incoming.next_of(["a", "b"]) == "a"  # all files of the other are on their way
    incoming.arrive("c")
    waiter.join()
    assert incoming.next_of(["a", "b", "c"]) == "a"


def test_what_a_forked_process_waits_for_comes_before_the_rest_as_well() -> None:
    incoming = Incoming(known(a="1", b="1", c="1"))
    child = fork(lambda: incoming.await_input("c"))
    until = time.monotonic() + 30
    while incoming.next_of(["a", "b", "c"]) != "c":
        assert time.monotonic() < until
    incoming.arrive("c")
    assert exit_code(child) == 0


def test_a_job_that_waits_is_staging_and_only_bytes_are_its_progress() -> None:
    progress, spark = Progress(), SparkSample()
    progress.expect_input(100)
    progress.count_input(20)
    assert (progress.shown_phase, progress.fraction(spark)) == (Phase.STAGING, 0.02)
    progress.enter(Phase.RUNNING)
    with progress.waiting_for_input():
        before = progress.ticks
        assert progress.shown_phase is Phase.STAGING
        assert progress.fraction(spark) == 0.02
        assert progress.ticks == before  # a download that hangs stalls
        progress.count_input(60)
        assert progress.ticks > before
        assert progress.fraction(spark) == 0.08
    assert progress.shown_phase is Phase.RUNNING
    assert progress.fraction(spark) == 0.1
    progress.count_input(20)  # beside the job
    assert progress.fraction(spark) == 0.1


def test_an_error_of_s3_is_not_its_own_cause(tmp_path: Path, slow: SlowS3) -> None:
    """A formatter of logs would follow it for ever."""
    slow.instead[LARGE] = refused("AccessDenied")
    listing = InputListing(slow, BUCKET)  # type: ignore[arg-type]
    area = DiskArea(slow, tmp_path, {})  # type: ignore[arg-type]
    inputs = {"large": DataPath("s3", BUCKET, LARGE)}
    incoming = area.stage(listing, inputs, Stop(), begin=lambda _: None, advance=lambda _: None)
    with pytest.raises(ClientError) as caught:
        incoming.bring()
    assert caught.value.__cause__ is None
