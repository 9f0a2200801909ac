"""What may happen in a world beside the first submissions of its jobs: a table of occasions.

Each occasion says which act may come, how often, after what, and when. Adding one moves no draw of
the others.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from simulation.worlds.plan import Act, Job, Plan
from simulation.worlds.randomness import rng_of

Range = tuple[float, float]

SENT = ("submit", "backfill")
SOON: Range = (2.0, 800.0)
"""Of a world: with `power` 3 mostly in its first minutes."""
AROUND_WORK_S = 120.0
"""A task's start and its uploads."""


def _always(_plan: Plan, _job: Job) -> bool:
    return True


@dataclass(frozen=True)
class Occasion:
    """An act that may come to a world, or once after each act of some kinds.

    Attributes:
        kind: The act's.
        chance: Of each such place.
        after: The kinds of acts that it may follow; none: it comes to the world, whatever happens.
        about: What it is about: the same as the other act; or each of the `roots` that this sends
            (of a backfill: its jobs); or each of the `members` that follow from those.
        seconds: When at the earliest and at the latest, after the other act or the world's start.
            For members it counts from the end of their root.
        lives: The same in lives of the job, on top.
        power: Above 1, early times are more likely.
        works: One of these is the act's `work`.
        for_s: The shortest and the longest time that it lasts; short ones are more likely.
        services: One of these is the act's `service`.
        fits: Whether a plan and the job are ones for it.
    """

    kind: str
    chance: float
    after: tuple[str, ...] = ()
    about: str = ""
    seconds: Range = (0.0, 0.0)
    lives: Range = (0.0, 0.0)
    power: int = 1
    works: Sequence[int] = (0,)
    for_s: Range = (0.0, 0.0)
    services: Sequence[str] = ("",)
    fits: Callable[[Plan, Job], bool] = _always

    def drawn(self, rng: random.Random, plan: Plan) -> Iterator[Act]:
        for name, from_s, life_s in self._places(plan):
            if rng.random() < self.chance:
                first_s, last_s = (
                    seconds + lives * life_s
                    for seconds, lives in zip(self.seconds, self.lives, strict=True)
                )
                at_s = from_s + first_s + (last_s - first_s) * rng.random() ** self.power
                shortest_s, longest_s = self.for_s
                for_s = round(shortest_s + (longest_s - shortest_s) * rng.random() ** 3)
                work, service = rng.choice(self.works), rng.choice(self.services)
                yield Act(round(max(0.0, at_s), 1), self.kind, name, work, for_s, service)

    def _places(self, plan: Plan) -> Iterator[tuple[str, float, float]]:
        """The jobs that it may be about, the time from which it counts, and how long each lives."""
        if not self.after and self.fits(plan, plan.jobs[0]):
            yield "", 0.0, 0.0
        for act in plan.acts:
            if act.kind in self.after:
                for name, job, from_s in self._jobs(plan, act):
                    if self.fits(plan, job):
                        yield name, from_s, job.work_s + AROUND_WORK_S

    def _jobs(self, plan: Plan, act: Act) -> Iterator[tuple[str, Job, float]]:
        jobs = {job.name: job for job in plan.jobs}
        if not self.about:
            yield act.job, jobs.get(act.job, plan.jobs[0]), act.at_s
            return
        for name, job in jobs.items():
            root, dot, _ = name.partition(".")
            is_of_act = root == act.job or root.startswith(f"{act.job}/")
            if is_of_act and bool(dot) == (self.about == "members"):
                yield name, job, act.at_s + (jobs[root].work_s + AROUND_WORK_S if dot else 0.0)


def with_acts(rng: random.Random, plan: Plan, occasions: Sequence[Occasion]) -> Plan:
    """The plan with what is drawn for each of the occasions; a later one may follow an earlier."""
    seed = rng.getrandbits(64)
    for each in occasions:
        what = f"{each.kind} {each.after} {each.about} {each.works} {each.services}"
        place = f"{what} {each.seconds} {each.lives}"
        plan = plan.plus(*each.drawn(rng_of(seed, place), plan))
    return plan


