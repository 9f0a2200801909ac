"""What the roles of the stack call, as end-to-end tests, `verify` and the demo show it.

`make role-calls` runs these, and writes `tests/role_calls.jsonl`. In the record each kind of call
stands once: resources have their names in the template in place of those in AWS, and `…` stands for
what differs from job to job. `tests/cdk/test_needed_statements.py` judges it again.
"""

import json
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import uuid4

from longhaul.local.iam.gate import RECORD

_FOLDER: Final = "RECORD_ROLE_CALLS"
"""The environment variable with the folder that takes what the gates recorded."""
_TEMPLATE: Final = "Longhaul.template.json"
FILE: Final = Path(__file__).with_suffix(".jsonl")
ANY: Final = "…"

# Prefixes of keys in the data bucket that mean something to a policy.
_FOLDERS: Final = re.compile(r"(?:longhaul/\w+/|tables/|catalogue/)?")
_ENDS: Final = re.compile(r"(?:/_SUCCESS)?$")
_NAMES: Final = {
    "AWS::SQS::Queue": "QueueName",
    "AWS::StepFunctions::StateMachine": "StateMachineName",
}
# Of a resource's ARN, what AWS or a producer chose: the part in brackets, in each service's form.
_CHOSEN: Final = tuple(
    re.compile(pattern)
    for pattern in (
        r":execution:<[^>]+>:(.+)",
        r":task/<[^>]+>/(.+)",
        r":task-definition/[\w-]+:(\d+)",
        r":container-instance/<[^>]+>/(.+)",
        r"/jobruns/(.+)",
        r":table/\w+/(.+)",
        r":log-stream:(.+)",
    )
)


# The rows, queues and roles of any stage stand as those of the stage `main`.
_OTHER_KEYS: Final = {"slots", "join"}
_QUEUE: Final = re.compile(r"<\w+Queue(Jobs|DeadLetters)>")
_ROLE: Final = re.compile(r"<(Spark|Lambda|EmrServerless)[A-Z]\w*?(TaskRole|JobRole|Function)>")


class RoleCall(NamedTuple):
    role: str
    action: str
    resource: str
    context: Mapping[str, str | list[str]]


def keep(work_dir: Path, assembly: Path) -> None:
    """Keep what an embedded AWS recorded, with the template that it had, if a record is made."""
    record = work_dir / RECORD
    if (folder := os.environ.get(_FOLDER)) and record.exists():
        kept = Path(folder) / uuid4().hex
        kept.mkdir(parents=True)
        shutil.copy(record, kept)
        shutil.copy(assembly / _TEMPLATE, kept)


def recorded() -> list[RoleCall]:
    """The record of the repository."""
    return [RoleCall(**json.loads(line)) for line in FILE.read_text("utf-8").splitlines()]


def read(kept: Iterable[Path]) -> list[RoleCall]:
    """The allowed calls of kept records, each kind once, with the contexts of all of its kind.

    Lists of a context are united: a condition on all values of a list (`ForAllValues`) holds for
    the union where it holds for each.
    """
    kinds: dict[tuple[Any, ...], dict[str, Any]] = {}
    for folder in kept:
        names = _Names(json.loads((folder / _TEMPLATE).read_text("utf-8"))["Resources"])
        for line in (folder / RECORD).read_text("utf-8").splitlines():
            entry = json.loads(line)
            if not entry["allowed"]:
                continue
            call = names.readable(RoleCall(**{each: entry[each] for each in RoleCall._fields}))
            plain = {k: v for k, v in call.context.items() if isinstance(v, str)}
            lists = {k: v for k, v in call.context.items() if not isinstance(v, str)}
            kind = (*call[:3], json.dumps(plain, sort_keys=True), *sorted(lists))
            united = kinds.setdefault(kind, dict(call.context))
            for key, values in lists.items():
                united[key] = sorted({*united[key], *values})
    return [RoleCall(*kind[:3], dict(sorted(kinds[kind].items()))) for kind in sorted(kinds)]


class _Names:
    """Names of a stack's resources in AWS → their names in the template."""

    def __init__(self, resources: Mapping[str, Any]) -> None:
        self._patterns = list(self._patterns_of(resources))

    @staticmethod
    def _patterns_of(resources: Mapping[str, Any]) -> Iterator[tuple[re.Pattern[str], str]]:
        for logical_id, resource in resources.items():
            name = resource.get("Properties", {}).get(_NAMES.get(resource["Type"], ""))
            # S3 has names in lower case.
            physical = f"(?<=:){name}" if name else f"(?i:Longhaul-{logical_id}-\\w+)"
            readable = re.sub(r"[0-9A-F]{8}$", "", logical_id)
            yield re.compile(f"(?<![\\w-]){physical}(?![\\w-])"), f"<{readable}>"

    def readable(self, call: RoleCall) -> RoleCall:
        role = self._text(call.role).strip("<>")
        context = {
            key: sorted({self._value(key, each) for each in value})
            if isinstance(value, list)
            else self._value(key, value)
            for key, value in call.context.items()
        }
        return RoleCall(role, call.action, self._arn(call.resource), context)

    def _text(self, text: str) -> str:
        for pattern, readable in self._patterns:
            text = pattern.sub(readable, text)
        return _ROLE.sub(r"<\1\2>", _QUEUE.sub(r"<MainQueue\1>", text))

    def _arn(self, arn: str) -> str:
        arn = self._text(arn)
        if arn.startswith("arn:aws:s3:::"):
            bucket, slash, key = arn.partition("/")
            return f"{bucket}{slash}{_key(key)}" if slash else arn
        arn = re.sub(r"/applications/[^/]+", "/applications/<EmrServerlessApplication>", arn)
        for pattern in _CHOSEN:
            if (found := pattern.search(arn)) is not None:
                arn = f"{arn[: found.start(1)]}{ANY}{arn[found.end(1) :]}"
        return arn

    def _value(self, key: str, value: str) -> str:
        if key == "dynamodb:LeadingKeys":
            kind, mark, _ = value.partition("#")
            return f"{kind}#main" if kind in _OTHER_KEYS else f"main#{ANY}" if mark else value
        if key in {"s3:prefix", "s3:x-amz-copy-source"}:
            return _key(value)
        if key == "s3:if-match":
            return ANY
        return self._text(value)


def _key(key: str) -> str:
    """Of a key in a bucket, what a policy may tell apart."""
    first, last = _FOLDERS.match(key), _ENDS.search(key)
    return f"{first[0] if first else ''}{ANY}{last[0] if last else ''}"


def written(calls: Iterable[RoleCall]) -> str:
    """The content of `FILE`."""
    return "".join(json.dumps(call._asdict(), ensure_ascii=False) + "\n" for call in calls)


if __name__ == "__main__":
    FILE.write_text(written(read(sorted(Path(sys.argv[1]).iterdir()))), "utf-8")
