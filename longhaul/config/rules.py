"""What the settings mean for each other: one list of small rules.

A model says what each of its settings may be. A rule looks at several, and returns cases: where it
would be wrong, whether it is, and why. `problems` is everything that is. Imports no CDK.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from graphlib import CycleError, TopologicalSorter
from itertools import chain, pairwise
from typing import Final, get_args

from longhaul.config.beat_limits import beat_cases
from longhaul.config.errors import Case, Location, Problem
from longhaul.config.rights import bucket_in
from longhaul.config.settings import Settings, database_name
from longhaul.config.stages import StageDeployment, pascal, queue_prefix
from longhaul.domain.beat import least_stall_timeout_s
from longhaul.domain.lineage import MAX_OPENED
from longhaul.domain.paths import TABLES_PREFIX, follow_ons_prefix
from longhaul.domain.pipeline import MAX_LENGTH, Pipeline
from longhaul.domain.secret_refs import SecretRef
from longhaul.domain.tables import TablePath
from longhaul.engines.listed import engine_named
from longhaul.settings import SizeName

_Rule = Callable[[Settings], Iterable[Case]]
_StageRule = Callable[[StageDeployment, Settings], Iterable[Case]]

MAX_QUEUE_NAME: Final = 80
MAX_SCHEDULE_NAME: Final = 64
# Of IAM's 10,240 for the policies of a role. Ours take two thousand and more.
_MAX_POLICIES: Final = 6_000
# The slots and the arrivals at joins are in the table as `slots#…` and `join#…`. A task may write
# all items under `<stage>#`.
_KEYS_OF_OURS: Final = ("slots", "join")


def problems(settings: Settings) -> Iterator[Problem]:
    """Everything that is wrong. Where the stages lead nowhere, the rest has no meaning yet."""
    first = list(_wrong(chain(_names_apart(settings), _leads_on(settings))))
    yield from first
    if first:
        return
    for rule in _OF_THE_STACK:
        yield from _wrong(rule(settings))
    for n, stage in enumerate(settings.stages):
        for of_a_stage in _OF_A_STAGE:
            for each in _wrong(of_a_stage(stage, settings)):
                yield Problem(("stages", n, *each.location), each.why)


def _wrong(cases: Iterable[Case]) -> Iterator[Problem]:
    return (Problem(location, why) for location, is_wrong, why in cases if is_wrong)


def _names_apart(settings: Settings) -> Iterator[Case]:
    taken = {"Jobs": "the first stage's outputs", "DeadLetter": "the first stage's outputs"}
    for n, stage in enumerate(settings.stages):
        place, name = ("stages", n, "name"), pascal(stage.name)
        yield Case(
            place,
            name in taken,
            f"stage {stage.name!r} clashes with {taken.get(name)}: a stage's name is part of its "
            f"jobs' keys, and as {name} of its outputs, so both must be unique",
        )
        yield Case(
            place,
            stage.name in _KEYS_OF_OURS,
            f"the stage {stage.name!r} would have its jobs under keys that Longhaul uses itself: "
            "give it another name",
        )
        taken[name] = f"stage {stage.name!r}"


def _leads_on(settings: Settings) -> Iterator[Case]:
    names = [stage.name for stage in settings.stages]
    for n, stage in enumerate(settings.stages):
        for name, times in Counter(stage.next).items():
            place = ("stages", n, "next")
            yield Case(
                place,
                name not in names,
                f"stage {stage.name!r} leads to {name!r}, which is no stage; there are: "
                f"{', '.join(names)}",
            )
            yield Case(
                place, times > 1, f"stage {name!r} is named twice in one `next`: name it once"
            )
    upstream = {
        name: [each.name for each in settings.stages if name in each.next] for name in names
    }
    try:
        tuple(TopologicalSorter(upstream).static_order())
    except CycleError as error:
        circle = " → ".join(reversed(error.args[1]))
        yield Case(("stages",), True, f"stages must not lead back to themselves: {circle}")


# Of the stack.


def _length(settings: Settings) -> Iterator[Case]:
    """No pipeline is longer than what a job can carry of those before it."""
    following = {stage.name: stage.next for stage in settings.stages}

    @cache
    def length(name: str) -> int:
        return 1 + max(map(length, following[name]), default=0)

    first = max(following, key=length)
    yield Case(
        ("stages",),
        length(first) > MAX_LENGTH,
        f"{length(first)} stages follow one another from {first!r} on; at most {MAX_LENGTH}: let "
        "the last of one pipeline send jobs to the first of another",
    )


def _beats(settings: Settings) -> Iterable[Case]:
    # The local profile beats every few seconds, and its jobs last for minutes.
    return beat_cases(settings.lease) if not settings.allow_file_paths else ()


def _lease(settings: Settings) -> Iterator[Case]:
    for low, high in (
        ("beat_floor_s", "beat_ceiling_s"),
        ("backoff_base_s", "backoff_cap_s"),
        ("defer_min_s", "defer_max_s"),
    ):
        least, most = getattr(settings.lease, low), getattr(settings.lease, high)
        yield Case(("lease", low), least > most, f"{low} ({least}) must not exceed {high} ({most})")


def _sizes(settings: Settings) -> Iterator[Case]:
    tiny, sizes = settings.sizes.tiny, settings.sizes.by_name()
    yield Case(
        ("sizes", "tiny"),
        tiny and settings.image_compression != "gzip",
        "sizes.tiny needs image_compression gzip: AWS does not say that Lambda takes images packed "
        "otherwise",
    )
    every = sizes | ({"tiny": tiny} if tiny else {})
    order = [name for name in get_args(SizeName) if name in every]
    for name, larger in pairwise(order):
        size, next_ = every[name], every[larger]
        yield Case(
            ("sizes", larger),
            next_.memory_mib <= size.memory_mib,
            f"{larger} ({next_.memory_mib} MiB) must have more memory than {name} "
            f"({size.memory_mib} MiB): a job that ran out of memory is retried in the next size",
        )
        yield Case(
            ("sizes", larger),
            next_.disk_gib < size.disk_gib,
            f"{larger} ({next_.disk_gib} GiB) must not have less disk than {name} "
            f"({size.disk_gib} GiB): a job that ran out of memory is retried in the next size, and "
            "its inputs must fit there too",
        )


def _emr_serverless(settings: Settings) -> Iterable[Case]:
    emr = settings.emr_serverless
    return emr.cases(settings.sizes, file_paths=settings.allow_file_paths) if emr else ()


def _network(settings: Settings) -> Iterator[Case]:
    network = settings.network
    is_theirs = network.vpc_id is not None
    yield Case(
        ("network", "vpc_id"),
        is_theirs and not network.subnet_ids,
        "subnet_ids is missing: an existing vpc_id needs the subnets in which tasks may run",
    )
    yield Case(
        ("network", "subnet_ids"),
        network.subnet_ids and not is_theirs,
        "vpc_id is missing: subnet_ids belong to an existing VPC",
    )
    yield Case(
        ("network", "zones"),
        network.zones and is_theirs,
        "zones are of the VPC of our own: subnet_ids name those of yours",
    )
    yield Case(
        ("network", "flow_logs"),
        network.flow_logs and is_theirs,
        "flow_logs belong to the VPC of our own: vpc_id names one of yours",
    )
    yield Case(
        ("network", "assign_public_ip"),
        not network.assign_public_ip and not is_theirs,
        "assign_public_ip must be true without a vpc_id: the VPC of our own has no NAT, so a task "
        "without a public IP reaches nothing",
    )


def _buckets(settings: Settings) -> Iterator[Case]:
    # Each of these is the name of a construct.
    for setting in ("input_buckets", "output_buckets", "optimized_tables"):
        twice = [name for name, n in Counter(getattr(settings, setting)).items() if n > 1]
        yield Case((setting,), twice, f"{setting} names {', '.join(twice)} twice: name it once")
    for n, prefix in enumerate(settings.job_prefixes):
        bucket = bucket_in(prefix)
        yield Case(
            ("job_prefixes", n),
            prefix == f"s3://{bucket}/" and bucket in settings.output_buckets,
            f"job_prefixes has the whole bucket {bucket!r}, which jobs write (output_buckets): "
            "what a job writes there could be run; name a folder of it",
        )
    known = sorted({*settings.input_buckets, *settings.output_buckets, *settings.code_buckets})
    for bucket in settings.kms_keys:
        yield Case(
            ("kms_keys", bucket),
            bucket not in known,
            f"kms_keys names the bucket {bucket!r}, which no job reads or writes; there are: "
            f"{', '.join(known) or 'none'} (input_buckets, output_buckets and the buckets of "
            "job_prefixes)",
        )


def _databases(settings: Settings) -> Iterator[Case]:
    own = database_name(settings.stack_name)
    yield Case(
        ("table_databases",),
        settings.own_database and own in settings.table_databases,
        f"table_databases names {own!r}, which is the stack's own: the stack makes it, and it is "
        "always allowed; take it out, or set own_database to false, if it is there already",
    )
    yield Case(
        ("optimized_tables",),
        settings.optimized_tables and not settings.own_database,
        "optimized_tables are tables of the stack's own database, and own_database is false; "
        "switch the optimizers on in Glue",
    )
    for name, is_set, what in (
        ("catalog_key", settings.catalog_key, "is the key of tables"),
        ("lake_formation", settings.lake_formation, "grants rights in databases"),
    ):
        yield Case(
            (name,),
            is_set and not settings.databases,
            f"{name} {what}, of which there are none: own_database is false, and table_databases "
            "is empty",
        )


# Of a stage.


def _before(stage: StageDeployment, settings: Settings) -> Sequence[StageDeployment]:
    return [each for each in settings.stages if stage.name in each.next]


def _named(stages: Iterable[StageDeployment]) -> str:
    return ", ".join(each.name for each in stages)


def _within_limits(stage: StageDeployment, _: Settings) -> Iterator[Case]:
    own, limits = stage.advanced, stage.advanced.limits
    for name, limit in (
        ("timeout_s", "max_timeout_s"),
        ("stall_timeout_s", "max_stall_timeout_s"),
        ("max_attempts", "max_attempts"),
    ):
        value, most = getattr(own, name), getattr(limits, limit)
        why = f"{name} ({value:,}) is above limits.{limit} ({most:,}); raise the limit"
        yield Case(("advanced", name), value > most, why)
    sizes = get_args(SizeName)
    yield Case(
        ("size",),
        sizes.index(stage.size) > sizes.index(limits.max_size),
        f"size {stage.size} is above advanced.limits.max_size ({limits.max_size}); raise the limit",
    )
    yield Case(
        ("job",),
        stage.job and limits.jobs and stage.job not in limits.jobs,
        f"the job {stage.job!r} is not in advanced.limits.jobs "
        f"({', '.join(limits.jobs or ())}); add it",
    )


def _stalls(stage: StageDeployment, settings: Settings) -> Iterator[Case]:
    """A late report is no stall."""
    stall_s, least_s = stage.advanced.stall_timeout_s, least_stall_timeout_s(settings.lease)
    yield Case(
        ("advanced", "stall_timeout_s"),
        stall_s < least_s,
        f"stage {stage.name!r}: stall_timeout_s ({stall_s}) is too short for jobs that report "
        f"every {settings.lease.progress_period_s:g} s (lease.progress_period_s); at least "
        f"{least_s}",
    )


def _engine(stage: StageDeployment, settings: Settings) -> Iterator[Case]:
    engine = stage.advanced.engine
    yield Case(
        ("size",),
        stage.size == "tiny" and (settings.sizes.tiny is None or engine != "fargate"),
        f"stage {stage.name!r} has the size tiny, which needs the setting sizes.tiny ({{}} will "
        "do) and no other engine",
    )
    yield Case(
        ("advanced", "engine"),
        engine == "emr-serverless" and settings.emr_serverless is None,
        f"stage {stage.name!r} runs on emr-serverless, which needs the setting emr_serverless "
        "({} will do)",
    )


def _places(stage: StageDeployment, settings: Settings) -> Iterator[Case]:
    """Jobs read and write where the stack's settings let them."""
    writable, limits = settings.output_buckets, stage.advanced.limits
    readable = (*settings.input_buckets, *writable)
    trigger = stage.advanced.on_object
    yield Case(
        ("advanced", "on_object", "bucket"),
        trigger and trigger.bucket and trigger.bucket not in readable,
        f"stage {stage.name!r} has an on_object for the bucket {trigger and trigger.bucket!r}, "
        "which jobs may not read; add it to input_buckets",
    )
    for name, prefixes, known, setting in (
        ("input_prefixes", limits.input_prefixes, readable, "input_buckets or output_buckets"),
        ("output_prefixes", limits.output_prefixes, writable, "output_buckets"),
    ):
        for n, prefix in enumerate(prefixes or ()):
            bucket = bucket_in(prefix)
            yield Case(
                ("advanced", "limits", name, n),
                bucket and bucket not in known,
                f"stage {stage.name!r} has {prefix!r} in limits.{name}, and jobs may not use the "
                f"bucket {bucket!r}; add it to {setting}",
            )


