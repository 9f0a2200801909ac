"""What `longhaul up` says once the stack is there: to a person what it is, to a program where."""

import sys
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Final

from longhaul.cli.terminal.output import Output
from longhaul.core.settings import RuntimeSettings

_NEXT: Final = (
    "longhaul submit --job sql --param 'query=SELECT 1 AS one' --output data:one/ --wait",
    "longhaul status",
    "longhaul logs JOB",
    "longhaul console     (a page in the browser)",
)


def say_ready(
    out: Output,
    settings: RuntimeSettings,
    *,
    endpoint: str,
    region: str,
    outputs: Mapping[str, str],
) -> None:
    """Print it for people on a terminal; else one JSON line, which scripts read."""
    if not sys.stdout.isatty():
        out.record({"endpoint": endpoint, "region": region, "outputs": outputs})
        return
    out.fields(
        [
            ("stages", ", ".join(each.name for each in settings.stages)),
            ("jobs", ", ".join(settings.jobs)),
            ("bucket", settings.paths.data_bucket),
        ]
    )
    out.line("next, in another terminal:")
    for command in _NEXT:
        if "--job sql" not in command or find_spec("pyspark"):
            out.line(f"  {command}")
