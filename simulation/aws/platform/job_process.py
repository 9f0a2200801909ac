"""The process that carries out an attempt, whatever runs it."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from botocore.exceptions import NoRegionError
from greenlet import GreenletExit

from longhaul.core.lease import AttemptId
from longhaul.runner.io.work_area import BucketArea
from longhaul.runner.io.written import Folder
from longhaul.runner.masking import Mask
from longhaul.runner.stopping import Stop
from simulation.aws.platform.hosts import Host, HostBackground, raise_error
from simulation.aws.platform.parts import MARKER
from simulation.aws.platform.runner import main
from simulation.worlds.plan import Ending
from simulation.worlds.randomness import rng_of, unit
from simulation.worlds.secrets import VARIABLE

if TYPE_CHECKING:
    from datetime import datetime

    from mypy_boto3_s3 import S3Client

    from simulation.aws.platform.containers import Containers
    from simulation.aws.platform.timeline import Event


def attempt_in(environment: Mapping[str, str]) -> AttemptId:
    """The attempt for which a process was started."""
    key, run, attempt = (environment[f"LONGHAUL_{each}"] for each in ("KEY", "RUN", "ATTEMPT"))
    return AttemptId(key, int(run), int(attempt))


class JobProcess:
    """One run of the runner, on a host of its own.

    `id` tells it from all others; `task_ref` is the value in the row's `task_arn`. `stop` is there
    once the runner is.
    """

    def __init__(
        self,
        owner: "Containers",
        attempt: AttemptId,
        *,
        id_: str,
        task_ref: str,
        name: str,
        skew_s: float | None = None,
    ) -> None:
        self.owner = owner
        self.world = world = owner.world
        if skew_s is None:
            skew_s = (2 * unit(world.plan.seed, f"skew:{name}") - 1) * world.plan.mix.skew_s
        self.timeline = world.timeline
        self.attempt = attempt
        self.id = id_
        self.task_ref = task_ref
        self.host = Host(world.timeline, name, rng_of(world.plan.seed, name), skew_s)
        self.host.facts["attempt"] = attempt
        self.host.crashed = self._crash
        self.job = world.job_of(attempt.key)
        self.ending = Ending()  # known once the runner has read the request
        self.work: int | None = None
        self.has_worked = False
        self.outlasts_timeout = False  # its work takes longer than it may
        self.waits_for_executors = False
        self.is_cut_off = False  # it works on, and the platform calls it stopped
        self.end_kind = "stopped"
        self.fault_of_job: str | None = None  # what the job itself has done wrong
        self.code = 0  # version of its code
        self.began_at = world.timeline.clock.now()
        self.secret: str | None = None  # as its attempt has it; empty: it has begun without
        self.reads = ""  # what it reads, as JSON
        self.asked: list[str] = []  # the parts that it has asked for
        self.read_own_at: datetime | None = None  # when it had read what it compacts
        self.background = HostBackground(lambda: self.host)
        self.stop: Stop | None = None
        self._events: list[Event] = []

    @property
    def end_text(self) -> str:
        """How it ended, for the trace."""
        return self.end_kind

    def work_known(self, work: int, ending: Ending) -> None:
        """The runner has read the request. What the platform does to it is known now, too."""
        self.work, self.ending = work, ending
        action = self.done_by_platform().get(ending.kind)
        if action is not None:
            self.later(ending.after_s, action)

    def done_by_platform(self) -> dict[str, Callable[[], None]]:
        """What the platform does to it, by the kind of its ending."""
        return {
            "partitioned": lambda: self.world.injector.cut_off(self.host),
            "cut_off": self._cut_off,
        }

    def _cut_off(self) -> None:
        self.is_cut_off = True
        self.called_stopped()

    def called_stopped(self) -> None:
        """The platform calls it stopped, while it works on."""
        raise NotImplementedError

    def given(self, variables: Mapping[str, str], _mask: Mask) -> None:
        """The attempt gives its job what its stage has for the environment."""
        self.secret = variables.get(VARIABLE, "")

    def begin(self) -> None:
        """Start the runner."""
        self.began_at = self.timeline.clock.now()
        self.owner.began_working(self)
        self.stop = Stop()
        self.host.run(partial(self._run, self.stop), raise_error)

    def end_as(self, kind: str, code: int, reason: str | None = None) -> NoReturn:
        """Called by the process itself, which ends here."""
        self.end_kind = kind
        self.exit(code, reason)
        raise GreenletExit

    def end_process(self, code: int) -> NoReturn:
        """Stands in for `os._exit`."""
        self.end_as("ended by its last resort", code)

    def exit(self, code: int, reason: str | None = None) -> None:
        """It has ended. The process itself may call this."""
        self.host.kill()
        self.timeline.after(
            2 + 2 * self.host.rng.random(), lambda: self.ended_by_itself(code, reason)
        )

    def ended_by_itself(self, code: int, reason: str | None) -> None:
        """The platform notices that it has ended."""
        raise NotImplementedError

    def has_executors(self) -> bool:
        """Whether there is somebody to do its work; on one machine there always is."""
        return True

    def lose_executors(self) -> None:
        """What its plan says of them has come about."""

    def work_area(self, _client: "S3Client") -> BucketArea | None:
        """Where a cluster works; None: on the disk of one machine."""
        return None

    def output(self, files: int, _area: Folder) -> Folder:
        """What Spark has written: so many files."""
        return self.world.output / str(files)

    def write(self, files: Mapping[str, str], folder: Folder) -> None:
        """Let Spark write files, by name, into a folder that may not be there yet."""
        if not isinstance(folder, Path):
            raise TypeError(f"one machine alone does not reach {folder}")
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text)

    def read(self, folder: Folder) -> list[str]:
        """What Spark reads from a folder: the text of each file."""
        if not isinstance(folder, Path):
            raise TypeError(f"one machine alone does not reach {folder}")
        return [file.read_text() for file in sorted(folder.iterdir()) if file.name != MARKER]

    def over(self) -> None:
        """Nothing more happens to it."""
        self.host.kill()
        for event in self._events:
            event.cancel()
        self.owner.over(self)

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        self._events.append(self.timeline.after(seconds, action))

    def _run(self, stop: Stop) -> None:
        try:
            code = main(self, stop)
        except NoRegionError:  # before it has read its row
            self.end_as("without a region", 1)
        self.exit(code)

    def _crash(self) -> None:
        """An injected fault ended it. To the product, the job has crashed."""
        self.end_kind = "crashes"
        self.fault_of_job = self.fault_of_job or "crashes"
        self.exit(139)
