"""A world as seen from outside: messages, objects, tasks, executions and stored rows.

Invariants are checked against this alone. It uses none of the product's code, which may be wrong.
"""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from simulation.aws.s3.client import Contents
from simulation.aws.stepfunctions.client import Execution
from simulation.seen.asked import Asked
from simulation.seen.checks import TABLE, Moment, Violated
from simulation.seen.families import Families
from simulation.seen.lake import Lake
from simulation.seen.sightings import DeadLetter, Row, SeenAttempt, SeenAttempts, Sent, Token
from simulation.seen.stored import Stored
from simulation.seen.trace import moment_text
from simulation.worlds.plan import Job

if TYPE_CHECKING:
    from simulation.worlds.world import World

_TOKEN = re.compile(r"[0-9a-f]{20}-\d+-\d+")


@dataclass(eq=False)
class Seen:
    world: "World"
    sent: dict[str, Sent] = field(default_factory=dict)  # by message id
    sent_by_key: dict[str, list[Sent]] = field(default_factory=lambda: defaultdict(list))
    # In a queue, by id.
    live_by_key: dict[str, dict[str, Sent]] = field(default_factory=lambda: defaultdict(dict))
    names: dict[str, str] = field(default_factory=dict)  # of the plan's jobs, by key
    labels: dict[str, str] = field(default_factory=dict)  # names of follow-ons in sites, by key
    dead_letters: list[DeadLetter] = field(default_factory=list)
    published: dict[Token, datetime] = field(default_factory=dict)
    committed: dict[Token, datetime] = field(default_factory=dict)
    # Where the outputs of commits go, without the bucket; the main one's place is the first.
    places: dict[Token, tuple[str, ...]] = field(default_factory=dict)
    # Manifests that were put, by prefix.
    puts: dict[str, list[tuple[datetime, Token]]] = field(default_factory=lambda: defaultdict(list))
    voided: set[Token] = field(default_factory=set)
    cut_off: set[tuple[str, int]] = field(default_factory=set)  # key and run
    started: dict[str, Token] = field(default_factory=dict)  # by execution ARN
    attempts: SeenAttempts = field(default_factory=SeenAttempts)
    latest: dict[str, int] = field(default_factory=dict)  # attempt by key
    rows: dict[str, Row] = field(default_factory=dict)  # by key
    # Keys of rows that run, by stage.
    running: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    slots: dict[str, Row] = field(default_factory=dict)  # items of the stages' slots, by key
    operated: set[str] = field(default_factory=set)  # stages that were paused, or given other slots
    # Keys of rows with something left to do, and of roots whose tree's end is still to be told.
    open_rows: set[str] = field(default_factory=set)
    watched: set[str] = field(default_factory=set)
    # Receipt handles that a row has had, by key.
    handles: dict[str, list[tuple[datetime, str]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    waiting_for_release: list[Callable[[str], None]] = field(default_factory=list)
    redriven: set[str] = field(default_factory=set)
    redelivered: set[str] = field(default_factory=set)
    was_narrowed: bool = False  # settings once allowed less than the requests need
    retired: set[str] = field(default_factory=set)  # stages that were retired or taken out, once
    # Keys of which items have outlived their time to live.
    expired: set[str] = field(default_factory=set)
    # Keys whose request or emitted requests were deleted.
    lost: set[str] = field(default_factory=set)
    # Ids of messages with a lineage that is not theirs.
    forged: set[str] = field(default_factory=set)
    forged_keys: set[str] = field(default_factory=set)
    owed_since: dict[str, datetime] = field(default_factory=dict)  # by key
    # Ends that rows have had, and those with nothing owed; by key and run.
    ends: dict[tuple[str, int | None], set[str]] = field(default_factory=lambda: defaultdict(set))
    over: dict[tuple[str, int], str] = field(default_factory=dict)
    # Events that a stage's `notify` got: about jobs, about trees, and those of OpenLineage.
    told: list[dict[str, Any]] = field(default_factory=list)
    told_trees: list[dict[str, Any]] = field(default_factory=list)
    run_events: list[dict[str, Any]] = field(default_factory=list)
    # The age of what is owed, as each put it.
    sweeps: list[tuple[datetime, float]] = field(default_factory=list)
    is_purging: bool = False
    purged_keys: set[str] = field(default_factory=set)
    # Claimed with a message that was deleted meanwhile.
    late_keys: set[str] = field(default_factory=set)
    once_late: set[str] = field(default_factory=set)  # at any time
    violated: Violated | None = None
    # Attempts, by the token in the names of their files.
    texts: dict[str, Token] = field(default_factory=dict)
    # Files in the manifest, by prefix.
    named: dict[str, frozenset[str]] = field(default_factory=dict)
    settling: set[Token] = field(default_factory=set)  # attempts whose execution has invoked settle
    listed: set[str] = field(default_factory=set)  # uploads in a pending list
    # Uploads of each attempt's list, by the keys of their files.
    uploads: dict[Token, dict[str, str]] = field(default_factory=dict)
    # Of attempts released with a handle that holds the message.
    retry_at: dict[Token, datetime] = field(default_factory=dict)
    # The last heartbeat, by the execution's site.
    beats: dict[str, datetime] = field(default_factory=dict)
    # What each backfill has sent, and since when it has had jobs to send; by key.
    backfills: dict[str, Row] = field(default_factory=dict)
    sending_since: dict[str, datetime] = field(default_factory=dict)
    marks_over: set[str] = field(default_factory=set)  # cancelled before they began, and ended so
    reruns: dict[str, Sent] = field(default_factory=dict)  # sent to run an ended job again, by id
    # The run of the parent that each run of a job followed from, by the job's key and run.
    led_by: dict[tuple[str, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.began_at = self.now
        self.families = Families(self)
        self.asked = Asked(self)
        self.stored = Stored(self)
        self.lake = Lake(self)

    @property
    def now(self) -> datetime:
        return self.world.timeline.clock.now()

    def note_expired(self, key: str) -> None:
        self.expired.add(key)
        # The next attempt has the number of the first once more.
        self.beats.clear()

    def note_metrics(self, values: Mapping[Any, float], **_dimensions: str) -> None:
        """What a function puts, by name."""
        by_name = {str(name): value for name, value in values.items()}
        if "OldestOwed" in by_name:
            self.sweeps.append((self.now, by_name["OldestOwed"]))

    def note_redelivery(self, message_id: str) -> None:
        self.redelivered.add(message_id)
        sent = self.sent[message_id]
        self.live_by_key[sent.key][message_id] = sent

    def job_of(self, key: str) -> Job:
        """The planned job of a key."""
        return self.world.jobs[self.names[key]]

    def has_room(self, stage: str) -> bool:
        """Whether no job in that stage ever waits for a slot."""
        keys = sum(key.startswith(f"{stage}#") for key in self.names)
        return stage not in self.operated and keys <= self.world.stages[stage].slots

    @property
    def launches_s(self) -> float:
        """How much longer a job may wait because RunTask takes no more: twice the least."""
        plan = self.world.plan
        return 2 * max(0.0, len(self.names) - plan.launches_at_once) / plan.launches_per_s

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
        committed = [
            each.token
            for each in self.attempts.of(key)
            if each.token in self.committed and work in (None, each.work)
        ]
        # A void one may show: what would have told it from others was gone, and it runs again.
        shown = (each for each in committed if each not in self.voided and self.shows(each))
        return max(shown, key=self.committed.__getitem__, default=None)

    def note_switched(self, token: Token, place: str) -> None:
        """An output of the attempt has become visible there."""
        self.puts[place].append((self.now, token))
        if all(self.has_switched(token, each) for each in self.places.get(token, ())):
            self.published.setdefault(token, self.now)

    def has_switched(self, token: Token, place: str) -> bool:
        return any(each == token for _, each in self.puts[place])

    def shows(self, token: Token) -> bool:
        """Whether each output of a committed attempt is published, or was overtaken."""
        return token in self.published or all(
            self.has_switched(token, each) or self.is_overtaken(token, each)
            for each in self.places[token]
        )

    def is_to_be_published(self, token: Token) -> bool:
        """Whether the attempt's files must stay until its manifest is put."""
        return token in self.committed and token not in self.voided and not self.shows(token)

    def is_overtaken(self, token: Token, place: str) -> bool:
        if token in self.voided:  # the history that would have told was gone: it runs again
            return False
        began_at = self.attempts[token].started_at
        return self.mode_of(token) != "append" and any(
            other.key != token.key and self.mode_of(other) != "append" and at >= began_at
            for at, other in self.puts[place]
        )

    def output_of(self, token: Token) -> str:
        """The output of a committed attempt, as in its request."""
        prefix = self.places[token][0]
        return prefix if "://" in prefix else f"s3://{self.world.bucket}/{prefix}"

    def mode_of(self, token: Token) -> str:
        return self.job_of(token.key).mode

    def execution_of(self, token: Token) -> Execution | None:
        executions = self.world.aws.stepfunctions.executions
        return next((executions[arn] for arn, each in self.started.items() if each == token), None)

    def size_of(self, token: Token) -> str:
        """The size that an attempt ran with."""
        execution = self.execution_of(token)
        size: str = json.loads(execution.input)["size"] if execution else ""
        return size

    def runs_since(self, key: str) -> datetime | None:
        """When the first execution of a key's present run started; None without one."""
        row = self.rows.get(key)
        run = int(row["run"]["N"]) if row else None
        return min(
            (each.started_at for each in self.attempts.of(key) if each.token.run == run),
            default=None,
        )

    def own_faults(self, key: str, run: int) -> list[SeenAttempt]:
        return [
            each for each in self.attempts.of(key) if each.token.run == run and each.faults_of_job
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

    def files_at(self, prefix: str) -> list[str]:
        """The paths of the files that the manifest names; none where another tool has put it."""
        found = self.objects().get(prefix + "_SUCCESS")
        if found is None or not found.body:
            return []
        return [each["path"] for each in json.loads(found.body)["files"]]

    def check(self, moment: Moment, *what: Any) -> None:
        """Check the invariants of a moment.

        A violation is recorded, not raised: the product's code, which calls this, would catch it.
        """
        if self.world.trace is not None:
            words = moment_text(moment, *what)
            if words:
                self.world.trace(f"    {moment}: {words}")
        for each in TABLE.get(moment, ()):
            if self.violated is None and (wrong := each.holds(self, *what)) is not None:
                self.violated = Violated(each.code, each.says, wrong, self.now)
