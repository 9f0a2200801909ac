import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from moto.logs.models import logs_backends

from longhaul.local.ecs_driver import METADATA_VARIABLE, EcsDriver, TaskEnd, TaskSpec
from tests.local.support import ACCOUNT, REGION, Observer, ecs_driver, eventually, process_runs

SIZE: dict[str, Any] = {"vcpu": 1.0, "memory_mib": 4096}


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[EcsDriver]:
    with ecs_driver("http://127.0.0.1:1", work_dir=tmp_path / "work", cwd=tmp_path) as made:
        yield made
    logs_backends[ACCOUNT][REGION].reset()


def spec(code: str, task: str = "t1", **properties: Any) -> TaskSpec:
    cluster = f"arn:aws:ecs:{REGION}:123456789012:cluster/jobs"
    arn = f"arn:aws:ecs:{REGION}:123456789012:task/jobs/{task}"
    given: dict[str, Any] = {
        "family": "small",
        "revision": 3,
        "container": "job",
        "command": ("python", "-c", code),
        "stop_timeout_s": 1,
    }
    return TaskSpec(arn=arn, cluster_arn=cluster, **(given | properties))


def run(driver: EcsDriver, task: TaskSpec) -> TaskEnd:
    """Run a task to its end."""
    driver.run(task, observer := Observer[TaskEnd]())
    return observer.wait()


def log_line(driver: EcsDriver, task: TaskSpec) -> str:
    log = driver.log_of(task.arn)
    return str(eventually(lambda: log.exists() and log.read_text().strip(), "the task prints"))


def test_metadata_of_a_task_has_its_arn_and_limits(driver: EcsDriver) -> None:
    task = spec("import os; print(os.environ[M])".replace("M", repr(METADATA_VARIABLE)), **SIZE)
    assert run(driver, task).exit_code == 0

    address = driver.log_of(task.arn).read_text().strip()

    metadata = json.loads(driver.metadata(urlsplit(f"{address}/task").path) or "")
    assert (metadata["TaskARN"], metadata["Cluster"]) == (task.arn, task.cluster_arn)
    assert (metadata["Family"], metadata["Revision"]) == ("small", "3")
    assert metadata["Limits"] == {"CPU": 1.0, "Memory": 4096}


def test_a_task_without_room_for_its_files_ends(driver: EcsDriver) -> None:
    task = spec("print(1)")
    driver.log_of(task.arn).parent.mkdir(parents=True)
    driver.log_of(task.arn).with_suffix(".tmp").write_text("in its place")
    assert run(driver, task).stop_code == "TaskFailedToStart"


GREEDY = "import time; held = bytearray(b'x') * (300 << 20); time.sleep(60)"


def test_task_with_more_memory_than_its_size_is_killed_in_the_words_of_ecs(
    driver: EcsDriver,
) -> None:
    end = run(driver, spec(GREEDY, memory_mib=200))
    assert (end.stop_code, end.exit_code) == ("EssentialContainerExited", 137)
    assert end.container_reason == "OutOfMemoryError: Container killed due to memory usage"


def test_largest_process_of_a_task_is_killed_and_its_parent_can_say_so(driver: EcsDriver) -> None:
    task = spec(
        "import subprocess, sys; "
        f"code = subprocess.run([sys.executable, '-c', {GREEDY!r}], process_group=0).returncode; "
        "sys.exit(99 if code == -9 else 1)",
        memory_mib=200,
    )
    end = run(driver, task)
    assert (end.exit_code, end.container_reason is not None) == (99, True)


def test_memory_that_processes_share_and_files_that_they_map_count_once_or_not_at_all(
    driver: EcsDriver, tmp_path: Path
) -> None:
    (tmp_path / "large").write_bytes(bytes(300 << 20))
    task = spec(
        "import mmap, os, time; held = bytearray(b'x') * (120 << 20); "
        "file = mmap.mmap(os.open('large', os.O_RDONLY), 0, prot=mmap.PROT_READ); "
        "touched = sum(file[n] for n in range(0, len(file), 4096)); "
        "child = os.fork(); time.sleep(1.5); child and os.wait()",
        memory_mib=200,
    )
    end = run(driver, task)
    assert (end.exit_code, end.container_reason) == (0, None)


