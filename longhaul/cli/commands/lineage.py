"""`longhaul lineage`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from longhaul.cli.display.text import moment_text
from longhaul.cli.errors import CommandError, ExitStatus
from longhaul.cli.extras import require
from longhaul.cli.terminal.command import on_target
from longhaul.cli.terminal.options import AsJson
from longhaul.cli.terminal.output import Output

if TYPE_CHECKING:
    from longhaul.cli.tables.reader import TableReader
    from longhaul.cli.tables.upstream import Step
    from longhaul.cli.target import Target
    from longhaul.domain.provenance import InputRead, Origin


_INDENT = "  "


@on_target
def lineage(
    target: "Target",
    *,
    data: Annotated[
        str,
        typer.Argument(
            metavar="s3://…|table://…", help="An output, a file or folder of one, or a table."
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

    Example: longhaul lineage table://longhaul/flights --json
    """
    from longhaul.cli.tables.origins import OriginReader
    from longhaul.cli.tables.reader import TableReader
    from longhaul.cli.tables.upstream import Wanted, upstream
    from longhaul.domain.request import DATA, with_bucket
    from longhaul.domain.tables import is_table

    out = Output(as_json=as_json)
    if not is_table(data) and not data.startswith(("s3://", DATA)):
        raise CommandError(
            f"{data} is neither s3://BUCKET/PREFIX, data:PREFIX nor table://DATABASE/NAME",
            ExitStatus.USAGE,
        )

    def tables() -> "TableReader":
        require("tables", "pyiceberg")
        databases = target.settings.paths.table_databases
        return TableReader(target.client("glue"), target.client("s3"), databases)

    data = with_bucket(data, target.settings.paths.data_bucket)
    steps = upstream(Wanted(data), OriginReader(target.client("s3"), tables).look)
    for step in steps:
        if step.writer is not None:
            if not as_json:
                out.line(f"{_INDENT * (2 * step.depth + 1)}{_writer(step.writer)}")
            continue
        if step.depth == 0 and not step.known.origins:
            raise CommandError(f"{data}: {step.known.note}", ExitStatus.NOT_FOUND)
        if as_json:
            out.record(_record(step))
        else:
            out.line(_line(step))


def _line(step: "Step") -> str:
    from longhaul.domain.tables import is_table

    read, known = step.wanted.read, step.known
    indent = _INDENT * (2 * step.depth)
    name = f"{read.name}: " if read else ""
    facts = [_size(read)] if read else []
    if step.version:
        facts.append(f"{'snapshot' if is_table(step.wanted.place) else 'version'} {step.version}")
    if known.note:
        facts.append(known.note)
    return f"{indent}{name}{step.wanted.place}{'  ' if facts else ''}{', '.join(facts)}"


def _size(read: "InputRead") -> str:
    return f"{read.files:,} file{'' if read.files == 1 else 's'} of {read.size_bytes:,} bytes"


def _writer(origin: "Origin") -> str:
    stage, _, job_id = origin.key.partition("#")
    at = f", {moment_text(origin.at)}" if origin.at else ""
    more = f", with {origin.left_out:,} more inputs" if origin.left_out else ""
    return f"by {job_id} of {stage}, run {origin.run}, attempt {origin.attempt}{at}{more}"


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


def _id(origin: "Origin") -> Mapping[str, Any]:
    stage, _, job_id = origin.key.partition("#")
    return {"stage": stage, "job_id": job_id, "run": origin.run, "attempt": origin.attempt}
