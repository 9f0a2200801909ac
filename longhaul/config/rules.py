"""What the settings mean for each other: one list of small rules.

A model says what each of its settings may be. A rule looks at several, and returns cases: where it
would be wrong, whether it is, and why. `problems` is everything that is. What a request may ask for
is no rule of its own: the dispatcher's parser reads what schedules and triggers send, and what a
stage's own defaults ask for. Imports no CDK.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from graphlib import CycleError, TopologicalSorter
from itertools import chain, pairwise
from typing import Any, Final, get_args

from longhaul.config.cdk_context import meant
from longhaul.config.errors import Case, Location, Problem
from longhaul.config.known import BUCKET, known
from longhaul.config.settings import Settings
from longhaul.config.stages import StageDeployment, pascal, queue_prefix, watched
from longhaul.core.beat import MAX_VISIBILITY_S, visibility_s
from longhaul.core.descent import Lineage
from longhaul.core.errors import InvalidRequestError
from longhaul.core.places import place_of
from longhaul.core.policy import parse_request
from longhaul.core.request import TABLE
from longhaul.core.secret_refs import SecretRef
from longhaul.core.settings import RuntimeSettings, SizeName, Stage
from longhaul.pipelines.follow_ons import with_output
from longhaul.pipelines.pipeline import Pipeline

_StageRule = Callable[[StageDeployment, Settings], Iterable[Case]]

# Of a schedule's name. The names of queues may have 80 characters, and end with `-dead-letters`.
MAX_QUEUE_PREFIX: Final = 64
# With it the beats of 7 days write 22,700 events into the history of their execution, 9 a beat.
# Step Functions ends one at 25,000, and tries of beats that fail write events too.
# https://docs.aws.amazon.com/step-functions/latest/dg/service-quotas.html
LEAST_BEAT_CEILING_S: Final = 255
# What begins with the names of stages, and has others that begin so.
_TAKEN: Final = {
    "Jobs": "the first stage's outputs",
    "DeadLetter": "the first stage's outputs",
    # `slots#…` and `join#…` in the table. A task may write all items under `<stage>#`.
    "Slots": "the keys of slots",
    "Join": "the keys of joins",
}
_FOLLOWING: Final = Lineage(root="main#root", parent="main#root")
# Field of a request → the stage's setting that is its default.
_DEFAULTS: Final[Mapping[str, Location]] = {
    "job": ("job",),
    "size": ("size",),
    "output": ("follow_on", "output"),
    "engine": ("advanced", "engine"),
    "timeout": ("advanced", "timeout_s"),
    "stall_timeout": ("advanced", "stall_timeout_s"),
    "max_attempts": ("advanced", "max_attempts"),
}


def problems(settings: Settings, jobs: Sequence[str]) -> list[Problem]:
    """Everything that is wrong; `jobs` are the names of all jobs.

    Where the stages lead nowhere, the rest has no meaning yet; nor have requests without the rest.
    """
    steps = (
        (_names_apart, _leads_on),
        (_lease, _sizes, _network, _buckets, _each_stage),
        (partial(_jobs, jobs=jobs),),
    )
    for rules in steps:
        cases = chain.from_iterable(rule(settings) for rule in rules)
        if found := [Problem(location, why) for location, is_wrong, why in cases if is_wrong]:
            return found
    return []


def _names_apart(settings: Settings) -> Iterator[Case]:
    taken = dict(_TAKEN)
    for n, stage in enumerate(settings.stages):
        name = pascal(stage.name)
        yield Case(
            ("stages", n, "name"),
            name in taken,
            f"stage {stage.name!r} clashes with {taken.get(name)}: a stage's name is part of its "
            f"jobs' keys, and as {name} of its outputs, so both must be unique",
        )
        taken[name] = f"stage {stage.name!r}"


def _leads_on(settings: Settings) -> Iterator[Case]:
    names = [stage.name for stage in settings.stages]
    for n, stage in enumerate(settings.stages):
        for name in stage.next:
            yield Case(
                ("stages", n, "next"),
                name not in names,
                f"stage {stage.name!r} leads to {name!r}, which is no stage; there are: "
                f"{', '.join(names)}",
            )
    upstream = {name: [each.name for each in _before(name, settings)] for name in names}
    try:
        tuple(TopologicalSorter(upstream).static_order())
    except CycleError as error:
        circle = " → ".join(reversed(error.args[1]))
        yield Case(("stages",), True, f"stages must not lead back to themselves: {circle}")


def _before(name: str, settings: Settings) -> Sequence[StageDeployment]:
    return [each for each in settings.stages if name in each.next]


# Of the stack.


def _lease(settings: Settings) -> Iterator[Case]:
    """The longest job fits the history, and SQS shows no message before it is handed over."""
    lease = settings.lease
    yield Case(
        ("lease", "beat_ceiling_s"),
        # The local profile beats every few seconds, and its jobs last for minutes.
        lease.beat_ceiling_s < LEAST_BEAT_CEILING_S and not settings.allow_file_paths,
        f"beat_ceiling_s ({lease.beat_ceiling_s}) is below {LEAST_BEAT_CEILING_S}: a job of 7 days "
        "would write more events than Step Functions lets an execution have, 25,000",
    )
    # A beat decides by the age of the receive. One that comes just before the age is followed by
    # one after the longest wait, and that one may be as late as the visibility allows.
    longest_s = visibility_s(lease.beat_ceiling_s, 0, lease)
    latest_s = lease.hand_over_age_s + longest_s
    yield Case(
        ("lease", "hand_over_age_s"),
        latest_s > MAX_VISIBILITY_S,
        f"with these beats a hand-over comes up to {latest_s:,} s after the receive "
        f"(hand_over_age_s {lease.hand_over_age_s:,} and {longest_s:,} of the longest wait, "
        f"for which a beat extends), but SQS hides a message for {MAX_VISIBILITY_S:,} s at most; "
        "lower hand_over_age_s or beat_ceiling_s",
    )


def _sizes(settings: Settings) -> Iterator[Case]:
    every = settings.sizes.every()
    yield Case(
        ("sizes", "tiny"),
        "tiny" in every and settings.image_compression != "gzip",
        "sizes.tiny needs image_compression gzip: AWS does not say that Lambda takes images packed "
        "otherwise",
    )
    for name, larger in pairwise(each for each in get_args(SizeName) if each in every):
        size, next_ = every[name], every[larger]
        yield Case(
            ("sizes", larger),
            next_.memory_mib <= size.memory_mib or next_.disk_gib < size.disk_gib,
            f"{larger} ({next_.memory_mib} MiB, {next_.disk_gib} GiB of disk) must have more "
            f"memory than {name} ({size.memory_mib} MiB, {size.disk_gib} GiB), and no less disk: a "
            "job that ran out of memory is retried in the next size, with its inputs",
        )
    if emr := settings.emr_serverless:
        yield from emr.cases(settings.sizes, file_paths=settings.allow_file_paths)


def _network(settings: Settings) -> Iterator[Case]:
    network, is_theirs = settings.network, settings.network.vpc_id is not None
    yield Case(
        ("network",),
        is_theirs != bool(network.subnet_ids),
        "vpc_id and subnet_ids belong together: an existing VPC, and the subnets in which tasks "
        "may run",
    )
    yield Case(
        ("network",),
        is_theirs and (network.zones or network.flow_logs),
        "zones and flow_logs are of the VPC of our own, and vpc_id names one of yours",
    )
    yield Case(
        ("network", "assign_public_ip"),
        not network.assign_public_ip and not is_theirs,
        "assign_public_ip must be true without a vpc_id: the VPC of our own has no NAT, so a task "
        "without a public IP reaches nothing",
    )


def _buckets(settings: Settings) -> Iterator[Case]:
    whole = {f"s3://{each}/" for each in settings.output_buckets} & {*settings.job_prefixes}
    yield Case(
        ("job_prefixes",),
        whole,
        f"job_prefixes has the whole of {', '.join(whole)}, which jobs write (output_buckets): "
        "what a job writes there could be run; name a folder of it",
    )
    yield Case(
        ("optimized_tables",),
        settings.optimized_tables and not settings.own_database,
        "optimized_tables are tables of the stack's own database, and own_database is false; "
        "switch the optimizers on in Glue",
    )


def _stages(settings: Settings, rules: Sequence[_StageRule]) -> Iterator[Case]:
    for n, stage in enumerate(settings.stages):
        for case in chain.from_iterable(rule(stage, settings) for rule in rules):
            yield case._replace(location=("stages", n, *case.location))


def _each_stage(settings: Settings) -> Iterator[Case]:
    return _stages(settings, (_own, _follow_on, _notify, _join, _retired))


# Of a stage.


def _own(stage: StageDeployment, settings: Settings) -> Iterator[Case]:
    """Of settings that concern the stage alone."""
    own, prefix = stage.advanced, queue_prefix(settings.stack_name, stage.name)
    yield Case(
        ("name",),
        len(prefix) > MAX_QUEUE_PREFIX,
        f"stack_name and the name of the stage make {prefix!r}, with which the names of its queues "
        f"and its schedule begin: {len(prefix)} characters, and at most {MAX_QUEUE_PREFIX}",
    )
    yield Case(
        ("advanced", "role"),
        own.role and (own.policies or own.managed_policies),
        "the stage has a role of its own, which the stack does not change: put what is in "
        "policies and managed_policies into that role",
    )
    twice = sorted(own.environment.keys() & own.secrets.keys())
    yield Case(
        ("advanced", "environment"),
        twice,
        f"{', '.join(twice)} is in environment and in secrets; leave one out",
    )
    for name, text in own.secrets.items():
        yield Case(
            ("advanced", "secrets", name),
            settings.emr_serverless and SecretRef.parse(text).service == "ssm",
            f"{name} is a parameter of SSM, which jobs on emr-serverless do not reach: keep it in "
            "Secrets Manager",
        )


def _follow_on(stage: StageDeployment, settings: Settings) -> Iterator[Case]:
    """What follows into a stage shares its place there, or has one of its own."""
    output, mode = stage.follow_on.output, stage.follow_on.used_mode
    if output is None:
        return
    is_table = output.startswith(TABLE)
    shared = ("append", "overwrite_partitions") if is_table else ("append", "error")
    yield Case(
        ("follow_on", "mode"),
        not stage.join and mode not in shared,
        f"with the mode {mode} each job would replace what the last one wrote, or fail on it; let "
        f"it be {' or '.join(shared)}",
    )
    yield Case(
        ("follow_on", "output"),
        is_table and "{" in output,
        "a table has one name; {label}, {stage} and {n} are for a prefix",
    )
    if is_table or mode != "error":
        return
    yield Case(
        ("follow_on", "output"),
        "{label}" not in output,
        "only one job could write there; put {label} in it, or let the mode be append",
    )
    others = {each.name: each.follow_on.output for each in settings.stages if each is not stage}
    for name, place in others.items():
        yield Case(
            ("follow_on", "output"),
            place and _folder(output, stage.name).startswith(_folder(place, name)),
            f"is inside the output of stage {name}, whose jobs it would refuse; put {{stage}} in "
            "it",
        )


def _folder(output: str, stage: str) -> str:
    """The place with the stage's name in it, as a folder: `day` is not around `days`."""
    return f"{output.replace('{stage}', stage).rstrip('/')}/"