def test_task_gets_its_own_environment_only(
    driver: EcsDriver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "production")
    task = spec(
        "import json, os; print(json.dumps([dict(os.environ), os.getcwd()]))",
        environment={"GIVEN": "by the task"},
    )
    run(driver, task)

    environment, cwd = json.loads(driver.log_of(task.arn).read_text())

    assert Path(cwd) == tmp_path
    assert environment["GIVEN"] == "by the task"
    assert environment["AWS_ENDPOINT_URL"] == "http://127.0.0.1:1"
    assert "AWS_PROFILE" not in environment


def test_first_process_of_a_task_is_asked_to_end_and_all_are_killed_after_its_stop_timeout(
    driver: EcsDriver,
) -> None:
    task = spec(
        "import os, signal, time; "
        "signal.signal(signal.SIGTERM, lambda *_: print('asked', flush=True)); "
        "os.fork() and print('up', flush=True); time.sleep(600); time.sleep(600)"
    )
    driver.run(task, observer := Observer[TaskEnd]())
    log_line(driver, task)

    driver.stop(task.arn, "enough")

    end = observer.wait()
    assert (end.stop_code, end.reason, end.exit_code) == ("UserInitiated", "enough", 137)
    assert driver.log_of(task.arn).read_text() == "up\nasked\n"
    assert (end.at - observer.starts[0]).total_seconds() >= 1


def group_of(driver: EcsDriver, task: TaskSpec) -> int:
    running = driver._runs[task.arn]
    with running.lock:  # a task that prints already may not be noted yet
        assert running.process is not None
        return running.process.pid


@pytest.mark.parametrize("ends", ["by itself", "stopped", "killed"])
def test_temporary_files_of_a_task_go_with_it_however_it_ends(
    driver: EcsDriver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    monkeypatch.setenv("TMPDIR", str(shared))
    task = spec(
        "import tempfile, time; from pathlib import Path; "
        "scratch = Path(tempfile.mkdtemp()); (scratch / 'input').write_text('rows'); "
        f"print(scratch, flush=True); time.sleep({0 if ends == 'by itself' else 600})"
    )
    driver.run(task, observer := Observer[TaskEnd]())
    scratch = Path(log_line(driver, task))
    if ends == "stopped":
        driver.stop(task.arn, "enough")
    elif ends == "killed":
        os.killpg(group_of(driver, task), signal.SIGKILL)

    observer.wait()

    assert not scratch.exists()
    assert list(shared.iterdir()) == []
    assert not driver.log_of(task.arn).with_suffix(".tmp").exists()


def test_command_that_does_not_exist_is_a_task_that_failed_to_start(driver: EcsDriver) -> None:
    driver.run(spec("", command=("no-such-command",)), observer := Observer[TaskEnd]())

    end = observer.wait()

    assert (end.stop_code, end.exit_code, observer.starts) == ("TaskFailedToStart", None, [])
    assert "no-such-command" in end.reason


def test_closing_stops_every_task(driver: EcsDriver) -> None:
    tasks = [
        spec("import os, time; print(os.getpid(), flush=True); time.sleep(600)", task=f"t{number}")
        for number in range(3)
    ]
    observers = [Observer[TaskEnd]() for _ in tasks]
    for task, observer in zip(tasks, observers, strict=True):
        driver.run(task, observer)
    pids = [int(log_line(driver, task)) for task in tasks]

    driver.close()

    assert [end.exit_code for observer in observers for end in observer.ends] == [143, 143, 143]
    assert not any(process_runs(pid) for pid in pids)
    with pytest.raises(RuntimeError, match="the embedded AWS is stopping"):
        driver.run(spec("", task="late"), Observer[TaskEnd]())


def test_log_of_a_task_is_complete_in_cloudwatch_when_its_end_is_reported(
    driver: EcsDriver,
) -> None:
    code = "print('one'); print('two \\x1b[31m'); print('no newline', end='')"
    task = spec(code, log_group="jobs", log_prefix="job")
    run(driver, task)
    stream = logs_backends[ACCOUNT][REGION].groups["jobs"].streams["job/job/t1"]
    assert [event.message for event in stream.events] == ["one", "two \x1b[31m", "no newline"]


def test_log_of_a_task_can_be_followed_while_it_runs(driver: EcsDriver) -> None:
    observer = Observer[TaskEnd]()
    task = spec(
        "import time; print('begun', flush=True); time.sleep(60)",
        log_group="jobs",
        log_prefix="job",
        stop_timeout_s=1,
    )
    driver.run(task, observer)
    stream = eventually(
        lambda: logs_backends[ACCOUNT][REGION].groups["jobs"].streams["job/job/t1"].events, "a line"
    )
    assert [event.message for event in stream] == ["begun"]
    driver.stop(task.arn, "enough")
    observer.wait()
