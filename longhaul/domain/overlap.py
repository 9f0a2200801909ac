"""Where an output must not go: where it would hide, replace or feed what else is there. Pure."""

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Literal

from longhaul.domain.paths import DataPath, matches
from longhaul.domain.tables import OF_DATASET, TablePath
from longhaul.settings import PathPolicy


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