def _notify(stage: StageDeployment, settings: Settings) -> Iterator[Case]:
    notify, place = stage.advanced.notify or "", ("advanced", "notify")
    yield Case(
        place,
        "${Token[" in notify,
        "has a name when it is deployed, not before: give the queue, topic or bus itself to the "
        f"construct, as notify={{{stage.name!r}: …}}",
    )
    prefixes = [queue_prefix(settings.stack_name, each.name) for each in settings.stages]
    ours = tuple(f":{each}-{kind}" for each in prefixes for kind in ("jobs", "dead-letters"))
    yield Case(
        place,
        ":sqs:" in notify and notify.endswith(ours),
        f"{notify.rpartition(':')[2]} is a queue of the stack, and events are no jobs; jobs that "
        "follow are the `next` of a stage",
    )


def _join(stage: StageDeployment, settings: Settings) -> Iterator[Case]:
    """One stage is the opener of a join, and all that leads there passes it."""
    if not stage.join:
        return
    name, sources = stage.name, [each.name for each in _before(stage.name, settings)]
    if len(sources) != 1:
        yield Case(
            ("join",),
            # Of a retired one the stages before it may be gone.
            sources or not stage.advanced.retired,
            f"stage {name!r} joins what comes through one stage; "
            + (f"{', '.join(sources)} lead to it" if sources else "none leads to it"),
        )
        return
    pipeline = Pipeline(settings.stages)
    opener, before, splits = pipeline.opener(name), pipeline.collected(name), pipeline.splits(name)
    # While a stage between them is retired, nothing leads there any more. No job of the join, or of
    # a stage behind it, ever led there.
    may_have_led = not pipeline.is_behind(opener, name) and any(
        each.advanced.retired and pipeline.leads(each.name, name) for each in settings.stages
    )
    yield Case(
        ("join",),
        all(each.name != opener for each in settings.stages)
        or not (pipeline.leads(opener, name) or may_have_led),
        f"stage {name!r} joins what descends from {opener!r}, which is no stage that leads to "
        f"{before!r}, the stage before it, but by another join of several of its jobs; name "
        f"one that does: {', '.join(splits) or before}",
    )
    choices = " or ".join(f'"join": "{each}"' for each in splits)
    yield Case(
        ("join",),
        stage.join is True and len(splits) > 1,
        f"stage {name!r} joins, and {' and '.join(splits)} can each split what leads to it: write "
        f"whose jobs it belongs to, one start for each, {choices}",
    )
    around = pipeline.around(name)
    yield Case(
        ("join",),
        around,
        f"stage {name!r} joins what descends from {opener!r}, and {', '.join(around)} leads to "
        f"{before!r} without passing {opener!r}: such jobs would belong to no start; name a stage "
        "that all pass",
    )


