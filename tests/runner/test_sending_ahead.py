"""What a job has written is uploaded while it goes on; nothing shows before the commit."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from botocore.exceptions import EndpointConnectionError
from pyiceberg.types import LongType

from longhaul.adapters.background import Threads
from longhaul.adapters.clock import SystemClock
from longhaul.adapters.iceberg.catalog import Tables
from longhaul.adapters.lazy_tables import publisher_of
from longhaul.adapters.publisher import S3Publisher, read_manifest
from longhaul.domain.errors import PermanentError
from longhaul.domain.lease import AttemptId
from longhaul.domain.manifest import MANIFEST, Manifest, ManifestFile, PendingOutput
from longhaul.domain.pending import pending_ref
from longhaul.domain.tables import TablePath
from longhaul.domain.transitions import Report
from longhaul.domain.verdict import ExitCode
from longhaul.job import Job
from longhaul.runner.attempt import AttemptRunner
from longhaul.runner.io.sending_ahead import WORTH_IT, AheadEndedError, SendingAhead
from longhaul.runner.io.uploader import Uploader, UploadPlan
from longhaul.runner.io.written import Dataset
from longhaul.runner.on_demand import SparkOnDemand
from longhaul.runner.stopping import Stop, StopReason
from tests.builders import BUCKET
from tests.runner.conftest import Cloud, MakeAttempt
from tests.runner.job_attempts import no_jvm, plain_job

ATTEMPT = AttemptId("main#january", 1767323045000, 1)
ROWS = pa.table({"n": range(3)})
_WITHIN_S = 60


class Watched:
    """S3, whose calls are counted by name, and each may be preceded by something."""

    def __init__(self, s3: Any, before: Callable[[str], None] = lambda _: None) -> None:
        self.s3 = s3
        self.calls: Counter[str] = Counter()
        self.before = before

    def __getattr__(self, name: str) -> Any:
        call = getattr(self.s3, name)
        if name in ("meta", "get_paginator"):
            return call

        def watched(**given: Any) -> Any:
            self.before(name)
            answer = call(**given)
            self.calls[name] += 1
            return answer

        return watched


@pytest.fixture
def attempt(make_attempt: MakeAttempt) -> Callable[..., AttemptRunner]:
    def attempt_(job: Callable[[Job[Any]], object], **changes: Any) -> AttemptRunner:
        stop = changes.pop("stop", None) or Stop()
        values: dict[str, Any] = {"worth_sending_ahead": 1, **changes}
        return make_attempt(
            find_job=lambda *_: plain_job(job),
            spark=SparkOnDemand(no_jvm, stop),
            stop=stop,
            **values,
        )

    return attempt_


def until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + _WITHIN_S
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.01)


def listed(cloud: Cloud) -> PendingOutput | None:
    ref = pending_ref(cloud.lease().id)
    if not cloud.objects(ref):
        return None
    return PendingOutput.model_validate_json(
        cloud.s3.get_object(Bucket=BUCKET, Key=ref)["Body"].read()
    )


def test_a_dataset_is_sent_while_the_job_goes_on_and_nothing_of_it_is_sent_again(
    cloud: Cloud, attempt: Callable[..., AttemptRunner]
) -> None:
    cloud.claim(inputs={}, output=f"s3://{BUCKET}/out/")
    s3 = Watched(cloud.s3)

    def run(job: Job[Any]) -> None:
        job.write(ROWS, "first")
        until(lambda: s3.calls["upload_part"] == 1)
        (pending,) = (listed(cloud),)
        assert pending is not None
        assert len(pending.uploads) == 1
        assert pending.manifest is None
        assert cloud.objects("out/") == []
        job.write(ROWS, "second")
        until(lambda: s3.calls["upload_part"] == 2)

    assert attempt(run, s3=s3).run() is ExitCode.OK

    assert (s3.calls["create_multipart_upload"], s3.calls["upload_part"]) == (2, 2)
    manifest, _ = read_manifest(cloud.s3, BUCKET, "out/")
    assert manifest is not None
    assert manifest.rows == {"first": 3, "second": 3}
    assert {file.path.split("/")[0] for file in manifest.files} == {"first", "second"}
    assert cloud.pending_uploads() == []


def test_datasets_of_a_table_and_of_an_output_beside_it_are_sent_ahead(
    cloud: Cloud, tables: Tables, attempt: Callable[..., AttemptRunner]
) -> None:
    path = TablePath("lake", "counts")
    cloud.claim(
        inputs={}, output=str(path), mode="overwrite", outputs={"wrong": f"s3://{BUCKET}/out/"}
    )
    s3 = Watched(cloud.s3)

    def run(job: Job[Any]) -> None:
        job.write(ROWS)
        until(lambda: s3.calls["upload_part"] == 1)
        job.write(ROWS, output="wrong")
        until(lambda: s3.calls["upload_part"] == 2)
        pending = listed(cloud)
        assert pending is not None
        assert len(pending.outputs) == 2

    publisher = S3Publisher(cloud.s3, BUCKET, tables=publisher_of(lambda: tables, SystemClock()))
    code = attempt(run, s3=s3, tables=lambda: tables, publisher=publisher).run()

    assert code is ExitCode.OK
    assert (s3.calls["create_multipart_upload"], s3.calls["upload_part"]) == (2, 2)
    table = tables.load(path)
    assert table is not None
    assert table.scan().to_arrow().num_rows == 3
    assert len(cloud.objects("out/")) == 2  # and the manifest


def test_a_job_that_fails_leaves_nothing_of_what_was_sent_ahead(
    cloud: Cloud, attempt: Callable[..., AttemptRunner]
) -> None:
    cloud.claim(inputs={}, output=f"s3://{BUCKET}/out/")
    creating, may_go_on = threading.Event(), threading.Event()

    def before(call: str) -> None:
        if call == "create_multipart_upload":
            creating.set()
            assert may_go_on.wait(_WITHIN_S)

    def run(job: Job[Any]) -> None:
        job.write(ROWS)
        assert creating.wait(_WITHIN_S)
        raise ValueError("no")

    def record(report: Report) -> Any:
        try:
            return cloud.leases.report(report)
        finally:
            if "result" in report.sets:  # from here on the attempt only clears up
                threading.Timer(0.5, may_go_on.set).start()

    s3 = Watched(cloud.s3, before)
    leases = SimpleNamespace(report=record)
    assert attempt(run, s3=s3, leases=leases, reports=cloud.leases).run() is not ExitCode.OK

    until(lambda: s3.calls["create_multipart_upload"] == 1)
    assert cloud.pending_uploads() == []
    assert cloud.objects("out/") == []


def test_an_error_ahead_is_none_of_the_jobs_and_the_end_sends_all(
    cloud: Cloud, attempt: Callable[..., AttemptRunner]
) -> None:
    cloud.claim(inputs={}, output=f"s3://{BUCKET}/out/")
    failed = threading.Event()

    def before(call: str) -> None:
        if call == "upload_part" and not failed.is_set():
            failed.set()
            raise EndpointConnectionError(endpoint_url="s3")

    def run(job: Job[Any]) -> None:
        job.write(ROWS, "first")
        assert failed.wait(_WITHIN_S)
        job.write(ROWS, "second")

    s3 = Watched(cloud.s3, before)
    assert attempt(run, s3=s3).run() is ExitCode.OK

    manifest, _ = read_manifest(cloud.s3, BUCKET, "out/")
    assert manifest is not None
    assert manifest.rows == {"first": 3, "second": 3}
    # The upload that was begun is the one that is completed.
    assert s3.calls["create_multipart_upload"] == 2


def publish_json(cloud: Cloud, extension: str = "json") -> None:
    """Another job's output at the place of this one's."""
    other = AttemptId("main#other", 1767323045000, 1)
    files = (ManifestFile(path=f"part-0-{other.token}.{extension}", size=1),)
    body = Manifest(key=other.key, run=other.run, attempt=1, files=files).model_dump_json()
    cloud.s3.put_object(Bucket=BUCKET, Key=f"out/{MANIFEST}", Body=body.encode())


def unread() -> pa.RecordBatchReader:
    """A frame that may not be computed."""

    def batches() -> Iterator[pa.RecordBatch]:
        pytest.fail("computed for nothing")
        yield

    return pa.RecordBatchReader.from_batches(ROWS.schema, batches())


@pytest.mark.parametrize("part", [None, "first"])
def test_a_format_that_cannot_be_appended_is_refused_before_anything_is_computed(
    cloud: Cloud, attempt: Callable[..., AttemptRunner], part: str | None
) -> None:
    publish_json(cloud)
    cloud.claim(inputs={}, output=f"s3://{BUCKET}/out/", mode="append")

    def run(job: Job[Any]) -> None:
        job.write(ROWS, "new")
        job.write(unread(), part=part)

    assert attempt(run, worth_sending_ahead=WORTH_IT).run() is ExitCode.PERMANENT


def test_an_output_that_was_replaced_since_takes_its_new_format(
    cloud: Cloud, attempt: Callable[..., AttemptRunner]
) -> None:
    publish_json(cloud)
    cloud.claim(inputs={}, output=f"s3://{BUCKET}/out/", mode="append")

    def run(job: Job[Any]) -> None:
        publish_json(cloud, "parquet")
        job.write(ROWS)

    assert attempt(run, worth_sending_ahead=WORTH_IT).run() is ExitCode.OK


def test_what_can_never_be_published_is_the_end_when_it_is_known(
    cloud: Cloud, attempt: Callable[..., AttemptRunner]
) -> None:
    cloud.claim(inputs={}, output=f"s3://{BUCKET}/out/", mode="append")

    def run(job: Job[Any]) -> None:
        publish_json(cloud)
        job.write(ROWS)
        until(lambda: False)  # for hours

    assert attempt(run).run() is ExitCode.PERMANENT

    result = cloud.lease().attempt.result
    assert result is not None
    assert result.error.startswith(
        "output: mode is append, and dataset '.' holds json files, to which parquet files cannot"
        " be added: "
    )


def test_nothing_more_is_sent_ahead_once_the_platform_wants_the_end(
    cloud: Cloud, attempt: Callable[..., AttemptRunner]
) -> None:
    cloud.claim(inputs={}, output=f"s3://{BUCKET}/out/")
    stop, s3 = Stop(), Watched(cloud.s3)

    def run(job: Job[Any]) -> None:
        stop.before_end()
        job.write(ROWS)
        stop.request(StopReason.TERMINATED, "the end")

    assert attempt(run, stop=stop, s3=s3).run() is not ExitCode.OK
    assert s3.calls["create_multipart_upload"] == 0


def test_a_wait_for_s3_is_none_of_the_jobs_from_its_end_on(
    cloud: Cloud, attempt: Callable[..., AttemptRunner]
) -> None:
    cloud.claim(inputs={}, output=f"s3://{BUCKET}/out/")
    ended, phases = threading.Event(), list[str]()

    def before(_: str) -> None:
        if ended.is_set():
            phases.append(made.progress.phase)

    def run(job: Job[Any]) -> None:
        job.write(ROWS)
        ended.set()

    made = attempt(run, s3=Watched(cloud.s3, before), worth_sending_ahead=WORTH_IT)
    assert made.run() is ExitCode.OK
    assert set(phases) == {"publishing"}


def test_little_is_not_sent_ahead(cloud: Cloud, attempt: Callable[..., AttemptRunner]) -> None:
    cloud.claim(inputs={}, output=f"s3://{BUCKET}/out/")
    s3 = Watched(cloud.s3)

    def run(job: Job[Any]) -> None:
        job.write(ROWS)

    assert attempt(run, s3=s3, worth_sending_ahead=WORTH_IT).run() is ExitCode.OK
    # A list before the parts, one after them, and the manifest.
    assert s3.calls["put_object"] == 2


def test_lists_do_not_grow_with_the_square_of_the_datasets(tmp_path: Path) -> None:
    named: list[int] = []
    ahead = SendingAhead(
        lambda datasets, _: named.append(len(datasets)), _AtOnce(), SystemClock(), Stop(), 2**20
    )
    for number in range(2_000):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "a.parquet").write_bytes(b"x")
        ahead.wrote(Dataset(str(number), folder, 1))

    assert len(named) < 40
    assert sum(named) < 5 * 2_000


def test_what_can_never_be_published_asks_for_the_stop(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"x")
    stop, error = Stop(), PermanentError("json files are there")

    def refuse(*_: object) -> None:
        raise error

    SendingAhead(refuse, _AtOnce(), SystemClock(), stop, 1).wrote(Dataset("first", tmp_path, 1))

    assert (stop.reason, stop.cause) == (StopReason.OUTPUT, error)


class _AtOnce(Threads):
    def after(self, seconds: float, do: Callable[[], None]) -> Any:
        del seconds
        do()


class _Clock(SystemClock):
    def __init__(self) -> None:
        self.at = datetime(2026, 1, 2, tzinfo=UTC)

    def now(self) -> datetime:
        return self.at


def test_an_upload_that_rules_of_the_bucket_may_have_aborted_is_begun_anew(
    cloud: Cloud, tmp_path: Path
) -> None:
    (tmp_path / "a.parquet").write_bytes(b"rows")
    clock, s3 = _Clock(), Watched(cloud.s3)
    begun: list[int] = []
    uploader = Uploader(
        s3,  # type: ignore[arg-type]
        BUCKET,
        Stop(),
        begin=begun.append,
        advance=lambda _: None,
        clock=clock,
    )
    plan = uploader.plan(ATTEMPT, f"s3://{BUCKET}/out/", [Dataset(".", tmp_path, 1)])
    uploader.send_ahead([plan], lambda: None)
    clock.at += timedelta(hours=11)
    uploader.send(plan)
    assert (s3.calls["create_multipart_upload"], s3.calls["upload_part"]) == (1, 1)
    clock.at += timedelta(hours=2)

    output = uploader.send(plan)

    assert (s3.calls["create_multipart_upload"], s3.calls["upload_part"]) == (2, 2)
    assert begun == [0, 4]
    assert len(cloud.pending_uploads()) == 1  # the old one is aborted
    S3Publisher(cloud.s3, BUCKET).publish(output)
    assert len(cloud.objects("out/")) == 2


def test_what_was_begun_ahead_is_listed_when_it_ends_between_two_files(
    cloud: Cloud, tmp_path: Path
) -> None:
    for name in "abc":
        (tmp_path / f"{name}.parquet").write_bytes(b"rows")
    cloud.claim(inputs={}, output=f"s3://{BUCKET}/out/")
    uploader = Uploader(
        cloud.s3,
        BUCKET,
        Stop(),
        begin=lambda _: None,
        advance=lambda _: None,
        background=_OneByOne(),
    )
    asked = iter(range(10))

    def go_on() -> None:
        if next(asked) == 2:
            raise AheadEndedError

    plan = uploader.plan(ATTEMPT, f"s3://{BUCKET}/out/", [Dataset(".", tmp_path, 1)])
    with pytest.raises(AheadEndedError):
        uploader.send_ahead([plan], go_on)
    assert len(cloud.pending_uploads()) == 2

    S3Publisher(cloud.s3, BUCKET).discard(ATTEMPT)

    assert cloud.pending_uploads() == []


class _OneByOne(Threads):
    def run_all(self, tasks: Any, *, at_once: int, within_s: float | None = None) -> Any:
        del at_once, within_s
        return [task() for task in tasks]


def test_the_end_waits_for_what_began_while_another_send_was_ending(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"x")
    begun: list[Callable[[], None]] = []
    sent: list[int] = []

    class Later(Threads):
        def after(self, seconds: float, do: Callable[[], None]) -> Any:
            del seconds
            begun.append(do)

    class Clock(SystemClock):
        def sleep(self, seconds: float) -> None:
            del seconds
            begun.pop()()

    class Lock:
        """Lets another write come right after a send has found that nothing is left."""

        def __enter__(self) -> None:
            self.was_sent = len(sent)

        def __exit__(self, *_: object) -> None:
            if self.was_sent == 1 and not begun:
                ahead._lock = threading.Lock()
                ahead.wrote(Dataset("second", tmp_path, 1))

    ahead = SendingAhead(
        lambda datasets, _: sent.append(len(datasets)), Later(), Clock(), Stop(), 1
    )
    ahead._lock = Lock()  # type: ignore[assignment]
    ahead.wrote(Dataset("first", tmp_path, 1))
    begun.pop()()

    ahead.end()

    assert begun == []


def test_a_job_goes_on_where_no_thread_can_be_had(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"x")

    class NoThreads(Threads):
        def after(self, seconds: float, do: Callable[[], None]) -> Any:
            del seconds, do
            raise RuntimeError("can't start new thread")

    ahead = SendingAhead(lambda *_: None, NoThreads(), SystemClock(), Stop(), 1)
    ahead.wrote(Dataset("first", tmp_path, 1))
    ahead.end()


def test_a_file_whose_column_ids_another_writer_took_meanwhile_is_sent_anew(
    cloud: Cloud, tables: Tables, attempt: Callable[..., AttemptRunner]
) -> None:
    path = TablePath("lake", "counts")
    tables.catalog.create_table(
        ("lake", "counts"), pa.schema([("n", pa.int64())]), path.location(BUCKET)
    )
    cloud.claim(inputs={}, output=str(path), mode="append")
    s3 = Watched(cloud.s3)

    def run(job: Job[Any]) -> None:
        job.write(pa.table({"n": [1], "mine": [10]}))
        until(lambda: s3.calls["upload_part"] == 1)
        table = tables.load(path)
        assert table is not None
        with table.update_schema() as change:
            change.add_column("theirs", LongType())

    publisher = S3Publisher(cloud.s3, BUCKET, tables=publisher_of(lambda: tables, SystemClock()))
    code = attempt(run, s3=s3, tables=lambda: tables, publisher=publisher).run()

    assert code is ExitCode.OK
    table = tables.load(path)
    assert table is not None
    assert table.scan().to_arrow().to_pylist() == [{"n": 1, "theirs": None, "mine": 10}]
    assert cloud.pending_uploads() == []


def test_a_file_that_changed_after_it_was_sent_is_sent_as_it_is_at_the_end(
    cloud: Cloud, tmp_path: Path
) -> None:
    file, s3 = tmp_path / "a.txt", Watched(cloud.s3)
    uploader = Uploader(
        s3,  # type: ignore[arg-type]
        BUCKET,
        Stop(),
        begin=lambda _: None,
        advance=lambda _: None,
    )

    def plan() -> UploadPlan:
        return uploader.plan(ATTEMPT, f"s3://{BUCKET}/out/", [Dataset(".", tmp_path, 1)])

    file.write_bytes(b"first")
    uploader.send_ahead([plan()], lambda: None)
    (tmp_path / "b.txt").write_bytes(b"other")
    (tmp_path / "b.txt").replace(file)
    output = uploader.send(plan())
    S3Publisher(cloud.s3, BUCKET).publish(output)

    (key,) = (key for key in cloud.objects("out/") if not key.endswith(MANIFEST))
    assert cloud.s3.get_object(Bucket=BUCKET, Key=key)["Body"].read() == b"other"
    assert cloud.pending_uploads() == []


def test_a_file_that_is_gone_at_the_end_leaves_no_upload(cloud: Cloud, tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.txt").write_bytes(b"rows")
    uploader = Uploader(cloud.s3, BUCKET, Stop(), begin=lambda _: None, advance=lambda _: None)

    def plan() -> UploadPlan:
        return uploader.plan(ATTEMPT, f"s3://{BUCKET}/out/", [Dataset(".", tmp_path, 1)])

    uploader.send_ahead([plan()], lambda: None)
    (tmp_path / "a.txt").unlink()
    output = uploader.send(plan())

    assert len(cloud.pending_uploads()) == 1
    S3Publisher(cloud.s3, BUCKET).publish(output)
    assert cloud.pending_uploads() == []


def test_the_end_waits_for_what_a_thread_of_the_job_is_about_to_begin(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"x")
    begun: list[Callable[[], None]] = []
    ended = threading.Event()

    class Later(Threads):
        def after(self, seconds: float, do: Callable[[], None]) -> Any:
            del seconds
            assert not ended.is_set()  # it would begin behind the end
            begun.append(do)

    class Clock(SystemClock):
        def sleep(self, seconds: float) -> None:
            if begun:
                begun.pop()()
            else:
                time.sleep(seconds)

    def end() -> None:
        ahead.end()
        ended.set()

    class Slow(SendingAhead):
        def _is_due(self) -> bool:
            found = super()._is_due()
            if not ending.ident:
                ending.start()
                ending.join(0.2)
            return found

    ending = threading.Thread(target=end)
    ahead = Slow(lambda *_: None, Later(), Clock(), Stop(), 1)
    ahead.wrote(Dataset("first", tmp_path, 1))
    ending.join(_WITHIN_S)

    assert ended.is_set()
    assert begun == []
