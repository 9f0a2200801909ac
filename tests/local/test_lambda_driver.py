import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from longhaul.local import lambda_driver
from longhaul.local.cloud import EmbeddedAws
from tests.local.support import ROLE, eventually, function

CODE = """
    import json, os, pathlib, signal, threading, time

    def echo(event, context):
        return {
            "event": event,
            "pid": os.getpid(),
            "name": context.function_name,
            "arn": context.invoked_function_arn,
            "left_ms": context.get_remaining_time_in_millis(),
            "env": dict(os.environ),
        }

    def meet(event, context):
        # Returns when as many invocations run at once as the event says.
        room = pathlib.Path(event["room"])
        (room / str(os.getpid())).touch()
        while len(list(room.iterdir())) < event["guests"]:
            time.sleep(0.01)
        return os.getpid()

    def hang(event, context):
        time.sleep(event.get("seconds", 600))
        return "done"

    def half(event, context):
        return "\\ud800"

    def die(event, context):
        os._exit(7)

    def killed(event, context):
        os.kill(os.getpid(), signal.SIGKILL)

    def tick(event, context):
        def write():
            while True:
                ticks.write("x")
                ticks.flush()
                time.sleep(0.01)

        ticks = open(event["ticks"], "a")
        threading.Thread(target=write, daemon=True).start()
        time.sleep(event["seconds"])
        return os.getpid()

    def fail(event, context):
        with open(event["log"], "a") as log:
            log.write("x")
        raise LookupError("no such row")
"""


TASK = {
    "Type": "AWS::ECS::TaskDefinition",
    "Properties": {
        "Family": "small",
        "ContainerDefinitions": [
            {
                "Name": "job",
                "Image": "any",
                "Memory": 512,
                "Environment": [{"Name": "GIVEN", "Value": "by the template"}],
            }
        ],
    },
}


@pytest.fixture
def invoke(
    aws: EmbeddedAws, assembly: Callable[..., Path], client: Callable[[str], Any]
) -> Callable[..., Any]:
    """`invoke(name, event)` returns the payload and the FunctionError."""
    handlers = {
        "Echo": function(
            "echo",
            FunctionName="echo",
            Environment={"Variables": {"GIVEN": "by the template", "AWS_REGION": "elsewhere"}},
        ),
        "Meet": function(
            "meet",
            FunctionName="meet",
            Environment={"Variables": {"GIVEN": "by the template"}},
        ),
        "Hang": function("hang", FunctionName="hang", Timeout=1),
        "Task": TASK,
        "Die": function("die", FunctionName="die"),
        "Half": function("half", FunctionName="half"),
        "Killed": function("killed", FunctionName="killed"),
        "Tick": function("tick", FunctionName="tick"),
        "Fail": function("fail", FunctionName="fail"),
        "Broken": function("echo", FunctionName="broken", Handler="nowhere.handler"),
    }
    aws.deploy(assembly(handlers, CODE), "Tiny")
    functions = client("lambda")

    def call(name: str, event: Any = None, **options: Any) -> tuple[Any, str | None]:
        response = functions.invoke(FunctionName=name, Payload=json.dumps(event or {}), **options)
        payload = response["Payload"].read()
        return json.loads(payload) if payload else None, response.get("FunctionError")

    return call


def test_function_runs_in_a_warm_process_with_the_context_and_environment_of_lambda(
    aws: EmbeddedAws, invoke: Callable[..., Any]
) -> None:
    first, error = invoke("echo", {"a": 1})
    second, _ = invoke("echo")

    assert error is None
    assert first["event"] == {"a": 1}
    assert second["pid"] == first["pid"]
    assert first["name"] == "echo"
    assert first["arn"].endswith(":function:echo")
    assert 0 < first["left_ms"] <= 20_000
    given = {
        name: first["env"].get(name)
        for name in ("GIVEN", "AWS_REGION", "AWS_ENDPOINT_URL", "AWS_XRAY_SDK_ENABLED")
    }
    assert given == {
        "GIVEN": "by the template",
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": aws.endpoint,
        "AWS_XRAY_SDK_ENABLED": "false",
    }


def test_variable_that_is_changed_holds_from_the_next_invocation_and_task_and_ends_none(
    aws: EmbeddedAws, invoke: Callable[..., Any], client: Callable[[str], Any], tmp_path: Path
) -> None:
    first, _ = invoke("echo")
    room = tmp_path / "room"
    room.mkdir()
    with ThreadPoolExecutor() as threads:
        running = threads.submit(invoke, "meet", {"room": str(room), "guests": 2})
        (pid,) = eventually(lambda: list(room.iterdir()), "the other one runs")
        aws.change_variable("GIVEN", str.upper)
        second, _ = invoke("echo")
        (room / "second").touch()
        assert running.result() == (int(pid.name), None)
    assert second["env"]["GIVEN"] == "BY THE TEMPLATE"
    eventually(lambda: not psutil.pid_exists(first["pid"]), "the process before is gone")
    described = client("ecs").describe_task_definition(taskDefinition="small")
    (container,) = described["taskDefinition"]["containerDefinitions"]
    assert container["environment"] == [{"name": "GIVEN", "value": "BY THE TEMPLATE"}]