def _retired(stage: StageDeployment, settings: Settings) -> Iterator[Case]:
    retired = stage.advanced.retired
    yield Case(
        ("advanced", "retired"),
        retired and (stage.schedule or stage.advanced.on_object),
        f"stage {stage.name!r} is retired, and its schedule or on_object would go on sending jobs; "
        "take it out",
    )
    for each in _before(stage.name, settings):
        yield Case(
            ("advanced", "retired"),
            retired and not each.advanced.retired,
            f"stage {each.name!r} leads to {stage.name!r}, which is retired: what follows from its "
            f"jobs would wait without end; take {stage.name!r} out of its `next`, or retire "
            f"{each.name!r} first",
        )


# Of jobs and requests.


def _jobs(settings: Settings, jobs: Sequence[str]) -> Iterator[Case]:
    there = known(settings, jobs)
    return _stages(settings, (partial(_named, there=there), partial(_asked, there=there)))


def _named(stage: StageDeployment, _: Settings, there: RuntimeSettings) -> Iterator[Case]:
    """Each job that is named is there."""
    limited, alarms = there.stage(stage.name).limits.jobs or (), stage.advanced.alarms
    named: dict[Location, str] = {("job",): stage.job} if stage.job else {}
    named |= {("advanced", "limits", "jobs", n): each for n, each in enumerate(limited)}
    named |= {("advanced", "alarms", n): watched(each).job for n, each in enumerate(alarms)}
    for place, name in named.items():
        yield Case(
            place,
            name not in there.jobs and not name.startswith(there.paths.job_prefixes),
            f"there is no job {name!r}; {meant(name, there.jobs)}there are: "
            f"{', '.join(there.jobs)}",
        )