def _rights(stage: StageDeployment, settings: Settings) -> Iterator[Case]:
    own = stage.advanced
    yield Case(
        ("advanced", "role"),
        own.role and (own.policies or own.managed_policies),
        "the stage has a role of its own, which the stack does not change: put what is in "
        "policies and managed_policies into that role",
    )
    for sid, times in Counter(each.Sid for each in own.policies if each.Sid).items():
        why = f"policies has two statements with the Sid {sid}; IAM takes each once"
        yield Case(("advanced", "policies"), times > 1, why)
    statements = [each.model_dump(exclude_defaults=True) for each in own.policies]
    length = len(json.dumps(statements, separators=(",", ":")))
    yield Case(
        ("advanced", "policies"),
        length > _MAX_POLICIES,
        f"policies has {length:,} characters, and a role has room for {_MAX_POLICIES:,}; put some "
        "into a managed policy (managed_policies)",
    )
    named: dict[Location, str] = {("role",): own.role or ""}
    named |= {("managed_policies", n): each for n, each in enumerate(own.managed_policies)}
    for place, arn in named.items():
        account = arn.split(":")[4] if arn.startswith("arn:") else "aws"
        what = "role" if place == ("role",) else "managed policy"
        yield Case(
            ("advanced", *place),
            account != "aws" and settings.account not in (None, account),
            f"stage {stage.name!r} has a {what} of the account {account}, and the stack is in "
            f"{settings.account}: name one of there, or a policy of AWS's own",
        )


