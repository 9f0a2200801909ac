"""Runs a function as Lambda's runtime does: `python lambda_runtime.py MODULE.NAME FILE`.

`lambda_sandbox` has the other end of the socket whose file is given. Errors and lines of the log
are those of `awslambdaric`, which images run on AWS. It imports nothing of this repository: the
function's own code comes first on the path.
"""

import importlib
import json
import logging
import os
import socket
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_FORMAT: Final = "[%(levelname)s]\t%(asctime)s.%(msecs)03dZ\t%(aws_request_id)s\t%(message)s"
# CloudWatch Logs ends an event at a line feed, and shows these as line breaks and indentation.
_LINE_BREAK: Final = "\r"
_INDENT: Final = "\u00a0"


@dataclass(frozen=True)
class Context:
    aws_request_id: str
    invoked_function_arn: str
    deadline_ms: int
    function_name: str = os.environ.get("AWS_LAMBDA_FUNCTION_NAME", "")
    function_version: str = os.environ.get("AWS_LAMBDA_FUNCTION_VERSION", "")
    memory_limit_in_mb: str = os.environ.get("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "")
    log_group_name: str = os.environ.get("AWS_LAMBDA_LOG_GROUP_NAME", "")
    log_stream_name: str = os.environ.get("AWS_LAMBDA_LOG_STREAM_NAME", "")

    def get_remaining_time_in_millis(self) -> int:
        return max(0, self.deadline_ms - int(time.time() * 1000))


class Runtime:
    def __init__(self, sandbox: int) -> None:
        """`sandbox` is the file of the socket to it."""
        os.set_inheritable(sandbox, False)
        self._lines = socket.socket(fileno=sandbox).makefile("rwb")
        self._request_id = ""

    def run(self, name: str) -> None:
        """Load the function, and run one invocation after the other.

        Raises:
            SystemExit: the function cannot be loaded.
        """
        try:
            function = load(name)
        except Exception as error:  # noqa: BLE001 - the sandbox is told
            self._say(self._failure(error), failed=True)
            sys.exit(1)
        self._say("", failed=False)
        for line in self._lines:
            self._run(function, json.loads(line))

    def add_request_id(self, record: logging.LogRecord) -> bool:
        record.aws_request_id = self._request_id
        return True

    def _run(self, function: Callable[[Any, Context], Any], asked: Mapping[str, Any]) -> None:
        self._request_id = asked["request_id"]
        context = Context(self._request_id, asked["function_arn"], asked["deadline_ms"])
        try:
            result = json.dumps(function(json.loads(asked["event"]), context))
        except Exception as error:  # noqa: BLE001 - the sandbox is told
            self._say(self._failure(error), failed=True)
        else:
            self._say(result, failed=False)

    def _failure(self, error: Exception) -> str:
        frames = traceback.extract_tb(error.__traceback__)
        told = {
            "errorMessage": str(error),
            "errorType": getattr(error, "error_type", type(error).__name__),
            "requestId": self._request_id,
            "stackTrace": traceback.format_list(
                [frame for frame in frames if frame.filename != __file__]
            ),
        }
        log_error(told, sys.stdout)
        return json.dumps(told)

    def _say(self, payload: str, *, failed: bool) -> None:
        self._lines.write(json.dumps({"payload": payload, "failed": failed}).encode() + b"\n")
        self._lines.flush()


class LoadError(Exception):
    """The function cannot be loaded, in Lambda's words."""

    def __init__(self, error_type: str, message: str) -> None:
        super().__init__(message)
        self.error_type = f"Runtime.{error_type}"


def load(name: str) -> Callable[[Any, Context], Any]:
    """Raises LoadError, or what the module itself raises."""
    module, _, function = name.rpartition(".")
    try:
        found = importlib.import_module(module.replace("/", "."))
    except ImportError as error:
        said = f"Unable to import module '{module}': {error}"
        raise LoadError("ImportModuleError", said) from error
    if not hasattr(found, function):
        raise LoadError("HandlerNotFound", f"Handler '{function}' missing on module '{module}'")
    loaded: Callable[[Any, Context], Any] = getattr(found, function)
    return loaded


def log_error(error: Mapping[str, Any], sink: Any) -> None:  # noqa: ANN401 - a stream
    """Write an error of the function; one that tells its errors itself replaces this name."""
    lines = [f"[ERROR] {error['errorType']}: {error['errorMessage']}"]
    lines.append("Traceback (most recent call last):")
    for line in "".join(error["stackTrace"]).splitlines():
        text = line.lstrip(" ")
        lines.append(_INDENT * (len(line) - len(text)) + text)
    sink.write(_LINE_BREAK.join(lines) + "\n")


def main() -> None:
    sys.path[0] = str(Path.cwd())
    runtime = Runtime(int(sys.argv[2]))
    logging.Formatter.converter = time.gmtime
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(logging.Formatter(_FORMAT, "%Y-%m-%dT%H:%M:%S"))
    handler.addFilter(runtime.add_request_id)
    logging.getLogger().addHandler(handler)
    runtime.run(sys.argv[1])


if __name__ == "__main__":
    main()