def _asked(stage: StageDeployment, settings: Settings, there: RuntimeSettings) -> Iterator[Case]:
    """The dispatcher takes what the stage asks for: as schedule, trigger, and by default."""
    seen, trigger = there.stage(stage.name), stage.advanced.on_object
    for place, body in (
        (("schedule", "request"), stage.schedule and stage.schedule.example()),
        (("advanced", "on_object", "request"), trigger and trigger.example(BUCKET)),
    ):
        for why in _refused(body, settings, there, seen) if body else ():
            yield Case(place, True, why)
    # Where no stage leads here, each request names its output, and a job if the stage has none.
    leads_here = _before(stage.name, settings)
    is_named = {"output": not leads_here, "job": not leads_here and not stage.job}
    for why in _refused(_by_default(seen, there), settings, there, seen):
        field = why.partition(":")[0]
        is_wrong = not is_named.get(field) and not why.startswith("job: unknown")  # as above
        yield Case(_DEFAULTS.get(field, ()), is_wrong, why)


def _by_default(stage: Stage, there: RuntimeSettings) -> dict[str, Any]:
    """What a job has in the stage that follows from another, and names nothing."""
    return {
        "job": stage.job,
        "size": stage.size,
        "engine": stage.engine,
        "timeout": f"{stage.timeout_s}s",
        "stall_timeout": f"{stage.stall_timeout_s}s",
        "max_attempts": stage.max_attempts,
        **with_output(stage, "root/stage/0123456789abcdef", {}, _FOLLOWING, there),
    }


def _refused(
    body: Mapping[str, Any], settings: Settings, there: RuntimeSettings, stage: Stage
) -> Iterator[str]:
    """Why the dispatcher's own parser refuses a request, or a trigger would answer to its files."""
    try:
        request = parse_request(json.dumps(body), there, stage)
    except InvalidRequestError as error:
        yield from error.problems
        return
    for name, output in request.places.items():
        for other in settings.stages:
            trigger = other.advanced.on_object
            if trigger and place_of(output, BUCKET).startswith(
                f"s3://{trigger.bucket or BUCKET}/{trigger.prefix}"
            ):
                yield (
                    f"{name}: is below {trigger.prefix}, so each of its files would start a job of "
                    f"{other.name}; name another prefix"
                )
