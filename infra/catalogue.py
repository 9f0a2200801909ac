"""Which jobs there are. Imports no CDK."""

from pathlib import Path


def catalogue(repository: Path) -> tuple[str, ...]:
    """The names of the jobs: the modules of `jobs/catalogue/`, and `sql`."""
    modules = (repository / "jobs" / "catalogue").glob("*.py")
    return tuple(sorted({"sql", *(module.stem for module in modules if not module.stem.startswith("_"))}))
