"""Whether the deployed stack, the project and this tool are of one version."""

from collections.abc import Iterator

from longhaul.cli.checks.finding import Finding, ok, warning
from longhaul.cli.project import chosen
from longhaul.cli.target import Target
from longhaul.config.version import version

OUTPUT = "LonghaulVersion"


def versions(target: Target) -> Iterator[Finding]:
    tool, deployed, project = version(), target.deployment.outputs.get(OUTPUT), chosen()
    if project is not None and project.version != tool:
        text = f"is for {project.version}" if project.version else "names no version"
        yield warning(
            f"version: {project.file.name} {text}, and this is {tool}: settings may have other "
            "names or defaults, and jobs other rules",
            f'read CHANGELOG.md, then set version = "{tool}" there; or use Longhaul of the '
            "project's version",
        )
    if deployed is None:
        yield warning(
            f"version: the stack does not say which version deployed it, and this is {tool}",
            "deploy it again; it then says so",
        )
    elif deployed != tool:
        yield warning(
            f"version: the stack was deployed by {deployed}, and this is {tool}: the functions and "
            "the image are the older or newer ones, and commands may misread their rows",
            "use Longhaul of that version for its commands, or deploy this one",
        )
    elif project is None or project.version == tool:
        yield ok(f"version: {tool} everywhere")
