"""A run as OpenLineage's standard says it, for Marquez, DataHub and others: spec 2-0-2. Pure.

    START      when the run was first claimed
    COMPLETE   it has succeeded: with what it read and wrote, each in its version
    FAIL       it is dead: with its last error
    ABORT      it was cancelled

Datasets are named as the standard says, so that other tools mean the same: `s3://bucket` and a
path, or a table in the Glue catalog by the catalog's ARN. There are no parameters and no filters.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import NAMESPACE_URL, uuid5

from longhaul.core.lease import Lease, NamedOutput, State
from longhaul.core.places import DataPath, TablePath, is_glob, is_table
from longhaul.notices.notice import Notice
from longhaul.outputs.lineage import InputRead, Origin

DETAIL_TYPE: Final = "OpenLineage Run Event"

PRODUCER: Final = "urn:longhaul-jobs:producer"
_SPEC: Final = "https://openlineage.io/spec/"
_SCHEMA: Final = f"{_SPEC}2-0-2/OpenLineage.json#/$defs/RunEvent"
_TYPES: Final = {
    State.SUCCEEDED: "COMPLETE",
    State.DEAD: "FAIL",
    State.CANCELLED: "ABORT",
}
_VERSIONS: Final = {  # of the facets that are written
    "DatasetVersionDatasetFacet": "1-0-1",
    "ErrorMessageRunFacet": "1-0-1",
    "InputStatisticsInputDatasetFacet": "1-0-0",
    "JobTypeJobFacet": "2-0-4",
    "OutputStatisticsOutputDatasetFacet": "1-0-2",
}


@dataclass(frozen=True)
class Place:
    """Where the stack is: parts of the names of jobs and tables."""

    partition: str
    region: str
    account: str
    stack: str

    @classmethod
    def of(cls, arn: str, stack: str) -> "Place":
        """That of any of the stack's resources."""
        _, partition, _, region, account, *_ = arn.split(":")
        return cls(partition, region, account, stack)

    @property
    def namespace(self) -> str:
        """Of the stack's jobs."""
        return f"longhaul://{self.account}.{self.region}/{self.stack}"

    @property
    def catalog(self) -> str:
        return f"arn:{self.partition}:glue:{self.region}:{self.account}"


def run_events(lease: Lease, read: Origin, place: Place) -> list[Notice]:
    """The events of a run that has ended: its START, and its end.

    `read` names its inputs: those of the attempt that succeeded, else those of the request.
    """
    began_at = lease.run_began
    end = {
        "inputs": _unique(_inputs(read.inputs, place)),
        "outputs": list(_outputs(lease, place)),
    }
    run: dict[str, Any] = {"runId": run_id(lease, place)}
    failed = dict(run)
    if lease.state is State.DEAD and lease.last_error:
        said = {"message": lease.last_error, "programmingLanguage": "Python"}
        failed["facets"] = {"errorMessage": _facet("ErrorMessageRunFacet", said)}
    return [
        _event(lease, place, "START", began_at, {"run": run, "inputs": [], "outputs": []}),
        _event(lease, place, _TYPES[lease.state], lease.ended_at, {"run": failed, **end}),
    ]


def run_id(lease: Lease, place: Place) -> str:
    """The same for each event of the run, and for no other run."""
    return str(uuid5(NAMESPACE_URL, f"{place.namespace}/{lease.id.key_hash}-{lease.run}"))


def _event(lease: Lease, place: Place, kind: str, at: datetime, said: dict[str, Any]) -> Notice:
    job = lease.input.job or "job"
    facet = {"processingType": "BATCH", "integration": "LONGHAUL", "jobType": "JOB"}
    body = {
        "eventType": kind,
        "eventTime": at.isoformat(timespec="milliseconds"),
        "producer": PRODUCER,
        "schemaURL": _SCHEMA,
        "job": {
            "namespace": place.namespace,
            "name": f"{lease.stage}.{job}",
            "facets": {"jobType": _facet("JobTypeJobFacet", facet)},
        },
        **said,
    }
    id_ = f"{lease.id.key_hash}-{lease.run}-{kind.lower()}"
    return Notice(id_, lease.id.key_hash, json.dumps(body), DETAIL_TYPE)


def _inputs(reads: Iterable[InputRead], place: Place) -> Iterator[dict[str, Any]]:
    for read in reads:
        size = {"size": read.size_bytes, "fileCount": read.files}
        facets = {"inputStatistics": _facet("InputStatisticsInputDatasetFacet", size)}
        # Of a path of the request alone nothing is known.
        inputs = {"inputFacets": facets} if read.digest else {}
        for writer in read.writers:
            # Of several outputs the numbers are not known apart.
            of_one = inputs if len(read.writers) == 1 else {}
            yield {**_dataset(writer.place, place), **_version(writer.id.token), **of_one}
        if not read.writers:
            yield {**_dataset(read.path, place), **_version(read.version), **inputs}


def _outputs(lease: Lease, place: Place) -> Iterator[dict[str, Any]]:
    output = lease.attempt.output if lease.state is State.SUCCEEDED else None
    if output is None:
        return
    for name, each in output.by_name.items():
        rows = output.results.rows_of(name) if output.results else {}
        yield from _output(each, rows, _version(lease.id.token), place)


def _output(
    output: NamedOutput,
    rows: Mapping[str, int],
    version: Mapping[str, Any],
    place: Place,
) -> Iterator[dict[str, Any]]:
    if not is_table(output.prefix):
        said = {"size": output.size_bytes, "fileCount": output.files}
        if "." in rows:
            said = {"rowCount": rows["."], **said}
        yield {**_dataset(output.prefix, place), **version, **_statistics(said)}
        return
    path = TablePath.of(output.prefix)
    counts: dict[str, int | None] = {**rows} or {".": None}
    for name, count in counts.items():
        table = path if name == "." else path.of_dataset(name)
        counted = {} if count is None else _statistics({"rowCount": count})
        yield {**_dataset(str(table), place), **version, **counted}


def _dataset(text: str, place: Place) -> dict[str, Any]:
    """Its namespace and name, as the standard says for its kind of place."""
    if is_table(text):
        table = TablePath.of(text.partition("@")[0])
        return {"namespace": place.catalog, "name": f"table/{table.database}/{table.name}"}
    path = DataPath.of(text)
    # A glob stands for the folder that it looks into.
    segments = path.key.split("/")
    fixed = next((n for n, each in enumerate(segments) if is_glob(each)), len(segments))
    name = "/".join(segments[:fixed]).rstrip("/")
    if path.scheme == "file":
        return {"namespace": "file", "name": name}
    return {"namespace": f"s3://{path.bucket}", "name": name or "/"}


def _unique(datasets: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each dataset once, however many inputs it has: the first."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for each in datasets:
        found.setdefault((each["namespace"], each["name"]), each)
    return list(found.values())


def _version(version: str) -> dict[str, Any]:
    if not version:
        return {}
    facet = _facet("DatasetVersionDatasetFacet", {"datasetVersion": version})
    return {"facets": {"version": facet}}


def _statistics(said: dict[str, Any]) -> dict[str, Any]:
    facet = _facet("OutputStatisticsOutputDatasetFacet", said)
    return {"outputFacets": {"outputStatistics": facet}}


def _facet(name: str, said: dict[str, Any]) -> dict[str, Any]:
    schema = f"{_SPEC}facets/{_VERSIONS[name]}/{name}.json#/$defs/{name}"
    return {"_producer": PRODUCER, "_schemaURL": schema, **said}
