"""`longhaul lineage`."""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from longhaul.cli.display.text import counted, moment_text
from longhaul.cli.errors import CommandError, ExitStatus
from longhaul.cli.extras import tables_of
from longhaul.cli.terminal.command import on_target
from longhaul.cli.terminal.options import AsJson
from longhaul.cli.terminal.output import Output

if TYPE_CHECKING:
    from longhaul.cli.target import Target
    from longhaul.operations.lineage import Step


_INDENT = "  "


@on_target
def lineage(
    target: "Target",
    *,
    data: Annotated[
        str,
        typer.Argument(
            metavar="data:…|table:…", help="An output, a file or folder of one, or a table."
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Show which job, run and attempt wrote data, and from what, back to what came from elsewhere.

    It reads the manifests of outputs and the snapshots of tables: what they say of the version that
    was read. The walk ends, and says so, where that has been replaced since, a snapshot has
    expired, you may not read, or after 200 places. Data that no job wrote is exit code 3. Tables
    need the extra `tables`.

    Example: longhaul lineage data:clean/2013-01/

    Example: longhaul lineage table:flights --json
    """
    from longhaul.operations.lineage import OriginReader, Wanted, place_of, upstream

    out = Output(as_json=as_json)

    data = place_of(data, target.settings.paths)
    tables = partial(tables_of, target, "pyiceberg")
    for step in upstream(Wanted(data), OriginReader(target.client("s3"), tables).look):
        if step.depth == 0 and not step.known.origins:
            raise CommandError(f"{data}: {step.known.note}", ExitStatus.NOT_FOUND)
        if not as_json:
            out.line(_line(step))
        elif step.writer is None:
            out.record(_record(step))


def _line(step: "Step") -> str:
    """A place, or below it an attempt that wrote it."""
    indent, by, read = _INDENT * 2 * step.depth, step.writer, step.wanted.read
    if by is not None:
        stage, _, job_id = by.key.partition("#")
        at = f", {moment_text(by.at)}" if by.at else ""
        more = f", with {by.left_out:,} more inputs" if by.left_out else ""
        who = f"{job_id} of {stage}, run {by.run}, attempt {by.attempt}"
        return f"{indent}{_INDENT}by {who}{at}{more}"
    facts = [f"{counted(read.files, 'file')} of {read.size_bytes:,} bytes"] if read else []
    kind = "snapshot" if step.wanted.place.startswith("table://") else "version"
    facts += [f"{kind} {step.version}"] if step.version else []
    facts += [step.known.note] if step.known.note else []
    name = f"{read.name}: " if read else ""
    return f"{indent}{name}{step.wanted.place}{'  ' if facts else ''}{', '.join(facts)}"


def _record(step: "Step") -> Mapping[str, Any]:
    from longhaul.operations.view import iso

    read, by = step.wanted.read, step.wanted.by
    return {
        "place": step.wanted.place,
        "version": step.version or None,
        "depth": step.depth,
        "input": read.name if read else None,
        "files": read.files if read else None,
        "size_bytes": read.size_bytes if read else None,
        "read_by": _id(by) if by else None,
        "written_by": [
            {
                **_id(origin),
                "at": iso(origin.at),
                "inputs": [each.name for each in origin.inputs],
                "inputs_left_out": origin.left_out,
            }
            for origin in step.known.origins
        ],
        "note": step.known.note or None,
    }


def _id(origin: Any) -> Mapping[str, Any]:  # noqa: ANN401 - an origin
    stage, _, job_id = origin.key.partition("#")
    return {"stage": stage, "job_id": job_id, "run": origin.run, "attempt": origin.attempt}
