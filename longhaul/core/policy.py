"""What the settings of now allow a request to ask for, and where an output must not go. Pure.

Judged where a claim starts a run, by `longhaul submit` before it sends, by `emit`, and at synth for
what a schedule sends: always by this one function. A run that has started is never judged again.
"""

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Final, Literal, get_args

from longhaul.core.beat import least_stall_timeout_s
from longhaul.core.durations import format_duration
from longhaul.core.engine import TINY, has_tables
from longhaul.core.errors import InvalidRequestError
from longhaul.core.places import (
    OF_DATASET,
    DataPath,
    TablePath,
    is_glob,
    is_table,
    matches,
    parse_input,
    parse_job,
    parse_output,
    parse_readable,
    parse_table,
    parse_table_input,
)
from longhaul.core.request import MAX_PROBLEMS, JobRequest, read_request
from longhaul.core.settings import LeaseSettings, PathPolicy, RuntimeSettings, SizeName, Stage

_MAX_GLOBS: Final = 100
"""Each segment of a glob is compiled, at each look at the message: 1 MiB of them takes seconds."""


def parse_request(body: str, settings: RuntimeSettings, stage: Stage) -> JobRequest:
    """The request in a body, for a run that starts in `stage` now.

    Raises:
        InvalidRequestError: it cannot run; `problems` says why, without quoting the body.
    """
    request = read_request(body, settings.paths)
    check_policy(request, settings, stage)
    return request


def check_policy(request: JobRequest, settings: RuntimeSettings, stage: Stage) -> None:
    """Whether the settings of now let a run with this request start in `stage`.

    A run that has started is never judged again: a deploy that narrows the settings must not take
    the message of a job that runs or waits.

    Raises:
        InvalidRequestError: the catalogue, the engines, the limits of the stage or the allowed
            places forbid it.
    """
    problems = [
        *_job_problems(request, settings, stage),
        *_ceiling_problems(request, stage, settings.lease),
        *_place_problems(request, settings, stage),
    ]
    if problems:
        raise InvalidRequestError(problems[:MAX_PROBLEMS])


def _job_problems(request: JobRequest, settings: RuntimeSettings, stage: Stage) -> Iterator[str]:
    if request.job is None:
        if stage.job is None:
            yield (
                f"job: is missing, and stage {stage.name} has no default; "
                f"known: {', '.join(settings.jobs)}"
            )
    elif request.job.startswith("s3://"):
        try:
            parse_job(request.job, settings.paths)
        except ValueError as error:
            yield f"job: {error}"
        else:
            yield from _unlisted_job(request.job, stage)
    elif request.job not in settings.jobs:
        yield f"job: unknown job; known: {', '.join(settings.jobs)}"
    else:
        yield from _unlisted_job(request.job, stage)
    engine, size = request.engine or stage.engine, request.size or stage.size
    if size == TINY and not settings.has_tiny:
        yield f"size: this stack has no {size}: its settings have no sizes.{size}"
    elif size == TINY and engine != "fargate":
        yield f"size: {size} is a Lambda function; on {engine} the smallest size is small"
    if engine not in settings.engines:
        yield f"engine: this stack has no {engine}; it has: {', '.join(settings.engines)}"


def _unlisted_job(job: str, stage: Stage) -> Iterator[str]:
    allowed = stage.limits.jobs
    if allowed is None or job in allowed:
        return
    # A name of the catalogue has no slash, so only code on S3 is below a prefix.
    if not job.startswith(tuple(each for each in allowed if each.endswith("/"))):
        yield f"job: stage {stage.name} runs only {', '.join(allowed) or 'none'} (limits.jobs)"


