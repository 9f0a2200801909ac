"""A team's project: a folder with `longhaul.toml`, the jobs, and what they import.

The file holds the settings of `cdk.json`'s key `longhaul`, under the same names, those that hold on
this machine alone (`[local]`), and the version of Longhaul that the project is for. Imports no CDK.
"""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from longhaul.config.cdk_context import Problem, merged, read
from longhaul.config.errors import SettingsError
from longhaul.config.known import unfit
from longhaul.config.project_file import FILE, read_file
from longhaul.config.settings import CONTEXT_KEY, Settings
from longhaul.config.sources import sources
from longhaul.domain.job_kinds import JobKind, kind_of

VERSION_KEY: Final = "version"
LOCAL_KEY: Final = "local"
# The embedded AWS is one account and region of its own, and commands find a stack by its name.
_NOT_LOCAL: Final = ("account", "region", "stack_name")

# The jobs of `longhaul/catalogue/`, which every project has: `longhaul verify` sends the first.
BUILT_IN: Final = ("probe", "sql")
# The package that is beside a project's jobs in the image.
PACKAGE: Final = "longhaul"

_TABLE: Final = re.compile(r"\s*(\[\[?)\s*([\w.\" -]+?)\s*\]")
_KEY: Final = re.compile(r"\s*([\w.\"-]+)\s*=")


