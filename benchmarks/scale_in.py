"""Lost work by job length: scaling in on late metrics, in six variants, beside Longhaul.

Writes docs/scale-in.svg and prints the figures.

    .venv/bin/python -m benchmarks.scale_in

The models are those of `tests/simulation/test_scale_in.py`; the same seeds give the same figures.
"""

import logging
import random
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from simulation.scale_in.alarms import AlarmDriven, Watched
from simulation.scale_in.longhaul import by_leases
from simulation.scale_in.work import Outcome, bursts, nights

PICTURE = Path(__file__).parents[1] / "docs" / "scale-in.svg"
MINUTES = (5, 10, 20, 40, 80, 160, 320)
SEEDS = 10
# Longhaul's side runs the real handlers: slower, with the same result each time.
LONGHAUL_SEEDS = 2
VARIANTS: Mapping[str, tuple[Watched, int, str]] = {
    "visible messages, over 1 min": ("visible", 1, "#b2182b"),
    "visible messages, over 15 min": ("visible", 15, "#ef8a62"),
    "visible + in flight, over 1 min": ("all", 1, "#2166ac"),
    "visible + in flight, over 15 min": ("all", 15, "#67a9cf"),
    "the incident, over 1 min": ("three", 1, "#762a83"),
    "the incident, over 15 min": ("three", 15, "#c2a5cf"),
}
LONGHAUL = ("Longhaul", "#1b7837")

WIDTH, HEIGHT, LEFT, TOP, PLOT_WIDTH, PLOT_HEIGHT = 860, 380, 60, 40, 480, 280
Points = Sequence[float]


def longhaul(mean_s: float, seed: int) -> Outcome:
    return by_leases(bursts(mean_s, random.Random(seed), 4))  # noqa: S311 - seeded on purpose


def by_alarms(mean_s: float, watched: Watched, minutes: int, seed: int) -> Outcome:
    work = nights if watched == "three" else bursts
    jobs = work(mean_s, random.Random(seed))  # noqa: S311 - seeded on purpose
    return AlarmDriven(jobs, watched=watched, minutes=minutes, seed=seed).run()


def main() -> None:
    logging.disable(logging.CRITICAL)
    outcomes = {
        name: [
            [by_alarms(60 * length, watched, over, seed) for seed in range(SEEDS)]
            for length in MINUTES
        ]
        for name, (watched, over, _) in VARIANTS.items()
    }
    outcomes[LONGHAUL[0]] = [
        [longhaul(60 * length, seed) for seed in range(LONGHAUL_SEEDS)] for length in MINUTES
    ]
    curves = {}
    for name, rows in outcomes.items():
        curves[name] = [fmean(each.lost_share for each in row) for row in rows]
        everything = [each for row in rows for each in row]
        sys.stdout.write(
            f"{name:34} lost {' '.join(f'{share:5.1%}' for share in curves[name])}"
            f"   stopped {sum(each.stopped for each in everything):4}"
            f" of {sum(each.done + each.dead_letters for each in everything):4}"
            f"   dead letters {sum(each.dead_letters for each in everything):4}"
            f"   paid time used {fmean(each.used_share for each in everything):4.0%}\n"
        )
    PICTURE.write_text(svg(curves))


def svg(curves: Mapping[str, Points]) -> str:
    """The picture: lost work over job length. It is drawn without a library, to need none."""
    colours = {name: colour for name, (_, _, colour) in VARIANTS.items()} | {
        LONGHAUL[0]: LONGHAUL[1]
    }
    step = PLOT_WIDTH / (len(MINUTES) - 1)
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
            'font-family="sans-serif" font-size="13">'
        ),
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        (
            f'<text x="{LEFT}" y="22" font-size="15">Work lost to scale-in, of all work done, '
            "with metrics up to 15 minutes late</text>"
        ),
    ]
    for percent in range(0, 101, 20):
        y = TOP + PLOT_HEIGHT * (1 - percent / 100)
        parts.append(
            f'<line x1="{LEFT}" x2="{LEFT + PLOT_WIDTH}" y1="{y}" y2="{y}" stroke="#ddd"/>'
        )
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4}" text-anchor="end">{percent} %</text>')
    for n, minutes in enumerate(MINUTES):
        parts.append(
            f'<text x="{LEFT + n * step}" y="{TOP + PLOT_HEIGHT + 20}" '
            f'text-anchor="middle">{minutes} min</text>'
        )
    parts.append(
        f'<text x="{LEFT + PLOT_WIDTH / 2}" y="{HEIGHT - 14}" '
        'text-anchor="middle">mean length of a job</text>'
    )
    for n, (name, points) in enumerate(curves.items()):
        line = " ".join(
            f"{LEFT + i * step:.1f},{TOP + PLOT_HEIGHT * (1 - y):.1f}" for i, y in enumerate(points)
        )
        parts.append(
            f'<polyline points="{line}" fill="none" stroke="{colours[name]}" stroke-width="2.5"/>'
        )
        y = TOP + 20 + 24 * n
        x = LEFT + PLOT_WIDTH + 30
        parts.append(
            f'<line x1="{x}" x2="{x + 24}" y1="{y}" y2="{y}" '
            f'stroke="{colours[name]}" stroke-width="2.5"/>'
        )
        parts.append(f'<text x="{x + 32}" y="{y + 4}">{name}</text>')
    return "\n".join([*parts, "</svg>\n"])


if __name__ == "__main__":
    main()