def _variables(stage: StageDeployment, settings: Settings) -> Iterator[Case]:
    twice = sorted(stage.advanced.environment.keys() & stage.advanced.secrets.keys())
    yield Case(
        ("advanced", "environment"),
        twice,
        f"{', '.join(twice)} is in environment and in secrets; leave one out",
    )
    for name, text in stage.advanced.secrets.items():
        ref = SecretRef.parse(text)
        yield Case(
            ("advanced", "secrets", name),
            ref.region and settings.region not in (None, ref.region),
            f"stage {stage.name!r} has a secret {name} in {ref.region}, and the stack is in "
            f"{settings.region}: name one of there, such as a replica",
        )
        yield Case(
            ("advanced", "secrets", name),
            ref.service == "ssm" and settings.emr_serverless is not None,
            f"stage {stage.name!r} has the parameter of SSM {name} in its secrets, which jobs on "
            "emr-serverless do not reach: keep it in Secrets Manager",
        )


def _queue_names(stage: StageDeployment, settings: Settings) -> Iterator[Case]:
    stack, name = settings.stack_name, stage.name
    prefix = queue_prefix(stack, stage)
    longest = f"{prefix}-dead-letters"
    yield Case(
        ("name",),
        len(longest) > MAX_QUEUE_NAME,
        f"stack_name and the name of stage {name!r} together make a queue name of {len(longest)} "
        f"characters ({longest}); SQS allows {MAX_QUEUE_NAME}",
    )
    # A schedule has the name with which its stage's queues begin.
    yield Case(
        ("schedule",),
        stage.schedule and len(prefix) > MAX_SCHEDULE_NAME,
        f"stage {name!r} has a schedule, whose name would have {len(prefix)} characters "
        f"({prefix}); EventBridge Scheduler allows {MAX_SCHEDULE_NAME}: shorten the stack_name, or "
        "give the stage a shorter name or queue_prefix",
    )
    before, _, last = name.rpartition("-")
    yield Case(
        ("name",),
        before and stage.advanced.queue_prefix is None,
        f"stage {name!r} would have the queue {prefix}-jobs, as would a stage {last!r} of a stack "
        f"'{stack}-{before}'; name the stage without a hyphen, or, to keep queues that are "
        f"deployed, give it the queue_prefix {prefix!r}",
    )
    earlier = settings.stages[: settings.stages.index(stage)]
    taken = [each.name for each in earlier if queue_prefix(stack, each) == prefix]
    yield Case(
        ("advanced", "queue_prefix"),
        taken,
        f"stage {name!r} would have the queue {prefix}-jobs, which is that of stage "
        f"{', '.join(map(repr, taken))}; give it another queue_prefix",
    )


