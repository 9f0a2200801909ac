"""Where an output must not go: where it would hide, replace or feed what else is there. Pure."""

from collections.abc import Iterator, Mapping
from typing import Literal

from longhaul.domain.paths import DataPath, matches
from longhaul.domain.quoting import name_of
from longhaul.settings import PathPolicy


def overlaps(output: DataPath, inputs: Mapping[str, DataPath], policy: PathPolicy) -> Iterator[str]:
    """A sentence for each input of the request, or prefix of code, that overlaps the output.

    The output itself as an input is no overlap: a job may compact what it wrote. `parse_output` has
    refused a bucket's root and our own prefix.
    """
    for name, path in inputs.items():
        match _place_of(path, output):
            case "inside":
                yield (
                    f"inputs.{name_of(name)}: is inside the output, which would replace or hide it:"
                    " name an output beside it"
                )
            case "around":
                yield (
                    f"output: is inside the input {name_of(name)}, so the next run would read it:"
                    " name an output outside of it"
                )
    for prefix in policy.job_prefixes:
        if _place_of(DataPath.on_s3(prefix), output):
            yield f"output: the code of jobs is in {prefix}: name an output elsewhere"


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
