"""What is seen of a world, as it happens: each thing is noted in its record, and checked."""

import json
import re
from collections.abc import Mapping
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from longhaul.core.message import AGAIN, RENEWS
from simulation.aws.ecs.client import Task
from simulation.aws.platform.hosts import Host, current_host
from simulation.aws.platform.job_process import JobProcess, attempt_in
from simulation.aws.service import Call
from simulation.aws.sqs.queues import Message
from simulation.aws.stepfunctions.client import Execution
from simulation.seen.asked import is_sent_by_product
from simulation.seen.invariants.trees import is_sending
from simulation.seen.record import Seen
from simulation.seen.sightings import DeadLetter, Row, Sent, Token, request_in, time_in
from simulation.seen.trace import row_text
from simulation.worlds.notified import told_by
from simulation.worlds.requests import FORGED
from simulation.worlds.stages import JOINS

if TYPE_CHECKING:
    from simulation.worlds.world import World


class Watch:
    def __init__(self, world: "World", seen: Seen) -> None:
        self.world = world
        self.seen = seen
        for stage, queue in world.queues.items():
            _after(queue, "add", partial(self._message_added, stage))
            _after(queue, "remove", self._message_removed)
            _after(world.dead_letter_queues[stage], "add", self._dead_letter_added)
        table = world.aws.dynamodb.tables[world.settings.leases_table]
        _after(table, "write", self._row_written)
        _after(table, "write", self._backfill_written)
        _after(table, "write", self._notice_written)
        world.aws.stepfunctions.status_changed.append(self._execution_changed)
        _after(world.containers, "launched", self._task_placed)
        if world.tiny:
            _after(world.tiny, "accept", self._invocation_accepted)
        world.containers.began.append(self._container_began)
        world.containers.is_over.append(self._container_over)
        for mapping in world.mappings.values():
            mapping.deleting.append(
                lambda message_id: self.seen.check("mapping deletes", message_id)
            )
        world.aws.glue.changed.append(seen.lake.table_changed)
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
                self.seen.check("file shows", call.arguments["Key"])
            elif call.operation == "AbortMultipartUpload":
                self.seen.check("upload aborted", call.arguments["Key"])
            elif call.operation == "DeleteObjects":
                self.seen.check(
                    "files deleted", [each["Key"] for each in call.arguments["Delete"]["Objects"]]
                )
        elif call.service == "sqs" and call.operation in (
            "ChangeMessageVisibility",
            "DeleteMessage",
        ):
            self.seen.check("handle used", call, host)
        if (event := told_by(call)) is not None:
            if "eventType" in event:
                self.seen.run_events.append(event)
            elif event.get("event") == "tree_ended":
                self.seen.check("tree told", event)
                self.seen.told_trees.append(event)
            else:
                self.seen.check("told", event)
                self.seen.told.append(event)

    def code_failed(self, error: BaseException) -> None:
        """A handler raised an error, or the product's code logged one."""
        self.seen.check("code failed", error)

    def refused(self, call: Call, host: Host, text: str) -> None:
        if "beyond the limit" in text:
            self.seen.check("extension refused", call, host)

    def _message_added(self, stage: str, message: Message, *_: Any) -> None:
        names = {name: value.get("StringValue") for name, value in message.attributes.items()}
        request = request_in(message.body)
        job_id = request.get("job_id") or names.get("job_id") or message.id
        key = f"{stage}#{job_id}"
        job, work = self._asked(stage, request)
        is_follow_on = "lineage" in request and RENEWS not in names and is_sent_by_product()
        sent = Sent(
            message,
            key,
            job,
            work,
            names.get(RENEWS),
            self.seen.now,
            request,
            is_follow_on,
        )
        self.seen.sent[message.id] = sent
        self.seen.sent_by_key[key].append(sent)
        if _is_forged(request):
            self.seen.forged.add(message.id)
            self.seen.forged_keys.add(key)
        self.seen.live_by_key[key][message.id] = sent
        if work is not None:
            self.seen.names.setdefault(key, job)
        if sent.parent is not None:
            parent = self.world.label_of(sent.parent)
            self.seen.labels.setdefault(key, f"{parent}.{job.rpartition('.')[2]}")
        self.seen.families.note(sent)
        if AGAIN in names:
            self.seen.reruns[message.id] = sent
        self.seen.check("message added", sent)

    def _asked(self, stage: str, request: Mapping[str, Any]) -> tuple[str, int | None]:
        """The request's planned job, and its work; None for a request that can never run."""
        match request:
            case {"params": {"name": str(name), "work": int(work)}}:
                return name, work
            case {"lineage": {"parent": parent, "groups": groups}} if not _is_forged(request):
                place = stage if stage in JOINS else groups[-1]["n"]
                return f"{self.seen.names[parent]}.{place}", 0
        return "", None

    def _dead_letter_added(self, message: Message, *_: Any) -> None:
        names = {name: value.get("StringValue") for name, value in message.attributes.items()}
        if message.id in self.seen.sent:  # moved by SQS itself
            self.seen.live_by_key[self.seen.sent[message.id].key].pop(message.id, None)
        letter = DeadLetter(
            message.body,
            names.get("job_id"),
            json.loads(names.get("longhaul") or "{}"),
            self.seen.now,
        )
        self.seen.dead_letters.append(letter)
        self.seen.check("dead letter", letter)

    def _message_removed(self, message: Message) -> None:
        sent = self.seen.sent[message.id]
        self.seen.live_by_key[sent.key].pop(message.id, None)
        if self.seen.is_purging:
            self.seen.purged_keys.add(sent.key)
        else:
            self.seen.check("message removed", sent)

    def _backfill_written(self, key: tuple[str, str], item: Row | None, *_: Any) -> None:
        if key[1] != "backfill":
            return
        self.seen.backfills.pop(key[0], None)
        self.seen.watched.discard(key[0])
        if item is not None and "sent_values" in item:
            self.seen.backfills[key[0]] = item
            if is_sending(item):
                self.seen.sending_since.setdefault(key[0], self.seen.now)
                return
            self.seen.sending_since.pop(key[0], None)
            if "open" in item:
                self.seen.watched.add(key[0])

    def _notice_written(self, key: tuple[str, str], item: Row | None, *_: Any) -> None:
        if key[0].startswith("notices#"):
            self.seen.asked.note_notice(key[1], is_owed="open" in (item or {}))

    def _row_written(self, key: tuple[str, str], item: Row | None, *_: Any) -> None:
        if key[1] == "slots" and item is not None:
            self.seen.check("slots written", self.seen.slots.get(key[0], {}), item)
            self.seen.slots[key[0]] = item
        if key[1] != "lease":
            return
        running = self.seen.running[key[0].partition("#")[0]]
        running.discard(key[0])
        if item is None:  # its time to live has passed
            self.seen.rows.pop(key[0], None)
            self.seen.latest.pop(key[0], None)
            return
        if self.world.trace is not None:
            self.world.trace(f"    row: {row_text(item)}")
        before, self.seen.rows[key[0]] = self.seen.rows.get(key[0]), item
        if item["state"]["S"] == "RUNNING":
            running.add(key[0])
        self.seen.asked.note_row(before, item)
        state, state_before = item["state"]["S"], (before or item)["state"]["S"]
        if state == "RELEASED" != state_before and self.seen.waiting_for_release:
            self.seen.waiting_for_release.pop()(key[0])
        kind = item.get("open", {"S": ""})["S"].partition("#")[2]
        for keys, is_in in (
            (self.seen.open_rows, kind not in ("", "TREE")),
            (self.seen.watched, kind == "TREE"),
        ):
            (keys.add if is_in else keys.discard)(key[0])
        handle = item.get("receipt_handle", {}).get("S")
        if handle is not None and (
            before is None or handle != before.get("receipt_handle", {}).get("S")
        ):
            self.seen.handles[key[0]].append((self.seen.now, handle))
        self._note_commit(before, item)
        if "retry_at" in item and "receipt_handle" in item:
            self.seen.retry_at[Token.of(item)] = time_in(item, "retry_at")
        if "cut_off" in item:
            self.seen.cut_off.add((key[0], int(item["run"]["N"])))
        self._note_led_by(key[0], item)
        self._note_message(key[0], before, item)
        self._note_end(key[0], item)
        self._note_owed(key[0], is_owed="owed" in item)
        self.seen.stored.note_row(before, item)
        self.seen.check("row written", before, item)
        if state_before == "RUNNING" != state:
            host = current_host()
            is_own = host is None or re.fullmatch("settle@.*#1", host.name) is not None
            self.seen.attempts[Token.of(item)].is_settled = is_own
            self.seen.check("attempt ended", item, Token.of(item))

    def _note_commit(self, before: Row | None, item: Row) -> None:
        key = item["key"]["S"]
        if "output" in item and (
            before is None or "output" not in before or before["output"] != item["output"]
        ):
            committed = json.loads(item["output"]["S"])
            token = Token(key, int(item["run"]["N"]), committed["attempt"])
            self.seen.check("commit", token, item)
            self.seen.committed[token] = self.seen.now
            places = json.loads(item["places"]["S"])
            self.seen.places[token] = tuple(
                places[name].removeprefix(f"s3://{self.world.bucket}/")
                for name in ("", *(each["name"] for each in committed["beside"]))
            )
        elif (
            "output" not in item
            and before is not None
            and "output" in before
            and before["run"] == item["run"]
        ):
            void = Token(key, int(before["run"]["N"]), json.loads(before["output"]["S"])["attempt"])
            self.seen.voided.add(void)
            self.seen.check("commit voided", void)

    def _note_led_by(self, key: str, item: Row) -> None:
        if "lineage" in item:
            led_by = json.loads(item["lineage"]["S"])["run"]
            self.seen.led_by[key, int(item["run"]["N"])] = led_by

    def _note_message(self, key: str, before: Row | None, item: Row) -> None:
        """A delivery may come so late that its message was deleted, for good reason, meanwhile."""
        message_id = item.get("message_id", {}).get("S")
        if message_id == (before or {}).get("message_id", {}).get("S"):
            return
        if message_id in self.seen.live_by_key[key]:
            self.seen.late_keys.discard(key)
        elif message_id is not None:
            self.seen.late_keys.add(key)
            self.seen.once_late.add(key)

    def _note_end(self, key: str, item: Row) -> None:
        state, run = item["state"]["S"], int(item["run"]["N"])
        if state not in ("SUCCEEDED", "DEAD", "CANCELLED"):
            return
        self.seen.ends[key, run].add(state)
        if state == "DEAD":
            self.seen.asked.died[key, run] = time_in(item, "settled_at")
        # Without a message it is a cancel mark that met none.
        if "owed" not in item and item.get("message_id", {}).get("S"):
            self.seen.over.setdefault((key, run), state)
        elif "owed" not in item:
            self.seen.marks_over.add(key)

    def _note_owed(self, key: str, *, is_owed: bool) -> None:
        if is_owed:
            self.seen.owed_since.setdefault(key, self.seen.now)
        elif key in self.seen.owed_since:
            self.seen.check("no longer owed", key)
            del self.seen.owed_since[key]

    def _execution_changed(self, execution: Execution) -> None:
        if execution.is_running:
            token = Token.in_event(json.loads(execution.input))
            self.seen.started[execution.arn] = token
            self.seen.attempts.begin(token, self.seen.now)
            self.seen.texts[
                f"{sha256(token.key.encode()).hexdigest()[:20]}-{token.run}-{token.attempt}"
            ] = token
            self.seen.latest[token.key] = max(token.attempt, self.seen.latest.get(token.key, 0))
            self.seen.check("execution started", token)
        else:
            self.seen.check("execution ended", execution)

    def _task_placed(self, task: Task) -> None:
        self.seen.attempts[Token.of_task(attempt_in(task.environment))].is_placed = True

    def _invocation_accepted(self, payload: Mapping[str, Any], *_: object) -> None:
        self.seen.attempts[Token.in_event(payload)].is_placed = True

    def _container_began(self, container: JobProcess) -> None:
        attempt = self.seen.attempts[Token.of_task(container.attempt)]
        attempt.containers.append(container)
        attempt.is_placed = True  # of a driver on EMR this is the first that is seen
        self.seen.check("container began", container)

    def _container_over(self, container: JobProcess) -> None:
        self.seen.attempts[Token.of_task(container.attempt)].ended_at = self.seen.now
        self.seen.check("container over", container)

    def _uploads_listed(self, document: Mapping[str, Any]) -> None:
        uploads = {
            output["prefix"].removeprefix(f"s3://{self.world.bucket}/") + each["path"]: each[
                "upload_id"
            ]
            for output in (document, *document["beside"])
            for each in output["uploads"]
        }
        token = self.seen.texts[document["token"]]
        self.seen.uploads[token] = uploads
        if document["manifest"] is None:
            self.seen.lake.listed_at[token] = self.seen.now
        self.seen.listed |= set(uploads.values())

    def _manifest_put(self, call: Call) -> None:
        document = json.loads(call.arguments["Body"])
        token = Token.in_event(document)
        prefix = call.arguments["Key"].removesuffix("_SUCCESS")
        self.seen.check("manifest put", token, prefix)
        self.seen.named[prefix] = frozenset(each["path"] for each in document["files"])
        self.seen.note_switched(token, prefix)

    def _invocation_began(self, host: Host, event: Any) -> None:
        host.facts["began_at"] = self.seen.now
        host.facts["event"] = event
        if host.name.startswith("settle@"):
            self.seen.settling.add(Token.in_event(event))
        if host.name.startswith("heartbeat@"):
            self.seen.check("beat", host.name.partition("#")[0], event)


def _is_forged(request: Mapping[str, Any]) -> bool:
    return FORGED in request.get("params", {})


def _after(thing: Any, name: str, heard: Any) -> None:
    """Call `heard` with the arguments after each call of a method of this one object."""
    original = getattr(thing, name)

    def method(*arguments: Any) -> Any:
        answer = original(*arguments)
        heard(*arguments)
        return answer

    setattr(thing, name, method)
