"""The inputs of an attempt: where they are for its job, and what it says of them later."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from longhaul.core.places import DataPath, InputPath, TableInput, is_glob
from longhaul.core.results import Results, read_results
from longhaul.job import Parent
from longhaul.outputs.lineage import (
    InputRead,
    Writer,
    few_writers,
    origin_in,
    results_in,
)
from longhaul.outputs.manifest import Manifest
from longhaul.runner.io.listing import InputListing
from longhaul.runner.io.staged import StagedInput
from longhaul.saved.record import Work


@dataclass(frozen=True)
class Inputs:
    """What an attempt reads, by name: as its request names it, as its job finds it, as listed."""

    paths: Mapping[str, InputPath]
    staged: Mapping[str, StagedInput]
    listing: InputListing

    def known_to(self, work: Work) -> Work:
        """The work, with what it has read."""
        return replace(
            work,
            reads={name: each.digest for name, each in self.staged.items()},
            tables={str(path): version for path, version in self.listing.versions.items()},
        )

    def reads(self) -> Iterator[InputRead]:
        """Each input in the version in which it was staged, for the manifest of an output."""
        for name, path in self.paths.items():
            found = self.staged[name]
            read = InputRead(
                name=name,
                path=str(path.table) if isinstance(path, TableInput) else str(path),
                files=found.files,
                size_bytes=found.size_bytes,
                digest=found.digest,
                etag=found.etag or None,
            )
            if isinstance(path, TableInput):
                planned = self.listing.tables.get(name)
                read = read.model_copy(update={"snapshot": planned.snapshot if planned else None})
                writers = _writer_of_table(path, self._summary(name))
            elif found.etag:  # an object by itself, which no manifest names
                writers = ()
            else:
                writers = few_writers(_writers(path, self.listing.manifests))
            yield read.model_copy(update={"writers": writers})

    def _summary(self, name: str) -> Mapping[str, str]:
        """What a table's snapshot says of itself; nothing where the work area looked at none."""
        planned = self.listing.tables.get(name)
        return planned.summary if planned else {}

    def parents(self) -> dict[str, Parent]:
        """By input, the job that wrote it, as its manifest or snapshot has it."""
        found: dict[str, Parent] = {}
        for name, path in self.paths.items():
            if isinstance(path, TableInput):
                summary = self._summary(name)
                origin = origin_in(summary)
                if origin is not None:
                    results = results_in(summary)
                    found[name] = _parent(origin.key, origin.run, origin.attempt, results)
            elif manifest := self.listing.manifests.get(f"{str(path).rstrip('/')}/"):
                results = read_results(manifest.results or {})
                found[name] = _parent(manifest.key, manifest.run, manifest.attempt, results)
        return found


def _parent(key: str, run: int, attempt: int, results: Results) -> Parent:
    stage, _, job_id = key.partition("#")
    return Parent(job_id, stage, run, attempt, results.value, results.rows, results.metrics)


def _writer_of_table(path: TableInput, summary: Mapping[str, str]) -> tuple[Writer, ...]:
    origin = origin_in(summary)
    if origin is None:
        return ()
    place = str(path.table)
    return (Writer(place=place, key=origin.key, run=origin.run, attempt=origin.attempt),)


def _writers(path: DataPath, manifests: Mapping[str, Manifest]) -> Iterator[Writer]:
    """The latest writers of the outputs that were followed to read the path."""
    wanted = f"{str(path).rstrip('/')}/"
    # A join has thousands of inputs, and as many manifests: each input looks along its own path.
    segments = wanted.split("/")[:-1]
    places = ("/".join(segments[:n]) + "/" for n in range(len(segments), 3, -1))
    around = next((each for each in places if each in manifests), None)
    followed = [around] if around else [each for each in manifests if each.startswith(wanted)]
    if is_glob(str(path)):
        patterns = wanted.split("/")[:-1]
        followed = [place for place in manifests if _matches(place.split("/")[:-1], patterns)]
    for place in sorted(followed):
        manifest = manifests[place]
        yield Writer(place=place, key=manifest.key, run=manifest.run, attempt=manifest.attempt)


def _matches(segments: list[str], patterns: list[str]) -> bool:
    """Whether one is, or may be, around the other."""
    return all(map(fnmatchcase, segments, patterns))