@dataclass(frozen=True)
class Project:
    folder: Path
    text: str
    """Of `longhaul.toml`."""
    version: str | None
    """Of Longhaul, when the project was made or last upgraded."""
    settings: Mapping[str, Any]
    """As they are written, not yet checked."""
    local: Mapping[str, Any] = field(default_factory=dict)
    """The table `[local]`, as it is written: it is laid over the settings on this machine."""

    @property
    def file(self) -> Path:
        return self.folder / FILE

    @property
    def jobs(self) -> Path:
        return self.folder / "jobs"

    @property
    def tests(self) -> Path:
        return self.folder / "tests"

    @property
    def requirements(self) -> Path:
        """What the jobs import beside what the image holds; the file may be missing."""
        return self.folder / "requirements.txt"

    @property
    def work_dir(self) -> Path:
        return self.folder / ".longhaul"

    @property
    def packages(self) -> Path:
        """Where `longhaul up` and `longhaul test` install the requirements."""
        return self.work_dir / "packages"

    @property
    def stack_name(self) -> str:
        return str(self.settings.get("stack_name", Settings.model_fields["stack_name"].default))

    @property
    def job_names(self) -> tuple[str, ...]:
        modules = self.jobs.glob("*.py")
        own = {module.stem for module in modules if not module.stem.startswith("_")}
        return tuple(sorted({*own, *BUILT_IN}))

    def checked(self, override: Any = None, where: str = CONTEXT_KEY) -> Settings:  # noqa: ANN401 - JSON
        """The settings, overridden by those of the CDK's context.

        `[local]` is checked too, and is no part of what is returned. `where` is what messages begin
        with where the project has no file of settings.

        Raises:
            SettingsError: some are wrong; all are named, with their lines.
        """
        result = read(merged(dict(self.settings), override))
        problems = [*self._unfit(result)] if isinstance(result, Settings) else result
        if isinstance(result, Settings) and not problems:
            problems = self._wrong_local()
            if not problems:
                return result
        lines = [(line_of(self.text, each.location) or 0, each) for each in problems]
        lines.sort(key=lambda each: each[0])
        raise SettingsError("\n".join(self._placed(*each, where) for each in lines))

    def on_this_machine(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Settings with `[local]` laid over them.

        Objects merge; lists and scalars replace. A stage is laid over the one of its name.
        """
        over = dict(self.local)
        stages = over.pop("stages", None)
        result: dict[str, Any] = merged(dict(settings), over)
        if isinstance(stages, list) and all(isinstance(each, dict) for each in stages):
            by_name = {each.get("name"): each for each in stages}
            below = result.get("stages") or [{"name": name} for name in by_name]
            result["stages"] = [merged(each, by_name.get(each.get("name"))) for each in below]
        elif stages is not None:
            result["stages"] = stages
        return result

    def _wrong_local(self) -> Sequence[Problem]:
        problems = [
            Problem((LOCAL_KEY, name), "is the same everywhere: it cannot be set for this machine")
            for name in _NOT_LOCAL
            if name in self.local
        ]
        names = [each.get("name") for each in self.settings.get("stages", [{"name": "main"}])]
        stages = self.local.get("stages", [])
        for n, each in enumerate(stages if isinstance(stages, list) else []):
            name = each.get("name") if isinstance(each, dict) else None
            if isinstance(each, dict) and name not in names:
                why = f"there is no stage {name!r}; there are: {', '.join(names)}"
                problems.append(Problem((LOCAL_KEY, "stages", n, "name"), why))
        if problems:
            return problems
        result = read(self.on_this_machine(self.settings))
        wrong = [*self._unfit(result)] if isinstance(result, Settings) else result
        return [replace(each, location=self._in_local(each.location)) for each in wrong]

    def _in_local(self, location: tuple[int | str, ...]) -> tuple[int | str, ...]:
        """Where `[local]` has what is at this place of the settings that it is laid over."""
        match location:
            case ("stages", int(n), *rest):
                stages = self.on_this_machine(self.settings)["stages"]
                own = [each["name"] for each in self.local.get("stages", [])]
                if stages[n]["name"] in own:
                    return (LOCAL_KEY, "stages", own.index(stages[n]["name"]), *rest)
        return (LOCAL_KEY, *location)

    def _unfit(self, settings: Settings) -> Iterator[Problem]:
        yield from unfit(settings, self.job_names)
        for n, stage in enumerate(settings.stages):
            is_on_emr = stage.advanced.engine == "emr-serverless"
            if is_on_emr and stage.job and self._is_plain(stage.job):
                why = "is plain Python (`def run(job)`), which emr-serverless does not run"
                yield Problem(("stages", n, "job"), why)

    def _is_plain(self, job: str) -> bool:
        try:
            return kind_of(ast.parse((self.jobs / f"{job}.py").read_bytes())) is JobKind.PLAIN
        except (OSError, SyntaxError, ValueError):  # as the check of the files says
            return False

    def _placed(self, line: int, problem: Problem, where: str) -> str:
        if not self.text:
            return problem.at(where)
        path = ".".join(map(str, problem.location))
        return (
            f"{self.file}:{f'{line}:' if line else ''} {f'{path}: ' if path else ''}{problem.why}"
        )


def load_project(folder: Path) -> Project:
    """The project in a folder; its settings are not checked yet.

    Raises:
        SettingsError: there is no `longhaul.toml`, or it is no TOML.
    """
    of_project, text, read_content = read_file(folder)
    file, content = of_project / FILE, dict(read_content)
    version = content.pop(VERSION_KEY, None)
    if not isinstance(version, str | None):
        raise SettingsError(
            f'{file}:{line_of(text, (VERSION_KEY,))}: version: write it as a text, such as "0.1.0"'
        )
    local = content.pop(LOCAL_KEY, {})
    if not isinstance(local, dict):
        line = line_of(text, (LOCAL_KEY, 0))
        raise SettingsError(f"{file}:{line}: {LOCAL_KEY}: write it as a table, [{LOCAL_KEY}]")
    return Project(of_project, text, version, content, local)


def bare() -> Project:
    """No project: the jobs that every stack has, and no settings."""
    return Project(sources(), "", None, {})


def demo() -> Project | None:
    """The jobs of `examples/demo`, which a checkout has where no project is chosen.

    Without its settings: those are then of `cdk.json`. None in a package, which has no examples.
    """
    folder = sources() / "examples" / "demo"
    if not (folder / FILE).is_file():
        return None
    return replace(load_project(folder), text="", settings={})


def line_of(text: str, location: Sequence[int | str]) -> int | None:
    """The line of a setting in `longhaul.toml`, or of the nearest thing that holds it.

    Args:
        text: the file.
        location: as pydantic gives it, such as `("stages", 0, "slots")`.
    """
    wanted = tuple(location)
    best, depth = None, 0
    for number, path in _paths(text):
        if len(path) > depth and path == wanted[: len(path)]:
            best, depth = number, len(path)
    return best


def _paths(text: str) -> Iterator[tuple[int, tuple[int | str, ...]]]:
    """Each line that names a table or a setting, with its path."""
    table: tuple[int | str, ...] = ()
    counts: dict[tuple[int | str, ...], int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if header := _TABLE.match(line):
            table = ()
            names = _names(header[2])
            for n, name in enumerate(names, 1):
                table = (*table, name)
                if header[1] == "[[" and n == len(names):
                    counts[table] = counts.get(table, -1) + 1
                if table in counts:
                    table = (*table, counts[table])
            yield number, table
        elif key := _KEY.match(line):
            yield number, (*table, *_names(key[1]))


def _names(dotted: str) -> list[str]:
    return [name.strip().strip('"') for name in dotted.split(".")]
