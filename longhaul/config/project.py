"""A team's project: a folder with `longhaul.toml`, the jobs, and what they import.

The file holds the settings of `cdk.json`'s key `longhaul`, under the same names, what differs in an
environment (`[env.prod]`), and the version of Longhaul that the project is for. Imports no CDK.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from longhaul.config.cdk_context import merged, read
from longhaul.config.errors import Location, Problem, SettingsError
from longhaul.config.project_file import FILE, LOCAL, read_file
from longhaul.config.rules import problems
from longhaul.config.settings import CONTEXT_KEY, Settings
from longhaul.config.sources import sources

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
        result: dict[str, Any] = merged(settings, over)
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
        result = read(merged(self.settings, override))
        found = problems(result, self.job_names) if isinstance(result, Settings) else result
        if found or not isinstance(result, Settings):
            raise self.refused(found, where)
        return result

    def refused(self, found: Iterable[Problem], where: str = CONTEXT_KEY) -> SettingsError:
        """What to raise for these problems: a line for each, in the order of the file."""
        lines = sorted(found, key=lambda each: self._line(each.location))
        return SettingsError("\n".join(self._placed(each, where) for each in lines))

    def _line(self, location: Location) -> int:
        """The line that names the most of a setting's path; of two the later; 0 for none.

        `location` is as pydantic gives it, such as `("stages", 0, "slots")`.
        """
        found = [
            (len(path), number)
            for number, path in self._places()
            if path and path == location[: len(path)]
        ]
        return max(found, default=(0, 0))[1]

    def _places(self) -> Iterator[tuple[int, Location]]:
        """Each line that names a table or a setting, with its path in the chosen environment."""
        names = _stage_names(self.written)
        for number, path in _paths(self.text):
            match path:
                case ("env", self.env, "stages", str(name), *rest) if name in names:
                    yield number, ("stages", names.index(name), *rest)
                case ("env", self.env, *rest):
                    yield number, tuple(rest)
                case _:
                    yield number, path

    def _placed(self, problem: Problem, where: str) -> str:
        if not self.text:
            return problem.at(where)
        line = self._line(problem.location)
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
    wrong = [*_wrong_environments(environments, _stage_names(content))]
    if not isinstance(version, str | None):
        wrong.append(Problem((VERSION_KEY,), 'write it as a text, such as "0.1.0"'))
    if wrong:
        raise project.refused(wrong)
    return replace(project, environments=environments).of(env)


def _wrong_environments(environments: Any, names: Sequence[str]) -> Iterator[Problem]:  # noqa: ANN401
    """`names` are those of the stages."""
    if not isinstance(environments, dict):
        yield Problem((ENVIRONMENTS_KEY,), f"write a table for each, [{ENVIRONMENTS_KEY}.NAME]")
        return
    for env, over in environments.items():
        at = (ENVIRONMENTS_KEY, env)
        if not isinstance(over, dict) or not isinstance(over.get("stages", {}), dict):
            table = ".".join(at)
            why = f"write it as a table, [{table}], and a stage as [{table}.stages.NAME]"
            yield Problem((*at, "stages"), why)
            continue
        for name in {*over.get("stages", {})} - {*names}:
            why = f"there is no stage {name!r}; there are: {', '.join(names)}"
            yield Problem((*at, "stages", name), why)
        for name in {*over} & {*_NOT_LOCAL} if env == LOCAL else ():
            yield Problem((*at, name), "is the same everywhere: it cannot be set for here")


def _stage_names(content: Mapping[str, Any]) -> list[str]:
    stages = content.get("stages", [{}])
    return [_name_of(each) for each in stages] if isinstance(stages, list) else []


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


def _paths(text: str) -> Iterator[tuple[int, Location]]:
    """Each line that names a table or a setting, with its path."""
    table: Location = ()
    stage = -1  # the stages are the one list of tables
    for number, line in enumerate(text.splitlines(), 1):
        if header := _TABLE.match(line):
            names = _names(header[2])
            stage += header[1] == "[["
            table = ("stages", stage, *names[1:]) if names[0] == "stages" else tuple(names)
            yield number, table
        elif key := _KEY.match(line):
            yield number, (*table, *_names(key[1]))


def _names(dotted: str) -> list[str]:
    return [name.strip().strip('"') for name in dotted.split(".")]
