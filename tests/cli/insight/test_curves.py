"""Curves over the runs of a job, whatever its code has written into its rows."""

from datetime import timedelta
from itertools import pairwise
from xml.etree import ElementTree as ET

from longhaul.cli.display.curve_html import curve_html
from longhaul.cli.insight.curves import curves
from longhaul.domain.lease import CommittedOutput, Lease, State
from longhaul.domain.results import Results
from tests.builders import NOW, changed, running


def success(n: int, results: Results) -> Lease:
    row = running(key=f"main#day-{n}", state=State.SUCCEEDED, settled_at=NOW + timedelta(hours=n))
    return changed(row, output=CommittedOutput(1, 1, 1, prefix="s3://b/out/", results=results))


def test_a_curve_has_room_for_the_largest_numbers() -> None:
    values = (-1.7e308, 0, 1.7e308)
    rows = [success(n, Results(metrics={"a": value})) for n, value in enumerate(values)]
    (curve,) = (each for each in curves(rows) if each.name == "metric a")

    drawn = ET.fromstring(curve_html(curve, rows[0], lambda _: "/"))  # noqa: S314 - ours

    heights = [float(each.attrib["cy"]) for each in drawn.iter("circle")]
    assert all(one > other for one, other in pairwise(heights))


def test_a_curve_shows_names_as_texts() -> None:
    name = '</svg><script>"&'
    rows = [success(n, Results(rows={name: n})) for n in range(2)]
    (curve,) = (each for each in curves(rows) if each.name.startswith("rows"))

    drawn = ET.fromstring(curve_html(curve, rows[0], lambda _: '/?a="&b'))  # noqa: S314

    assert drawn.attrib["aria-label"].startswith(f"rows of {name}: ")
    assert {each.attrib["href"] for each in drawn.iter("a")} == {'/?a="&b'}
