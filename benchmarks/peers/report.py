"""The figures as a table, and the first of them as a picture."""

import math
from collections.abc import Mapping
from itertools import cycle
from typing import Final

from benchmarks.peers.measure import CROWD_SIZE, Extent, Figures

_ROWS: Final = {
    "failed": "failure → next attempt, s",
    "deleted": "end → message deleted, s",
    "hangs": "hangs → next attempt, s",
    "twice_beyond_the_cap": "beyond 12 h: runs twice at once after, s",
    "crowd_lost": f"of {CROWD_SIZE} jobs with kills: lost",
    "crowd_twice_at_once": "… run twice at once",
    "crowd_took": "… until the last one's end, s",
}
_COLOURS: Final = ("#1b7837", "#7fbf7b", "#2166ac", "#b2182b", "#762a83")
_LEFT, _TOP, _WIDTH, _BAR, _GAP = 190, 62, 460, 15, 14


def table(figures: Mapping[str, Figures]) -> str:
    names = list(figures)
    keys = [key for each in figures.values() for key in each]
    rows = {
        **{key: f"SIGKILL at {key[10:]} s → next attempt, s" for key in keys if _is_kill(key)},
        **_ROWS,
        **{key: f"calls of a job of {key[6:]} s" for key in keys if key.startswith("calls_")},
    }
    lines = [["", *names], ["---"] * (len(names) + 1)]
    for key, label in rows.items():
        if any(key in each for each in figures.values()):
            lines.append([label, *(_shown(each, key) for each in figures.values())])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _is_kill(key: str) -> bool:
    return key.startswith("killed_at_")


def _shown(figures: Figures, key: str) -> str:
    if key not in figures:
        return ""
    value = figures[key]
    return "never" if value is None else f"{value:g}"


def picture(figures: Mapping[str, Figures], extent: Extent) -> str:
    """SIGKILL → next attempt as bars over a logarithmic axis, drawn without a library."""
    most = extent.patience_s
    least = 0.1

    def x(seconds: float) -> float:
        return _WIDTH * math.log(max(seconds, least) / least) / math.log(most / least)

    height = _TOP + len(extent.ages) * (len(figures) * _BAR + _GAP) + 30
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_LEFT + _WIDTH + 80} {height}" '
            'font-family="sans-serif" font-size="12">'
        ),
        f'<rect width="{_LEFT + _WIDTH + 80}" height="{height}" fill="white"/>',
        (
            '<text x="10" y="22" font-size="15">From the kill of a worker to the next attempt, '
            "by the age of the job</text>"
        ),
        (
            '<text x="10" y="38" fill="#555">On one machine. Starting a task on Fargate takes 30 '
            "to 90 s more, as a worker does that is not there yet.</text>"
        ),
    ]
    for seconds in (0.1, 1, 10, 100, 1000):
        at = _LEFT + x(seconds)
        parts.append(
            f'<line x1="{at:.0f}" x2="{at:.0f}" y1="{_TOP - 8}" y2="{height - 24}" stroke="#ddd"/>'
            f'<text x="{at:.0f}" y="{height - 8}" text-anchor="middle">{seconds:g} s</text>'
        )
    y = _TOP
    for age in extent.ages:
        parts.append(f'<text x="10" y="{y + 12}">{age:g} s old</text>')
        for (name, each), colour in zip(figures.items(), cycle(_COLOURS)):
            took = each.get(f"killed_at_{age:g}")
            width = x(most if took is None else took)
            label = "never" if took is None else f"{took:.1f} s"
            parts.append(
                f'<text x="{_LEFT - 6}" y="{y + 12}" text-anchor="end">{name}</text>'
                f'<rect x="{_LEFT}" y="{y + 2}" width="{width:.0f}" height="{_BAR - 3}" '
                f'fill="{colour}"/>'
                f'<text x="{_LEFT + width + 4:.0f}" y="{y + 12}">{label}</text>'
            )
            y += _BAR
        y += _GAP
    return "\n".join([*parts, "</svg>\n"])