def _ceiling_problems(request: JobRequest, stage: Stage, timing: LeaseSettings) -> Iterator[str]:
    """What the request asks for by itself; the stage's defaults are checked at synth."""
    limits = stage.limits
    sizes: tuple[SizeName, ...] = get_args(SizeName)
    if request.size is not None and sizes.index(request.size) > sizes.index(limits.max_size):
        yield _above("size", request.size, stage, limits.max_size, "max_size")
    for name, asked_s, ceiling_s in (
        ("timeout", request.timeout, limits.max_timeout_s),
        ("stall_timeout", request.stall_timeout, limits.max_stall_timeout_s),
    ):
        if asked_s is not None and asked_s > ceiling_s:
            ceiling = format_duration(ceiling_s)
            yield _above(name, format_duration(asked_s), stage, ceiling, f"max_{name}_s")
    if request.max_attempts is not None and request.max_attempts > limits.max_attempts:
        yield _above(
            "max_attempts",
            str(request.max_attempts),
            stage,
            str(limits.max_attempts),
            "max_attempts",
        )
    least_s = least_stall_timeout_s(timing)
    if request.stall_timeout is not None and request.stall_timeout < least_s:
        yield (
            f"stall_timeout: {format_duration(request.stall_timeout)} is too short for a job that"
            f" reports every {timing.progress_period_s:g} s; at least {format_duration(least_s)}"
        )


def _above(field: str, asked: str, stage: Stage, ceiling: str, setting: str) -> str:
    return (
        f"{field}: {asked} is above the ceiling of stage {stage.name}, {ceiling} (limits.{setting})"
    )


def _place_problems(request: JobRequest, settings: RuntimeSettings, stage: Stage) -> Iterator[str]:
    globs = sum(is_glob(text) for text in request.inputs.values() if not is_table(text))
    if globs > _MAX_GLOBS:
        yield f"inputs: {globs:,} globs, at most {_MAX_GLOBS}: name prefixes or objects instead"
        return
    inputs = {}
    for name, text in request.inputs.items():
        try:
            if is_table(text):
                _require_table_input(text, request, settings, stage)
            else:
                inputs[name] = require_readable(text, settings, stage)
        except ValueError as error:
            yield f"inputs.{name}: {error}"
    outputs: dict[str, DataPath | TablePath] = {}
    for field, text in request.places.items():
        try:
            if is_table(text):
                outputs[field] = table = parse_table(text, settings.paths)
                require_writable(f"{table.location(settings.paths.data_bucket)}/", stage)
            else:
                outputs[field] = path = parse_output(text, settings.paths)
                require_writable(str(path), stage)
                yield from overlaps(field, path, inputs, settings.paths)
        except ValueError as error:
            yield f"{field}: {error}"
        if is_table(text):
            yield from _engine_problems(field, request, settings, stage)
    yield from overlapping_outputs(outputs)
    if request.mode == "overwrite_partitions" and not any(map(is_table, request.places.values())):
        yield "mode: overwrite_partitions is for an output table://DATABASE/NAME"


def require_readable(text: str, settings: RuntimeSettings, stage: Stage) -> DataPath:
    """The path that a job of `stage` would read.

    Raises:
        ValueError: it may not; the message says why.
    """
    path = parse_input(text, settings.paths)
    _require_within(str(path), stage.limits.input_prefixes, stage, "reads", "input_prefixes")
    return path


def require_file_readable(place: str, settings: RuntimeSettings, stage: Stage) -> None:
    """Return if a job of `stage` may read this file of a table.

    Raises:
        ValueError: it may not; the message says why.
    """
    path = parse_readable(place, settings.paths)
    _require_within(str(path), stage.limits.input_prefixes, stage, "reads", "input_prefixes")


def require_writable(place: str, stage: Stage) -> None:
    """Return if the limits of `stage` let its jobs write there.

    Raises:
        ValueError: they do not; the message says where they let them.
    """
    _require_within(place, stage.limits.output_prefixes, stage, "writes", "output_prefixes")


def _require_table_input(
    text: str, request: JobRequest, settings: RuntimeSettings, stage: Stage
) -> None:
    table = parse_table_input(text, settings.paths).table
    # Where its data files are in fact is in its metadata: the attempt looks at each.
    place = f"{table.location(settings.paths.data_bucket)}/"
    _require_within(place, stage.limits.input_prefixes, stage, "reads", "input_prefixes")
    engine = request.engine or stage.engine
    if not has_tables(engine):
        raise ValueError(f"jobs on {engine} read no tables: send one that does to engine fargate")


