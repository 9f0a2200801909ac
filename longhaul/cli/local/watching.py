"""Takes what is new in a project while `longhaul up` runs, and says what only a restart takes."""

import json
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from types import TracebackType
from typing import Final, Self

from longhaul.config.errors import SettingsError
from longhaul.config.job_files import check
from longhaul.config.project import Project, load_project
from longhaul.config.project_file import LOCAL
from longhaul.core.settings import VARIABLE

_PERIOD_S: Final = 1.0

ChangeVariable = Callable[[str, Callable[[str], str]], None]
"""Changes a variable of functions and tasks, by its name."""


class Watch:
    """Looks at the project once a second while the block runs.

    The names of the jobs are a part of the settings that functions and tasks have. So a new job is
    known to the next invocation and to the next task, without a synthesis.
    """

    def __init__(
        self, project: Project, change_variable: ChangeVariable, say: Callable[[str], object]
    ) -> None:
        self._project = project
        self._change_variable = change_variable
        self._say = say
        self._names = project.job_names
        self._refused: str | None = None
        self._files = {file: _content(file) for file in (project.file, project.requirements)}
        self._closing = Event()
        self._thread = Thread(target=self._run, name="project-watch", daemon=True)

    def look(self) -> None:
        """Take new jobs, and say what has changed."""
        for file, before in self._files.items():
            if (now := _content(file)) != before:
                self._files[file] = now
                self._say(
                    f"{file.name} has changed: Ctrl-C and `longhaul up` again take it; what is "
                    "stored stays"
                )
        names = self._project.job_names
        if names == self._names:
            return
        try:
            load_project(self._project.folder, LOCAL).checked()
            check(self._project)
        except SettingsError as error:
            if str(error) != self._refused:
                self._refused = str(error)
                self._say(f"{error}\nthe jobs stay as they were until that is right")
            return
        self._change_variable(VARIABLE, lambda text: _with_jobs(text, names))
        come, gone = set(names) - set(self._names), set(self._names) - set(names)
        for what, which in (("new", come), ("gone", gone)):
            if which:
                self._say(f"jobs that are {what}: {', '.join(sorted(which))}")
        self._names, self._refused = names, None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closing.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._closing.wait(_PERIOD_S):
            self.look()


def _with_jobs(settings: str, names: tuple[str, ...]) -> str:
    document = json.loads(settings)
    return json.dumps({**document, "jobs": list(names)}, separators=(",", ":"))


def _content(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except OSError:
        return None
