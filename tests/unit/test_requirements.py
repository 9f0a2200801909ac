"""Which line of a project's requirements gets the blame, by what pip prints."""

from pathlib import Path

import pytest

from longhaul.config.requirements import explained

_COLLECTING = "Collecting humanize==4.9.0 (from -r requirements.txt (line 2))\n"
_CLASH = f"""{_COLLECTING}  Downloading humanize-4.9.0-py3-none-any.whl (126 kB)
INFO: pip is looking at multiple versions of REQUESTED to determine which version is compatible.

The conflict is caused by:
    The user requested pydantic==1.10.2
    The user requested (constraint) pydantic==2.14.3

To fix this you could try to:
1. loosen the range of package versions you've specified

ERROR: Cannot install humanize==4.9.0 and pydantic==1.10.2 because these package versions have \
conflicting dependencies.
ERROR: ResolutionImpossible: for help visit https://pip.pypa.io/
"""
_MISSING = f"""{_COLLECTING}
ERROR: Could not find a version that satisfies the requirement nowhere==1 (from versions: none)
ERROR: No matching distribution found for nowhere==1
"""
_HASHES = f"""{_COLLECTING}
ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.
    nowhere==1 from https://index/nowhere-1.whl (from -r requirements.txt (line 4)):
"""


@pytest.mark.parametrize(
    ("said", "blamed"),
    [
        (_CLASH, ": clashes with what the image holds:\n"),
        (_MISSING, ":4: nowhere==1: does not install"),
        (_HASHES, ":4: nowhere==1: does not install"),
    ],
    ids=["a clash", "no such package", "a hash"],
)
def test_the_line_at_fault_is_named_and_not_the_first_that_pip_mentions(
    tmp_path: Path, said: str, blamed: str
) -> None:
    file = tmp_path / "requirements.txt"
    file.write_text("# ours\nhumanize==4.9.0\npydantic==1.10.2\nnowhere==1\n")

    assert explained(file, said).startswith(f"{file}{blamed}")