def test_environment_is_frozen_between_invocations(
    invoke: Callable[..., Any], tmp_path: Path
) -> None:
    ticks = tmp_path / "ticks"
    event = {"ticks": str(ticks), "seconds": 0}
    pid, _ = invoke("tick", event)
    process = psutil.Process(pid)

    eventually(lambda: process.status() == psutil.STATUS_STOPPED, "the environment is frozen")
    before = ticks.stat().st_size
    time.sleep(0.2)
    assert ticks.stat().st_size == before

    assert invoke("tick", {**event, "seconds": 0.2}) == (pid, None)
    assert ticks.stat().st_size > before


def test_concurrent_invocations_run_in_separate_processes(
    invoke: Callable[..., Any], tmp_path: Path
) -> None:
    room = tmp_path / "room"
    room.mkdir()
    with ThreadPoolExecutor(2) as pool:
        pids = {
            pid
            for pid, _ in pool.map(
                lambda _: invoke("meet", {"room": str(room), "guests": 2}), range(2)
            )
        }

    assert len(pids) == 2


def test_timeout_kills_the_process_and_the_next_invocation_gets_a_new_one(
    invoke: Callable[..., Any],
) -> None:
    payload, error = invoke("hang")

    assert (error, payload["errorType"]) == ("Unhandled", "Sandbox.Timedout")
    assert "Task timed out after 1.00 seconds" in payload["errorMessage"]
    assert invoke("hang", {"seconds": 0}) == ("done", None)


def test_half_of_a_surrogate_pair_is_a_result(invoke: Callable[..., Any]) -> None:
    assert invoke("half") == ("\ud800", None)


@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [
        ("die", "Runtime.ExitError", "Error: Runtime exited with error: exit status 7"),
        ("killed", "Runtime.ExitError", "Error: Runtime exited with error: signal: killed"),
        ("broken", "Runtime.ImportModuleError", ""),  # its handler cannot be imported
    ],
)
def test_a_process_that_cannot_answer_is_an_error_that_says_how(
    invoke: Callable[..., Any], name: str, kind: str, said: str
) -> None:
    payload, error = invoke(name)
    assert (error, payload["errorType"]) == ("Unhandled", kind)
    assert payload["errorMessage"].endswith(said)


def test_a_function_that_is_an_image_runs_beside_the_tasks_and_writes_to_its_log_group(
    aws: EmbeddedAws,
    assembly: Callable[..., Path],
    client: Callable[[str], Any],
    tmp_path: Path,
) -> None:
    (tmp_path / "shouting.py").write_text(
        "import os\n\n\ndef shout(event, context):\n"
        "    print(event['said'])\n    return dict(os.environ)\n"
    )
    image = function("unused", FunctionName="shout", PackageType="Image")
    image["Properties"] |= {
        "Code": {"ImageUri": "123456789012.dkr.ecr.us-east-1.amazonaws.com/jobs:1"},
        "ImageConfig": {"Command": ["shouting.shout"]},
        "LoggingConfig": {"LogGroup": "jobs"},
    }
    aws.deploy(assembly({"Role": ROLE, "Shout": image}, CODE), "Tiny")

    given = client("lambda").invoke(FunctionName="shout", Payload=json.dumps({"said": "hello"}))
    environment = json.loads(given["Payload"].read())

    def lines() -> list[str]:
        stream = environment["AWS_LAMBDA_LOG_STREAM_NAME"]
        found = client("logs").get_log_events(logGroupName="jobs", logStreamName=stream)
        return [each["message"] for each in found["events"]]

    assert Path(environment["TMPDIR"]).is_relative_to(aws.work_dir)
    start, said, end = eventually(lambda: len(lines()) == 3 and lines(), "the log to be shipped")
    assert said == "hello"
    assert start == end.replace("END", "START") + " Version: $LATEST"


def test_exception_is_an_error_with_its_type_and_message_and_is_in_the_log(
    aws: EmbeddedAws, invoke: Callable[..., Any], tmp_path: Path
) -> None:
    payload, error = invoke("fail", {"log": str(tmp_path / "calls")})

    assert (error, payload["errorType"], payload["errorMessage"]) == (
        "Unhandled",
        "LookupError",
        "no such row",
    )
    assert "no such row" in (aws.work_dir / "functions" / "fail.log").read_text()


def test_asynchronous_invocation_is_tried_three_times(
    invoke: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lambda_driver, "ASYNC_RETRY_DELAYS_S", (0.01, 0.01))
    calls = tmp_path / "calls"

    assert invoke("fail", {"log": str(calls)}, InvocationType="Event") == (None, None)

    eventually(lambda: calls.exists() and calls.read_text() == "xxx", "three tries")
