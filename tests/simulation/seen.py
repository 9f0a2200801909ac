"""What can be seen of a world from outside: messages, objects, tasks, executions, rows as they are stored. Invariants are checked against this alone.

Nothing here goes through the product's own code: what it believes may be what is wrong.
"""

import json
import re
from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from tests.fakes.service import Call
from tests.fakes.sqs_queues import Message
from tests.fakes.stepfunctions import Execution
from tests.simulation.containers import Container
from tests.simulation.families import Families
from tests.simulation.hosts import Host
from tests.simulation.invariants.table import Moment, Violated, violated_by
from tests.simulation.plan import Job
from tests.simulation.sightings import Attempt, DeadLetter, Sent, Token
from tests.simulation.stages import SUM
from tests.simulation.telling import Row, row_text, told

if TYPE_CHECKING:
    from tests.simulation.world import World

_TOKEN = re.compile(r"[0-9a-f]{20}-\d+-\d+")


class Seen:
    def __init__(self, world: "World") -> None:
        self.world = world
        self.began_at = self.now
        self.sent: dict[str, Sent] = {}  # by message id
        self.live_by_key: dict[str, dict[str, Sent]] = defaultdict(dict)  # messages that are in a queue, by id
        self.names: dict[str, str] = {}  # of the plan's jobs, by key
        self.labels: dict[str, str] = {}  # of what follows from others, by key: how sites name it
        self.families = Families(self)
        self.dead_letters: list[DeadLetter] = []
        self.published: dict[Token, datetime] = {}
        self.committed: dict[Token, datetime] = {}
        self.prefixes: dict[Token, str] = {}  # of committed outputs, without the bucket
        self.puts: dict[str, list[tuple[datetime, Token]]] = defaultdict(list)  # manifests that were put, by prefix
        self.voided: set[Token] = set()
        self.started: dict[str, Token] = {}  # by execution ARN
        self.attempts: dict[Token, Attempt] = {}
        self.latest: dict[str, int] = {}  # attempt by key
        self.rows: dict[str, Row] = {}  # by key
        self.open_rows: set[str] = set()
        self.handles: dict[str, list[tuple[datetime, str]]] = defaultdict(list)  # that a row has had, by key
        self.cancelled_at: dict[str, datetime] = {}
        self.redriven: set[str] = set()
        self.redelivered: set[str] = set()
        self.is_purging = False
        self.purged_keys: set[str] = set()
        self.mapping_deletes: set[str] = set()
        self.violated: Violated | None = None
        self.texts: dict[str, Token] = {}  # attempts by what the names of their files carry
        self.manifests: dict[str, Token] = {}  # in place, by prefix
        self.named: dict[str, frozenset[str]] = {}  # files that they name
        self.settling: set[Token] = set()  # attempts whose execution has begun to settle them
        self.listed: set[str] = set()  # uploads that a pending list has named
        self.retry_at: dict[Token, datetime] = {}  # by attempts that were released with a handle that holds the message
        self.beats: dict[str, datetime] = {}  # the last invocation of the heartbeat, by execution's site
        self._watch()

    @property
    def now(self) -> datetime:
        return self.world.timeline.clock.now()

    # What the fakes tell.

    def _watch(self) -> None:
        world = self.world
        for stage, queue in world.queues.items():
            _after(queue, "add", partial(self._message_added, stage))
            _before(queue, "remove", self._message_removed)
            _after(world.dead_letter_queues[stage], "add", self._dead_letter_added)
        table = world.aws.dynamodb.tables[world.settings.leases_table]
        _after(table, "write", self._row_written)
        world.aws.stepfunctions.status_changed.append(self._execution_changed)
        world.containers.began.append(self._container_began)
        world.containers.is_over.append(self._container_over)
        for mapping in world.mappings.values():
            mapping.deleting.append(lambda message_id: self._check("mapping deletes", message_id))
        world.platform.began.append(self._invocation_began)

    def call(self, call: Call, host: Host) -> None:
        """A call took effect."""
        if call.service == "s3":
            if call.operation == "PutObject" and call.arguments["Key"].endswith("/_SUCCESS"):
                self._manifest_put(call)
            elif call.operation == "PutObject" and call.arguments["Key"].startswith("longhaul/pending/"):
                self.listed |= {each["upload_id"] for each in json.loads(call.arguments["Body"])["uploads"]}
            elif call.operation == "CompleteMultipartUpload":
                self._check("file shows", call.arguments["Key"])
            elif call.operation == "DeleteObjects":
                self._check("files deleted", [each["Key"] for each in call.arguments["Delete"]["Objects"]])
        elif call.service == "sqs" and call.operation in ("ChangeMessageVisibility", "DeleteMessage"):
            self._check("handle used", (call, host))

    def refused(self, call: Call, host: Host, text: str) -> None:
        if "beyond the limit" in text:
            self._check("extension refused", (call, host))

    def note_cancel(self, key: str) -> None:
        self.cancelled_at.setdefault(key, self.now)

    def note_redrive(self, execution: Execution) -> None:
        self.redriven.add(execution.arn)

    def note_redelivery(self, message_id: str) -> None:
        self.redelivered.add(message_id)
        sent = self.sent[message_id]
        self.live_by_key[sent.key][message_id] = sent

    def check_end(self) -> None:
        self._check("the end", None)

    # What is asked.

    def message_ids_of(self, job: str) -> list[str]:
        return [each.message.id for each in self.sent.values() if each.job == job]

    def job_of(self, key: str) -> Job:
        """As the plan has it."""
        return self.world.jobs[self.names[key]]

    def has_room(self, stage: str) -> bool:
        """Whether nothing in that stage ever has to wait for a slot."""
        keys = sum(key.startswith(f"{stage}#") for key in self.names)
        return keys <= self.world.settings.stage(stage).slots

    def letters_of(self, sent: Sent) -> list[DeadLetter]:
        """Dead letters with the same body that came after it."""
        return [each for each in self.dead_letters if each.body == sent.message.body and each.at >= sent.at]

    def success_of(self, key: str, work: int | None = None) -> Token | None:
        """The latest attempt that published, of that work or of any.

        Or was overtaken: it was committed, and before it could show, another job published under the same prefix. The later one stands, as if ours had come first.
        """
        for token in reversed(self.committed):  # an earlier one may have been void
            is_it = token.key == key and work in (None, self.attempts[token].work)
            if is_it and (token in self.published or self._is_overtaken(token)):
                return token
        return None

    def is_published(self, key: str, work: int) -> bool:
        return self.success_of(key, work) is not None

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

    def own_faults(self, key: str, run: int) -> list[Attempt]:
        return [each for each in self.attempts.values() if each.token[:2] == (key, run) and each.faults_of_job]

    def token_in(self, name: str) -> Token | None:
        """The attempt whose token a file's name carries."""
        found = _TOKEN.search(name)
        return self.texts.get(found[0]) if found else None

    def objects(self) -> Mapping[str, Any]:
        return self.world.aws.s3.buckets[self.world.bucket].objects

    def manifest_at(self, prefix: str) -> dict[str, Any] | None:
        found = self.objects().get(prefix + "_SUCCESS")
        if found is None or not found.body:
            return None
        document: dict[str, Any] = json.loads(found.body)
        return document

    # Events.

    def _check(self, moment: Moment, what: Any) -> None:
        """Noted, not raised: this is called from within the product's code, which catches much."""
        if self.world.trace is not None:
            words = told(moment, what)
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
        sent = Sent(message, key, job, work, names.get("renews"), self.now, request)
        self.sent[message.id] = sent
        self.live_by_key[key][message.id] = sent
        if work is not None:
            self.names.setdefault(key, job)
        if sent.parent is not None:
            root = self.world.label_of(sent.parent).partition(".")[0]
            self.labels.setdefault(key, f"{root}.{job.rpartition('.')[2]}")
        self.families.note(sent)
        self._check("message added", sent)

    def _asked(self, stage: str, request: Mapping[str, Any]) -> tuple[str, int | None]:
        """Which of the plan's jobs a request means, and which of the works under its key; none when it can never run."""
        match request:
            case {"params": {"name": str(name), "work": int(work)}}:
                return name, work
            case {"lineage": {"parent": parent, "groups": groups}}:
                root = self.names[parent].partition(".")[0]
                return f"{root}.{stage if stage == SUM else groups[-1]['n'] if groups else 0}", 0
        return "", None

    def _dead_letter_added(self, message: Message, *_: Any) -> None:
        names = {name: value.get("StringValue") for name, value in message.attributes.items()}
        if message.id in self.sent:  # moved by SQS itself
            self.live_by_key[self.sent[message.id].key].pop(message.id, None)
        letter = DeadLetter(message.body, names.get("job_id"), json.loads(names.get("longhaul") or "{}"), self.now)
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
        if "open" in item:
            self.open_rows.add(key[0])
        else:
            self.open_rows.discard(key[0])
        handle = item.get("receipt_handle", {}).get("S")
        if handle is not None and (before is None or handle != before.get("receipt_handle", {}).get("S")):
            self.handles[key[0]].append((self.now, handle))
        if "output" in item and (before is None or "output" not in before or before["output"] != item["output"]):
            token = Token(key[0], int(item["run"]["N"]), json.loads(item["output"]["S"])["attempt"])
            self._check("commit", (token, item))
            self.committed[token] = self.now
            self.prefixes[token] = json.loads(item["output"]["S"])["prefix"].removeprefix(f"s3://{self.world.bucket}/")
        elif "output" not in item and before is not None and "output" in before and before["run"] == item["run"]:
            self.voided.add(Token(key[0], int(before["run"]["N"]), json.loads(before["output"]["S"])["attempt"]))
        if "retry_at" in item and "receipt_handle" in item:
            released = Token(key[0], int(item["run"]["N"]), int(item["attempt"]["N"]))
            self.retry_at[released] = datetime.fromtimestamp(int(item["retry_at"]["N"]) / 1000, self.now.tzinfo)
        self._check("row written", (before, item))

    def _execution_changed(self, execution: Execution) -> None:
        if execution.is_running:
            told = json.loads(execution.input)
            token = Token(told["key"], int(told["run"]), int(told["attempt"]))
            self.started[execution.arn] = token
            self.attempts.setdefault(token, Attempt(token, self.now))
            self.texts[f"{sha256(token.key.encode()).hexdigest()[:20]}-{token.run}-{token.attempt}"] = token
            self.latest[token.key] = max(token.attempt, self.latest.get(token.key, 0))
            self._check("execution started", token)
        else:
            self._check("execution ended", execution)

    def _container_began(self, container: Container) -> None:
        token = Token(*_parts(container))
        self.attempts[token].containers.append(container)
        self._check("container began", container)

    def _container_over(self, container: Container) -> None:
        attempt = self.attempts[Token(*_parts(container))]
        attempt.ended_at = self.now
        self._check("container over", container)

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
