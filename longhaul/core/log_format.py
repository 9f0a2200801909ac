"""The format of a function's log lines: JSON, and nothing of a message."""

import traceback
from types import TracebackType
from typing import Any

from aws_lambda_powertools.logging.formatter import LambdaPowertoolsFormatter
from botocore.exceptions import ClientError

from longhaul.core.errors import LonghaulError, causes_of

_MAX_TEXT = 300
_QUOTES_ARGUMENTS = ("Validation", "Invalid", "Serialization")


class LogFormat(LambdaPowertoolsFormatter):
    """Writes errors as their classes and frames, without texts that may quote a message.

    Python's and the SDK's errors quote the value that they stumble over. Our own quote none, and of
    AWS's only those about a wrong argument do.
    """

    def __init__(self) -> None:
        super().__init__(serialize_stacktrace=False)

    def formatException(  # noqa: N802 - logging's own name
        self,
        ei: tuple[type[BaseException], BaseException, TracebackType | None]
        | tuple[None, None, None],
    ) -> str:
        lines = []
        for error in causes_of(ei[1]) if ei[1] is not None else ():
            lines.append(_error_text(error))
            lines += [
                f"  {frame.filename}:{frame.lineno} {frame.name}"
                for frame in traceback.extract_tb(error.__traceback__)
            ]
        return "\n".join(lines)


def _error_text(error: BaseException) -> str:
    name = type(error).__name__
    if isinstance(error, LonghaulError):
        return f"{name}: {error}"
    if isinstance(error, ClientError):
        answer: dict[str, Any] = dict(error.response.get("Error", {}))
        code, text = str(answer.get("Code", "")), str(answer.get("Message", ""))
        quoted = "" if code.startswith(_QUOTES_ARGUMENTS) else f": {text[:_MAX_TEXT]}"
        return f"{name}: {code} at {error.operation_name}{quoted}"
    return name