def _notices_leave(stage: StageDeployment, settings: Settings) -> Iterator[Case]:
    notify, place = stage.advanced.notify or "", ("advanced", "notify")
    is_to_come = "${Token[" in notify
    yield Case(
        place,
        is_to_come,
        "has a name when it is deployed, not before: give the queue, topic or bus itself to the "
        f"construct, as notify={{{stage.name!r}: …}}",
    )
    ours = {
        f"{queue_prefix(settings.stack_name, each)}-{kind}": each.name
        for each in settings.stages
        for kind in ("jobs", "dead-letters")
    }
    # Of none, and of what is to come, the name alone has a text.
    *_, service, region, account, name = ("", "", "", *notify.split(":"))
    is_here = settings.account in (None, account) and settings.region in (None, region)
    yield Case(
        place,
        service == "sqs" and name in ours and is_here,
        f"stage {stage.name!r} would notify the queue {name}, which is that of stage "
        f"{ours.get(name)!r}: its events are no jobs; jobs that follow are the `next` of a stage",
    )


def _follows(stage: StageDeployment, settings: Settings) -> Iterator[Case]:
    """A follow-on has a job, and may write where it is sent when it names no output."""
    before = _before(stage, settings)
    prefixes, place = stage.advanced.limits.output_prefixes, follow_ons_prefix(stage.name)
    yield Case(
        ("job",),
        before and stage.job is None,
        f"stage {stage.name!r} needs a `job`: what follows a success of {_named(before)} runs it, "
        "unless that names another",
    )
    yield Case(
        ("advanced", "limits", "output_prefixes"),
        before and not stage.follow_on.output and prefixes and not place.startswith(prefixes),
        f"stage {stage.name!r} follows {_named(before)}, and jobs that follow write below {place} "
        f"of the data bucket, unless they name another output; add {place!r} to its "
        "limits.output_prefixes",
    )


