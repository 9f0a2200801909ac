"""Say what drawn worlds do not reach.

`make coverage WORLDS=500`, or `python -m simulation.tools.coverage --worlds 500`: the cells of the
tables in docs/lease.md, the branches of `longhaul/` and of the engines, and which acts met a job's
row in which state. Progress goes to stderr, the report to stdout.
"""

import argparse
import sys
from collections import defaultdict

from simulation.tools.coverage.branches import Branch, Branches


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m simulation.tools.coverage", description=__doc__
    )
    parser.add_argument("--worlds", type=int, default=500)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    options = parser.parse_args()
    branches = Branches()
    branches.install()
    # Only now, so that all imports of the product get counters.
    from simulation.tools.coverage.acts import Met  # noqa: PLC0415
    from simulation.tools.coverage.cells import Cells, cells_of_page  # noqa: PLC0415
    from simulation.worlds.generation import plan_of  # noqa: PLC0415
    from simulation.worlds.run import play  # noqa: PLC0415
    from simulation.worlds.world import World  # noqa: PLC0415

    cells, met = Cells(), Met()
    with cells.watched(), met.watched():
        for seed in range(options.first, options.first + options.worlds):
            cells.world = World(plan_of(seed))
            play(cells.world)
            if (seed + 1 - options.first) % 100 == 0:
                print(f"{seed + 1 - options.first} worlds", file=sys.stderr)
    page = cells_of_page()
    print(f"cells of docs/lease.md: {sum(each in cells.reached for each in page)} of {len(page)}")
    for cell in page:
        if cell not in cells.reached:
            print(f"  {cell}")
    for cell in cells.reached.keys() - set(page):
        print(f"  not on the page: {cell}")
    print("acts that met no row in this state:")
    for kind, states in met.missed():
        print(f"  {kind}: {'; '.join(states) or 'none'}")
    _print_branches(branches)
    return 0


def _print_branches(branches: Branches) -> None:
    missed: dict[str, list[Branch]] = defaultdict(list)
    for branch in branches.missed():
        missed[branch.file].append(branch)
    print(f"branches: {len(branches.all) - len(branches.missed())} of {len(branches.all)}")
    for file in sorted({branch.file for branch in branches.all}):
        count = sum(branch.file == file for branch in branches.all)
        print(f"  {file}: {count - len(missed[file])} of {count}")
    for each in sorted(missed):
        for branch in missed[each]:
            print(f"  {branch}")


if __name__ == "__main__":
    sys.exit(main())
