"""A team's project: a folder with `longhaul.toml`, the jobs, and what they import.

The file holds the settings of `cdk.json`'s key `longhaul`, under the same names, what differs in an
environment (`[env.prod]`), and the version of Longhaul that the project is for. Imports no CDK.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

from longhaul.config.cdk_context import merged, read
from longhaul.config.errors import Problem, SettingsError
from longhaul.config.known import unfit
from longhaul.config.project_file import FILE, LOCAL, read_file
from longhaul.config.settings import CONTEXT_KEY, Settings
from longhaul.config.sources import sources
from longhaul.domain.job_kinds import JobKind, kind_of

VERSION_KEY: Final = "version"
ENVIRONMENTS_KEY: Final = "env"
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
    written: Mapping[str, Any]
    """The settings as they are written, without an environment."""
    environments: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The tables `[env.NAME]`: what differs there."""
    env: str | None = None
    """The environment that is chosen."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings in the chosen environment, not yet checked."""
        return self.overlaid(self.written)

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

    def of(self, env: str | None) -> "Project":
        """The project in an environment; None: without one.

        Raises:
            SettingsError: it has no such environment.
        """
        if env not in (None, LOCAL, *self.environments):
            names = ", ".join({LOCAL: None, **self.environments})
            raise SettingsError(
                f"{self.file}: there is no environment {env!r}; there are: {names}; a table "
                f"[{ENVIRONMENTS_KEY}.{env}] with what differs makes one"
            )
        return replace(self, env=env)

    def overlaid(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Settings with what the environment has laid over them.

        Objects merge; lists and scalars replace. Stages are in a table by their names.
        """
        over = dict(self.environments.get(self.env or "", {}))
        stages = over.pop("stages", {})
        result: dict[str, Any] = merged(dict(settings), over)
        if stages:
            below = result.get("stages", [{}])
            result["stages"] = [merged(each, stages.get(_name_of(each))) for each in below]
        return result

    def checked(self, override: Any = None, where: str = CONTEXT_KEY) -> Settings:  # noqa: ANN401 - JSON
        """The settings in the environment, overridden by those of the CDK's context.

        `where` is what messages begin with where the project has no file of settings.

        Raises:
            SettingsError: some are wrong; all are named, with their lines.
        """
        result = read(merged(dict(self.settings), override))
        problems = [*self._unfit(result)] if isinstance(result, Settings) else result
        if isinstance(result, Settings) and not problems:
            return result
        raise self.refused(problems, where)

    def refused(self, problems: Iterable[Problem], where: str = CONTEXT_KEY) -> SettingsError:
        """What to raise for these problems: a line for each, in the order of the file."""
        lines = sorted(((self._line(each.location), each) for each in problems), key=itemgetter(0))
        return SettingsError("\n".join(self._placed(*each, where) for each in lines))

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

    def _line(self, location: tuple[int | str, ...]) -> int:
        """The line of a setting: that of the environment, where it has the setting; 0 for none."""
        there: tuple[int | str, ...] = (ENVIRONMENTS_KEY, self.env or "", *location)
        match location:
            case ("stages", int(n), *rest) if n < len(stages := self.settings.get("stages", [])):
                there = (*there[:3], _name_of(stages[n]), *rest)
        written, depth = line_of(self.text, location)
        over, depth_there = line_of(self.text, there)
        return over if depth_there - 2 >= max(depth, 1) else written

    def _placed(self, line: int, problem: Problem, where: str) -> str:
        if not self.text:
            return problem.at(where)
        path = ".".join(map(str, problem.location))
        return (
            f"{self.file}:{f'{line}:' if line else ''} {f'{path}: ' if path else ''}{problem.why}"
        )


def load_project(folder: Path, env: str | None = None) -> Project:
    """The project in a folder, in an environment; its settings are not checked yet.

    Raises:
        SettingsError: there is no `longhaul.toml`, it is no TOML, or has no such environment.
    """
    of_project, text, read_content = read_file(folder)
    content = dict(read_content)
    version, environments = content.pop(VERSION_KEY, None), content.pop(ENVIRONMENTS_KEY, {})
    project = Project(of_project, text, version, content)
    problems = [*_wrong_environments(environments, content)]
    if not isinstance(version, str | None):
        problems.append(Problem((VERSION_KEY,), 'write it as a text, such as "0.1.0"'))
    if problems:
        raise project.refused(problems)
    return replace(project, environments=environments).of(env)


def _wrong_environments(environments: Any, content: Mapping[str, Any]) -> Iterator[Problem]:  # noqa: ANN401
    names = {_name_of(each): None for each in content.get("stages", [{}])}
    if not isinstance(environments, dict):
        yield Problem((ENVIRONMENTS_KEY, 0), f"write a table for each, [{ENVIRONMENTS_KEY}.NAME]")
        return
    for env, over in environments.items():
        at = (ENVIRONMENTS_KEY, env)
        stages = over.get("stages", {}) if isinstance(over, dict) else None
        if not isinstance(stages, dict):
            # The first of a list, to find its line.
            place = (*at, "stages", 0) if isinstance(over, dict) else (*at, 0)
            table = ".".join(at)
            why = f"write it as a table, [{table}], and a stage as [{table}.stages.NAME]"
            yield Problem(place, why)
            continue
        for name in stages:
            if name not in names:
                why = f"there is no stage {name!r}; there are: {', '.join(names)}"
                yield Problem((*at, "stages", name), why)
        for name in _NOT_LOCAL if env == LOCAL else ():
            if name in over:
                yield Problem((*at, name), "is the same everywhere: it cannot be set for here")


def _name_of(stage: Any) -> str:  # noqa: ANN401 - as it is written
    return str(stage.get("name", "main")) if isinstance(stage, dict) else ""


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
    return replace(load_project(folder), text="", written={})


def line_of(text: str, location: tuple[int | str, ...]) -> tuple[int, int]:
    """The line of `longhaul.toml` that names the most of a setting's path, and how many parts.

    Args:
        text: the file.
        location: as pydantic gives it, such as `("stages", 0, "slots")`.
    """
    best, depth = 0, 0
    for number, path in _paths(text):
        if len(path) > depth and path == location[: len(path)]:
            best, depth = number, len(path)
    return best, depth


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
