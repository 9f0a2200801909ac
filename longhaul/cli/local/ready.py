"""What `longhaul up` says once the stack is there: to a person what it is, to a program where."""

import sys
from collections.abc import Iterator, Mapping

from longhaul.cli.terminal.output import Output
from longhaul.settings import RuntimeSettings


def say_ready(
    out: Output,
    settings: RuntimeSettings,
    *,
    endpoint: str,
    region: str,
    outputs: Mapping[str, str],
) -> None:
    """Print a table on a terminal; else one JSON line, which scripts read."""
    if not sys.stdout.isatty():
        out.record({"endpoint": endpoint, "region": region, "outputs": outputs})
        return
    paths = settings.paths
    out.table(
        ("stage", "slots", "jobs queue", "dead letters"),
        [
            (each.name, str(each.slots), _name(each.queue_url), _name(each.dead_letter_queue_url))
            for each in settings.stages
        ],
    )
    out.line("")
    others = sorted({*paths.input_buckets, *paths.output_buckets} - {paths.data_bucket})
    out.fields(
        [
            ("jobs", ", ".join(settings.jobs)),
            ("buckets", ", ".join([f"{paths.data_bucket} (the stack's own)", *others])),
        ]
    )
    out.line("")
    out.line("next, in another terminal:")
    for command in _next(settings):
        out.line(f"  {command}")
    out.line("")


def _name(queue_url: str) -> str:
    return queue_url.rpartition("/")[2]


def _next(settings: RuntimeSettings) -> Iterator[str]:
    if "sql" in settings.jobs:
        yield (
            "longhaul submit --job sql --param 'query=SELECT 1 AS one' --output data:one/ --wait"
        )
    else:
        yield "longhaul submit --help"
    yield "longhaul status"
    yield "longhaul logs JOB"
    yield "longhaul console     (a page in the browser)"
