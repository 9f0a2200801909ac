"""A world as seen from outside: messages, objects, tasks, executions and stored rows.

Invariants are checked against this alone. It uses none of the product's code, which may be wrong.
"""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from simulation.aws.ecs.tasks import Task
from simulation.aws.platform.containers import Container, attempt_of
from simulation.aws.platform.hosts import Host
from simulation.aws.s3.client import Contents
from simulation.aws.service import Call
from simulation.aws.sqs.queues import Message
from simulation.aws.stepfunctions.client import Execution
from simulation.seen.asked import Asked, is_sent_by_product
from simulation.seen.families import Families
from simulation.seen.invariants.table import Moment, Violated, violated_by
from simulation.seen.sightings import DeadLetter, SeenAttempt, Sent, Token
from simulation.seen.trace import Row, moment_text, row_text
from simulation.worlds.plan import Job
from simulation.worlds.requests import FORGED
from simulation.worlds.stages import SUM

if TYPE_CHECKING:
    from simulation.worlds.world import World

_TOKEN = re.compile(r"[0-9a-f]{20}-\d+-\d+")


class Seen:
    def __init__(self, world: "World") -> None:
        self.world = world
        self.began_at = self.now
        self.sent: dict[str, Sent] = {}  # by message id
        self.live_by_key: dict[str, dict[str, Sent]] = defaultdict(dict)  # in a queue, by id
        self.names: dict[str, str] = {}  # of the plan's jobs, by key
        self.labels: dict[str, str] = {}  # names of follow-ons in sites, by key
        self.families = Families(self)
        self.dead_letters: list[DeadLetter] = []
        self.published: dict[Token, datetime] = {}
        self.committed: dict[Token, datetime] = {}
        self.prefixes: dict[Token, str] = {}  # of committed outputs, without the bucket
        # Manifests that were put, by prefix.
        self.puts: dict[str, list[tuple[datetime, Token]]] = defaultdict(list)
        self.voided: set[Token] = set()
        self.started: dict[str, Token] = {}  # by execution ARN
        self.attempts: dict[Token, SeenAttempt] = {}
        self.latest: dict[str, int] = {}  # attempt by key
        self.rows: dict[str, Row] = {}  # by key
        self.open_rows: set[str] = set()
        # Receipt handles that a row has had, by key.
        self.handles: dict[str, list[tuple[datetime, str]]] = defaultdict(list)
        self.asked = Asked(self)
        self._when_released: list[Callable[[str], None]] = []
        self.redriven: set[str] = set()
        self.redelivered: set[str] = set()
        self.was_narrowed = False  # settings once allowed less than the requests need
        self.lost: set[str] = set()  # keys whose request or emitted requests were deleted
        self.forged: set[str] = set()  # ids of messages with a lineage that is not theirs
        self.forged_keys: set[str] = set()
        self.owed_since: dict[str, datetime] = {}  # by key
        self.sweeps: list[tuple[datetime, float]] = []  # the age of what is owed, as each put it
        self.is_purging = False
        self.purged_keys: set[str] = set()
        self.mapping_deletes: set[str] = set()
        self.violated: Violated | None = None
        self.texts: dict[str, Token] = {}  # attempts, by the token in the names of their files
        self.manifests: dict[str, Token] = {}  # the present ones, by prefix
        self.named: dict[str, frozenset[str]] = {}  # files in the manifest, by prefix
        self.settling: set[Token] = set()  # attempts whose execution has invoked settle
        self.listed: set[str] = set()  # uploads in a pending list
        # Uploads of each attempt's list, by the keys of their files.
        self.uploads: dict[Token, dict[str, str]] = {}
        # Of attempts released with a handle that holds the message.
        self.retry_at: dict[Token, datetime] = {}
        self.beats: dict[str, datetime] = {}  # the last heartbeat, by the execution's site
        self._watch()

    @property
    def now(self) -> datetime:
        return self.world.timeline.clock.now()

    def _watch(self) -> None:
        world = self.world
        for stage, queue in world.queues.items():
            _after(queue, "add", partial(self._message_added, stage))
            _before(queue, "remove", self._message_removed)
            _after(world.dead_letter_queues[stage], "add", self._dead_letter_added)
        table = world.aws.dynamodb.tables[world.settings.leases_table]
        _after(table, "write", self._row_written)
        world.aws.stepfunctions.status_changed.append(self._execution_changed)
        _after(world.containers, "launched", self._task_placed)
        world.containers.began.append(self._container_began)
        world.containers.is_over.append(self._container_over)
        for mapping in world.mappings.values():
            mapping.deleting.append(lambda message_id: self._check("mapping deletes", message_id))
        world.platform.began.append(self._invocation_began)
        world.platform.failed.append(self.code_failed)

    def call(self, call: Call, host: Host) -> None:
        """A call took effect."""
        if call.service == "s3":
            if call.operation == "PutObject" and call.arguments["Key"].endswith("/_SUCCESS"):
                self._manifest_put(call)
            elif call.operation == "PutObject" and call.arguments["Key"].startswith(
                "longhaul/pending/"
            ):
                self._uploads_listed(json.loads(call.arguments["Body"]))
            elif call.operation == "CompleteMultipartUpload":
                self._check("file shows", call.arguments["Key"])
            elif call.operation == "AbortMultipartUpload":
                self._check("upload aborted", call.arguments["Key"])
            elif call.operation == "DeleteObjects":
                self._check(
                    "files deleted", [each["Key"] for each in call.arguments["Delete"]["Objects"]]
                )
        elif call.service == "sqs" and call.operation in (
            "ChangeMessageVisibility",
            "DeleteMessage",
        ):
            self._check("handle used", (call, host))

    def code_failed(self, error: BaseException) -> None:
        """A handler raised an error, or the product's code logged one."""
        self._check("code failed", error)

    def refused(self, call: Call, host: Host, text: str) -> None:
        if "beyond the limit" in text:
            self._check("extension refused", (call, host))

    def note_narrowed(self) -> None:
        self.was_narrowed = True

    def note_metrics(self, values: Mapping[Any, float], **_dimensions: str) -> None:
        """What a function puts, by name."""
        by_name = {str(name): value for name, value in values.items()}
        if "OldestOwed" in by_name:
            self.sweeps.append((self.now, by_name["OldestOwed"]))

    def note_lost(self, key: str) -> None:
        self.lost.add(key)

    def note_redrive(self, execution: Execution) -> None:
        self.redriven.add(execution.arn)

    def note_redelivery(self, message_id: str) -> None:
        self.redelivered.add(message_id)
        sent = self.sent[message_id]
        self.live_by_key[sent.key][message_id] = sent

    def check_end(self) -> None:
        self._check("the end", None)

    def message_ids_of(self, job: str) -> list[str]:
        return [each.message.id for each in self.sent.values() if each.job == job]

    def when_released(self, do: Callable[[str], None]) -> None:
        """Call `do` once, with the key of the job that is released next."""
        self._when_released.append(do)

    def job_of(self, key: str) -> Job:
        """The planned job of a key."""
        return self.world.jobs[self.names[key]]

    def has_room(self, stage: str) -> bool:
        """Whether no job in that stage ever waits for a slot."""
        keys = sum(key.startswith(f"{stage}#") for key in self.names)
        return keys <= self.world.settings.stage(stage).slots

    def letters_of(self, sent: Sent) -> list[DeadLetter]:
        """Dead letters since its work was asked for.

        Of the same request, or of the same key where the body was lost.
        """
        since = self.asked.at(sent)
        return [
            each
            for each in self.dead_letters
            if each.at >= since
            and (
                each.body == sent.message.body
                or (each.reason.get("key") == sent.key and each.is_for(sent.message.body))
                or (sent.key in self.lost and each.reason.get("key") == sent.key)
            )
        ]

    def success_of(self, key: str, work: int | None = None) -> Token | None:
        """The latest attempt that published, of that work or of any.

        An attempt that was overtaken counts: it committed, and then another job published under its
        prefix first. The other output stays, as if it had come later.
        """
        for token in reversed(self.committed):  # earlier ones may be void
            is_it = token.key == key and work in (None, self.attempts[token].work)
            if is_it and (token in self.published or self._is_overtaken(token)):
                return token
        return None

    def is_published(self, key: str, work: int) -> bool:
        return self.success_of(key, work) is not None

    def is_to_be_published(self, token: Token) -> bool:
        """Whether the attempt's files must stay until its manifest is put."""
        return (
            token in self.committed
            and token not in self.voided
            and token not in self.published
            and not self._is_overtaken(token)
        )

    def _is_overtaken(self, token: Token) -> bool:
        began_at = self.attempts[token].started_at
        return self.mode_of(token) != "append" and any(
            other.key != token.key and self.mode_of(other) != "append" and at >= began_at
            for at, other in self.puts[self.prefixes[token]]
        )

    def mode_of(self, token: Token) -> str:
        return self.job_of(token.key).mode

    def execution_of(self, token: Token) -> Execution | None:
        executions = self.world.aws.stepfunctions.executions
        return next((executions[arn] for arn, each in self.started.items() if each == token), None)

    def runs_since(self, key: str) -> datetime | None:
        """When the first execution of a key's present run started; None without one."""
        row = self.rows.get(key)
        run = int(row["run"]["N"]) if row else None
        return min(
            (each.started_at for each in self.attempts.values() if each.token[:2] == (key, run)),
            default=None,
        )

    def own_faults(self, key: str, run: int) -> list[SeenAttempt]:
        return [
            each
            for each in self.attempts.values()
            if each.token[:2] == (key, run) and each.faults_of_job
        ]

    def token_in(self, name: str) -> Token | None:
        """The attempt whose token is in the file's name."""
        found = _TOKEN.search(name)
        return self.texts.get(found[0]) if found else None

    def bucket(self) -> Contents:
        found = self.world.aws.s3.buckets[self.world.bucket]
        found.catch_up(self.now)
        return found

    def objects(self) -> Mapping[str, Any]:
        return self.bucket().objects

    def stored_inputs(self, ref: str) -> dict[str, str]:
        """The inputs of a join, which are stored beside its request."""
        found: dict[str, str] = json.loads(self.objects()[ref].body)
        return found

    def manifest_at(self, prefix: str) -> dict[str, Any] | None:
        found = self.objects().get(prefix + "_SUCCESS")
        if found is None or not found.body:
            return None
        document: dict[str, Any] = json.loads(found.body)
        return document

    def _check(self, moment: Moment, what: Any) -> None:
        """Check the invariants of a moment.

        A violation is recorded, not raised: the product's code, which calls this, would catch it.
        """
        if self.world.trace is not None:
            words = moment_text(moment, what)
            if words:
                self.world.trace(f"    {moment}: {words}")
        if self.violated is None:
            self.violated = violated_by(self, moment, what)

    def _message_added(self, stage: str, message: Message, *_: Any) -> None:
        names = {name: value.get("StringValue") for name, value in message.attributes.items()}
        request = _request_in(message.body)
        job_id = request.get("job_id") or names.get("job_id") or message.id
        key = f"{stage}#{job_id}"
        job, work = self._asked(stage, request)
        is_follow_on = "lineage" in request and "renews" not in names and is_sent_by_product()
        sent = Sent(message, key, job, work, names.get("renews"), self.now, request, is_follow_on)
        self.sent[message.id] = sent
        if _is_forged(request):
            self.forged.add(message.id)
            self.forged_keys.add(key)
        self.live_by_key[key][message.id] = sent
        if work is not None:
            self.names.setdefault(key, job)
        if sent.parent is not None:
            root = self.world.label_of(sent.parent).partition(".")[0]
            self.labels.setdefault(key, f"{root}.{job.rpartition('.')[2]}")
        self.families.note(sent)
        self._check("message added", sent)

    def _asked(self, stage: str, request: Mapping[str, Any]) -> tuple[str, int | None]:
        """The request's planned job, and its work; None for a request that can never run."""
        match request:
            case {"params": {"name": str(name), "work": int(work)}}:
                return name, work
            case {"lineage": {"parent": parent, "groups": groups}} if not _is_forged(request):
                root = self.names[parent].partition(".")[0]
                return f"{root}.{stage if stage == SUM else groups[-1]['n'] if groups else 0}", 0
        return "", None

    def _dead_letter_added(self, message: Message, *_: Any) -> None:
        names = {name: value.get("StringValue") for name, value in message.attributes.items()}
        if message.id in self.sent:  # moved by SQS itself
            self.live_by_key[self.sent[message.id].key].pop(message.id, None)
        letter = DeadLetter(
            message.body, names.get("job_id"), json.loads(names.get("longhaul") or "{}"), self.now
        )
        self.dead_letters.append(letter)
        self._check("dead letter", letter)

    def _message_removed(self, message: Message) -> None:
        sent = self.sent[message.id]
        self.live_by_key[sent.key].pop(message.id, None)
        if self.is_purging:
            self.purged_keys.add(sent.key)
        else:
            self._check("message removed", sent)

    def _row_written(self, key: tuple[str, str], item: Row | None, *_: Any) -> None:
        if key[1] == "slots":
            self._check("slots written", item)
        if key[1] != "lease" or item is None:
            return
        if self.world.trace is not None:
            self.world.trace(f"    row: {row_text(item)}")
        before, self.rows[key[0]] = self.rows.get(key[0]), item
        self.asked.note_row(before, item)
        state, state_before = item["state"]["S"], (before or item)["state"]["S"]
        if state == "RELEASED" != state_before and self._when_released:
            self._when_released.pop()(key[0])
        if "open" in item:
            self.open_rows.add(key[0])
        else:
            self.open_rows.discard(key[0])
        handle = item.get("receipt_handle", {}).get("S")
        if handle is not None and (
            before is None or handle != before.get("receipt_handle", {}).get("S")
        ):
            self.handles[key[0]].append((self.now, handle))
        if "output" in item and (
            before is None or "output" not in before or before["output"] != item["output"]
        ):
            token = Token(key[0], int(item["run"]["N"]), json.loads(item["output"]["S"])["attempt"])
            self._check("commit", (token, item))
            self.committed[token] = self.now
            self.prefixes[token] = json.loads(item["output"]["S"])["prefix"].removeprefix(
                f"s3://{self.world.bucket}/"
            )
        elif (
            "output" not in item
            and before is not None
            and "output" in before
            and before["run"] == item["run"]
        ):
            void = Token(
                key[0], int(before["run"]["N"]), json.loads(before["output"]["S"])["attempt"]
            )
            self.voided.add(void)
            self._check("commit voided", void)
        if "retry_at" in item and "receipt_handle" in item:
            released = Token(key[0], int(item["run"]["N"]), int(item["attempt"]["N"]))
            self.retry_at[released] = datetime.fromtimestamp(
                int(item["retry_at"]["N"]) / 1000, self.now.tzinfo
            )
        self._note_owed(key[0], is_owed="owed" in item)
        self._check("row written", (before, item))

    def _note_owed(self, key: str, *, is_owed: bool) -> None:
        if is_owed:
            self.owed_since.setdefault(key, self.now)
        elif key in self.owed_since:
            self._check("no longer owed", key)
            del self.owed_since[key]

    def _execution_changed(self, execution: Execution) -> None:
        if execution.is_running:
            told = json.loads(execution.input)
            token = Token(told["key"], int(told["run"]), int(told["attempt"]))
            self.started[execution.arn] = token
            self.attempts.setdefault(token, SeenAttempt(token, self.now))
            self.texts[
                f"{sha256(token.key.encode()).hexdigest()[:20]}-{token.run}-{token.attempt}"
            ] = token
            self.latest[token.key] = max(token.attempt, self.latest.get(token.key, 0))
            self._check("execution started", token)
        else:
            self._check("execution ended", execution)

    def _task_placed(self, task: Task) -> None:
        attempt = attempt_of(task)
        self.attempts[Token(attempt.key, attempt.run, attempt.attempt)].is_placed = True

    def _container_began(self, container: Container) -> None:
        token = Token(*_parts(container))
        self.attempts[token].containers.append(container)
        self._check("container began", container)

    def _container_over(self, container: Container) -> None:
        attempt = self.attempts[Token(*_parts(container))]
        attempt.ended_at = self.now
        self._check("container over", container)

    def _uploads_listed(self, document: Mapping[str, Any]) -> None:
        prefix = document["prefix"].removeprefix(f"s3://{self.world.bucket}/")
        uploads = {prefix + each["path"]: each["upload_id"] for each in document["uploads"]}
        self.uploads[self.texts[document["token"]]] = uploads
        self.listed |= set(uploads.values())

    def _manifest_put(self, call: Call) -> None:
        document = json.loads(call.arguments["Body"])
        token = Token(document["key"], int(document["run"]), int(document["attempt"]))
        prefix = call.arguments["Key"].removesuffix("_SUCCESS")
        self._check("manifest put", (token, prefix))
        self.named[prefix] = frozenset(each["path"] for each in document["files"])
        self.published.setdefault(token, self.now)
        self.manifests[prefix] = token
        self.puts[prefix].append((self.now, token))

    def _invocation_began(self, host: Host, event: Any) -> None:
        host.facts["began_at"] = self.now
        host.facts["event"] = event
        if host.name.startswith("settle@"):
            self.settling.add(Token(event["key"], int(event["run"]), int(event["attempt"])))
        if host.name.startswith("heartbeat@"):
            self._check("beat", (host.name.partition("#")[0], event))

    def since_s(self, seconds: float) -> datetime:
        return self.now - timedelta(seconds=seconds)


def _request_in(body: str) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _is_forged(request: Mapping[str, Any]) -> bool:
    return FORGED in request.get("params", {})


def _parts(container: Container) -> tuple[str, int, int]:
    return container.attempt.key, container.attempt.run, container.attempt.attempt


def _after(thing: Any, name: str, heard: Any) -> None:
    """Call `heard` with the arguments after each call of a method of this one object."""
    original = getattr(thing, name)

    def method(*arguments: Any) -> Any:
        answer = original(*arguments)
        heard(*arguments)
        return answer

    setattr(thing, name, method)


def _before(thing: Any, name: str, heard: Any) -> None:
    original = getattr(thing, name)

    def method(*arguments: Any) -> Any:
        heard(*arguments)
        return original(*arguments)

    setattr(thing, name, method)