def _is_root(_plan: Plan, job: Job) -> bool:
    return "." not in job.name


def _is_member(_plan: Plan, job: Job) -> bool:
    return "." in job.name


def _loses_uploads(_plan: Plan, job: Job) -> bool:
    return any(each.kind == "uploads_end" for each in job.endings)


def is_pipeline(plan: Plan, _job: Job) -> bool:
    return bool(plan.clean_slots)


def _renews_often(plan: Plan, _job: Job) -> bool:
    return plan.renew_receives < Plan.renew_receives


_SUBMIT = ("submit",)
_LIFE: Range = (0.0, 1.3)
_WHILE: Range = (30.0, 30_030.0)
_SERVICES = ("dynamodb", "sqs", "s3", "stepfunctions", "ecs")
_AGAIN = (0, 3)  # the same to the letter, or not

OF_ROOTS: Sequence[Occasion] = (
    Occasion("submit", 0.10, _SUBMIT, "roots", lives=_LIFE),  # the same work again
    Occasion("submit", 0.06, _SUBMIT, "roots", lives=_LIFE, works=(1,)),  # other work under its key
    # Corrected, when it may be dead.
    Occasion("submit", 0.06, _SUBMIT, "roots", (2_500.0, 2_500.0), _LIFE, works=(2,)),
    Occasion("cancel", 0.08, _SUBMIT, "roots", lives=_LIFE),
    Occasion("stop_execution", 0.08, _SUBMIT, "roots", lives=_LIFE),
    Occasion("redrive_execution", 0.03, _SUBMIT, "roots", (60.0, 60.0), _LIFE),
    Occasion("redeliver", 0.12, _SUBMIT, "roots", lives=_LIFE, works=range(4)),
    Occasion("redeliver", 0.05, _SUBMIT, "roots", lives=(1.0, 2.3), works=range(4)),
)
"""What happens to the jobs that producers send."""

_OF_MEMBERS: Sequence[Occasion] = (
    Occasion("cancel", 0.08, _SUBMIT, "members", (0.0, 400.0)),
    Occasion("stop_execution", 0.05, _SUBMIT, "members", (0.0, 400.0)),
    Occasion("redeliver", 0.08, _SUBMIT, "members", (0.0, 400.0), works=range(4)),
    # A correction of a job that is neither dead nor cancelled does nothing.
    Occasion("correct", 0.15, _SUBMIT, "members", (0.0, 1_500.0), works=(1,)),
    Occasion("correct", 0.30, _SUBMIT, "members", (0.0, 9_000.0), works=(2,)),
    Occasion("purge", 0.01, _SUBMIT, "members", (0.0, 400.0)),
    Occasion("pause", 0.01, _SUBMIT, "members", (0.0, 400.0), for_s=_WHILE),
    Occasion("set_slots", 0.01, _SUBMIT, "members", (0.0, 400.0), works=(1, 2, 15), for_s=_WHILE),
)

_OF_THE_WORLD: Sequence[Occasion] = (
    Occasion("submit_invalid", 0.05, seconds=SOON, power=3, works=(0, 1, 3)),
    Occasion("outage", 0.12, seconds=SOON, power=3, for_s=(5.0, 905.0), services=_SERVICES),
    Occasion("outage", 0.02, seconds=SOON, power=3, for_s=(600.0, 9_000.0), services=("sqs", "s3")),
    Occasion("redrive_dead_letters", 0.06, seconds=(1_502.0, 2_300.0), power=3),
    Occasion("purge", 0.03, seconds=SOON, power=3),
    Occasion("lose_released", 0.03),
    Occasion("renewer_dies", 0.03, seconds=SOON, power=3, fits=_renews_often),
    # Settings that allow less for a while.
    Occasion("narrow", 0.05, seconds=SOON, power=3, for_s=_WHILE),
    # Stages that are paused for a while, or have other slots than the deployed.
    Occasion("pause", 0.10, seconds=SOON, power=3, for_s=_WHILE),
    Occasion("set_slots", 0.10, seconds=SOON, power=3, works=(1, 2, 15), for_s=_WHILE),
    # A topic or a bus that is out for a while; outages of queues are drawn anyhow.
    *(
        Occasion(
            "outage",
            0.3,
            seconds=SOON,
            power=3,
            for_s=(5.0, 7_205.0),
            services=(target,),
            fits=lambda plan, _job, target=target: plan.notify == target,  # type: ignore[misc]
        )
        for target in ("sns", "events")
    ),
)