def _follow_on_table(stage: StageDeployment, settings: Settings) -> Iterator[Case]:
    """Follow-ons may write to the table that is named for them, and what follows may read it."""
    output = stage.follow_on.output
    if output is None:
        return
    table, prefixes = TablePath.of(output), stage.advanced.limits.output_prefixes
    place, here = f"{TABLES_PREFIX}{table.database}/{table.name}/", ("follow_on", "output")
    yield Case(
        here,
        table.database not in settings.databases,
        f"stage {stage.name!r} has the follow_on.output {output}, in a database that is neither "
        f"the stack's own, {database_name(settings.stack_name)!r}, nor in table_databases",
    )
    yield Case(
        here,
        not _before(stage, settings),
        f"stage {stage.name!r} has a follow_on, and no stage leads to it: name it in the `next` of "
        "one",
    )
    yield Case(
        here,
        not engine_named(stage.advanced.engine).has_tables,
        f"stage {stage.name!r} runs on {stage.advanced.engine}, whose jobs write to no tables; "
        "take its follow_on out",
    )
    for each in (each for each in settings.stages if each.name in stage.next):
        yield Case(
            here,
            not engine_named(each.advanced.engine).has_tables,
            f"stage {each.name!r} runs on {each.advanced.engine}, whose jobs read no tables, and "
            f"gets the follow_on.output of {stage.name!r}; take that out",
        )
    yield Case(
        ("follow_on", "mode"),
        not stage.join and stage.follow_on.mode not in ("append", "overwrite_partitions"),
        f"stage {stage.name!r} has the follow_on.mode {stage.follow_on.mode}, and each job would "
        "replace what the last one wrote, or fail on it; let it be append or overwrite_partitions",
    )
    yield Case(
        ("advanced", "limits", "output_prefixes"),
        prefixes and not place.startswith(prefixes),
        f"stage {stage.name!r} has the follow_on.output {output}, which is at {place} in the data "
        f"bucket; add {place!r} to its limits.output_prefixes",
    )