def _engine_problems(
    field: str, request: JobRequest, settings: RuntimeSettings, stage: Stage
) -> Iterator[str]:
    engine = request.engine or stage.engine
    if not has_tables(engine):
        yield (
            f"{field}: jobs on {engine} write to prefixes alone: send one for a table to"
            " engine fargate"
        )
    if field != "output":
        return  # the main output alone is passed on
    for following in map(settings.stage, stage.next):
        if not has_tables(following.engine):
            yield (
                f"output: stage {stage.name} passes its outputs to {following.name}, whose engine"
                f" {following.engine} reads no tables: send jobs for a table to another stage, or"
                " write to prefixes"
            )


def _require_within(
    path: str, prefixes: tuple[str, ...] | None, stage: Stage, does: str, setting: str
) -> None:
    """Raises ValueError for a path below none of the prefixes.

    A glob has no place in a prefix, so what a glob matches is below it too.
    """
    if prefixes is not None and not path.startswith(prefixes):
        raise ValueError(
            f"stage {stage.name} {does} only below {', '.join(prefixes) or 'no prefix'} "
            f"(limits.{setting})"
        )


def overlaps(
    field: str, output: DataPath, inputs: Mapping[str, DataPath], policy: PathPolicy
) -> Iterator[str]:
    """A sentence for each input of the request, or prefix of code, that overlaps the output.

    The output itself as an input is no overlap: a job may compact what it wrote. `parse_output` has
    refused a bucket's root and our own prefix. `field`: the output's name in the request.
    """
    for name, path in inputs.items():
        match _place_of(path, output):
            case "inside":
                yield (
                    f"inputs.{name}: is inside the {_noun(field)}, which would replace or"
                    " hide it: name an output beside it"
                )
            case "around":
                yield (
                    f"{field}: is inside the input {name}, so the next run would read it:"
                    " name an output outside of it"
                )
    for prefix in policy.job_prefixes:
        if _place_of(DataPath.on_s3(prefix), output):
            yield f"{field}: the code of jobs is in {prefix}: name an output elsewhere"


def overlapping_outputs(outputs: Mapping[str, DataPath | TablePath]) -> Iterator[str]:
    """A sentence for each output of the request that is where another one is.

    `outputs`: by their fields. An output that is inside another would be replaced with it, or
    hidden by its manifest. Of a table that is the place of those that named datasets become.
    """
    for (field, path), (other, place) in combinations(outputs.items(), 2):
        if _meet(path, place):
            yield f"{other}: is where {field} is, or inside of it: name outputs beside each other"


def _meet(one: DataPath | TablePath, other: DataPath | TablePath) -> bool:
    if isinstance(one, TablePath) and isinstance(other, TablePath):
        if one.database != other.database:
            return False
        first, second = sorted((one.name, other.name), key=len)
        return first == second or second.startswith(f"{first}{OF_DATASET}")
    if isinstance(one, DataPath) and isinstance(other, DataPath):
        return bool(_place_of(one, other) or _place_of(other, one))
    return False  # no prefix may be among the files of tables


def _noun(field: str) -> str:
    return "output" if field == "output" else f"output {field.partition('.')[2]}"


def _place_of(path: DataPath, output: DataPath) -> Literal["inside", "around", "same"] | None:
    """Where an object, prefix or glob is, seen from the output; None where they have no file."""
    if (path.scheme, path.bucket) != (output.scheme, output.bucket):
        return None
    patterns = [each for each in path.key.split("/") if each]
    segments = [each for each in output.key.split("/") if each]
    if not all(map(matches, segments, patterns)):
        return None
    if len(patterns) > len(segments):
        return "inside"
    # A glob that matches the output matches its neighbours too.
    return "same" if patterns == segments else "around"