_WHAT_FOLLOWS: Sequence[Occasion] = (
    # Senders who mean harm, and people who delete what is not theirs.
    Occasion("submit_hostile", 0.03, _SUBMIT, "roots", (0.0, 800.0), power=3, works=range(8)),
    Occasion(
        "submit_forged",
        0.3,
        _SUBMIT,
        "roots",
        (0.0, 800.0),
        (1.0, 1.0),
        power=3,
        works=range(4),
        fits=is_pipeline,
    ),
    Occasion("lose", 0.015, _SUBMIT, "roots", (0.0, 800.0), power=3),
    Occasion("lose", 0.01, _SUBMIT, "members", (0.0, 800.0), power=3),
    # Producers who send what can never run under the id of a job, before that or after it.
    Occasion("submit_invalid", 0.06, _SUBMIT, seconds=(-20.0, 60.0), works=(2, 3)),
    Occasion("submit_twice", 0.06, _SUBMIT),
    # A newer version ran for a while, and wrote more than this one knows.
    Occasion("roll_back", 0.06, _SUBMIT, "roots", (0.0, 800.0), power=3),
    Occasion("roll_back", 0.03, _SUBMIT, "members", (0.0, 800.0), power=3),
    # Rows that outlive their time to live, and ids that are used once more after that.
    Occasion("expire", 0.03, _SUBMIT, "roots", (2.0, 802.0), (2.0, 2.0), power=2),
    Occasion("submit", 1.0, ("expire",), seconds=(0.0, 600.0), works=(0, 1, 3)),
    # After the commit, which then turns out to be void.
    Occasion(
        "cancel", 0.5, _SUBMIT, "roots", (0.0, 2_400.0), (1.0, 1.0), power=2, fits=_loses_uploads
    ),
    Occasion(
        "cancel", 0.5, _SUBMIT, "members", (0.0, 2_400.0), (1.0, 1.0), power=2, fits=_loses_uploads
    ),
    # Requests that come while a cancel takes effect. An emitted request is never repeated to the
    # letter: its author was a job.
    Occasion("resubmit", 0.5, ("cancel",), "", (0.5, 60.5), power=2, works=_AGAIN, fits=_is_root),
    Occasion("resubmit", 0.5, ("cancel",), "", (0.5, 60.5), power=2, works=(3,), fits=_is_member),
    Occasion("cancel", 0.4, ("resubmit",), "", (0.0, 60.0), power=2),
    # Messages that come again soon after.
    Occasion(
        "redeliver",
        0.15,
        ("cancel", "stop_execution", "submit"),
        "",
        (0.0, 90.0),
        power=2,
        works=range(4),
    ),
    # Corrections soon after.
    *(
        Occasion("correct", chance, (after,), "", (0.0, 300.0), power=2, works=works, fits=fits)
        for after, chance in (("cancel", 0.6), ("stop_execution", 0.2), ("submit", 0.05))
        for works, fits in ((_AGAIN, _is_root), ((3,), _is_member))
    ),
)

OCCASIONS: Sequence[Occasion] = (*OF_ROOTS, *_OF_MEMBERS, *_OF_THE_WORLD, *_WHAT_FOLLOWS)