def _join(stage: StageDeployment, settings: Settings) -> Iterator[Case]:
    """One stage is the opener of a join, and all that leads there passes it."""
    pipeline, name = Pipeline(settings.stages), stage.name
    count = len(pipeline.opened_by(name))
    yield Case(
        ("name",),
        count > MAX_OPENED,
        f"{count} joins may belong to the jobs of stage {name!r}; at most {MAX_OPENED}",
    )
    sources = _before(stage, settings)
    if not stage.join or len(sources) != 1:
        yield Case(
            ("join",),
            # Of a retired one the stages before it may be gone.
            stage.join and (sources or not stage.advanced.retired),
            f"stage {name!r} joins what comes through one stage; "
            + (f"{_named(sources)} lead to it" if sources else "none leads to it"),
        )
        return
    opener, before, splits = pipeline.opener(name), pipeline.collected(name), pipeline.splits(name)
    if isinstance(stage.join, str):
        # While a stage between them is retired, nothing leads there any more. No job of the join,
        # or of a stage behind it, ever led there.
        may_have_led = not pipeline.is_behind(opener, name) and any(
            each.advanced.retired and pipeline.leads(each.name, name) for each in settings.stages
        )
        is_stage = any(each.name == opener for each in settings.stages)
        yield Case(
            ("join",),
            not is_stage,
            f"stage {name!r} joins what descends from {opener!r}, which is no stage; there are: "
            f"{_named(settings.stages)}",
        )
        yield Case(
            ("join",),
            is_stage and not pipeline.leads(opener, name) and not may_have_led,
            f"stage {name!r} joins what descends from {opener!r}, which does not lead to "
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
    if not stage.advanced.retired:
        return
    what = f"stage {stage.name!r} is retired and has"
    yield Case(
        ("schedule",),
        stage.schedule,
        f"{what} a schedule, which would go on sending jobs; take the schedule out",
    )
    yield Case(
        ("advanced", "on_object"),
        stage.advanced.on_object,
        f"{what} an on_object, which would go on sending jobs; take it out",
    )
    for each in _before(stage, settings):
        yield Case(
            ("advanced", "retired"),
            not each.advanced.retired,
            f"stage {each.name!r} leads to {stage.name!r}, which is retired: what follows from its "
            f"jobs would wait without end; take {stage.name!r} out of its `next`, or retire "
            f"{each.name!r} first",
        )


_OF_THE_STACK: Final[Sequence[_Rule]] = (
    *(_beats, _lease, _sizes, _emr_serverless, _network, _buckets, _databases, _length),
)
_OF_A_STAGE: Final[Sequence[_StageRule]] = (
    *(_within_limits, _stalls, _engine, _places, _rights, _variables, _queue_names),
    *(_notices_leave, _follows, _follow_on_table, _join, _retired),
)
