"""Requests' parameters against the `Params` of a project's jobs, before anything is sent."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Final

from longhaul.cli.extras import lacking
from longhaul.cli.local_project import python_environment
from longhaul.cli.project import chosen
from longhaul.cli.target import Target
from longhaul.config.project import Project
from longhaul.operations.submission import Problem, Submission
from longhaul.settings import Stage

_CHECK: Final = "longhaul.runner.params_check"
# An import of Spark and of what a job needs takes seconds. One that hangs must not keep a request.
_PATIENCE_S: Final = 60


def wrong_params(
    target: Target,
    submissions: Sequence[Submission],
    stage: Stage,
    note: Callable[[str], object],
) -> list[Problem]:
    """What is wrong with parameters of jobs of the chosen project, if the stack is its own.

    Notes why some were not checked.
    """
    project = chosen()
    if project is None or project.stack_name != target.stack:
        return []
    wrong, unchecked = check_params(project, submissions, stage)
    for each in unchecked:
        note(each)
    return wrong


def check_params(
    project: Project, submissions: Sequence[Submission], stage: Stage
) -> tuple[list[Problem], list[str]]:
    """What is wrong with parameters of the project's own jobs; and why some were not checked.

    The jobs' modules are imported in a process of its own, with a session that does nothing: one
    whose import needs more cannot be checked here, and the task does it.
    """
    with_jobs = [(each, each.request.job or stage.job or "") for each in submissions]
    own = [(each, job) for each, job in with_jobs if (project.jobs / f"{job}.py").is_file()]
    if not own:
        return [], []
    if why := lacking("local", "pyspark"):
        return [], [f"parameters are checked by the tasks alone: a check here {why}"]
    question = json.dumps([[job, dict(each.request.params)] for each, job in own])
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", _CHECK],
            input=question,
            cwd=project.folder,
            env=os.environ | python_environment(project),
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
            check=True,
        )
        answers = json.loads(done.stdout.splitlines()[-1])
    except (subprocess.SubprocessError, ValueError, IndexError) as error:
        return [], [f"parameters were not checked: {error}"]
    problems, unchecked = [], {}
    for (each, job), answer in zip(own, answers, strict=True):
        if "wrong" in answer:
            problems.append(Problem(each.position, answer["wrong"]))
        elif "unchecked" in answer:
            unchecked[job] = answer["unchecked"]
    notes = [
        f"parameters of {job} are checked by its task alone: {why}"
        for job, why in unchecked.items()
    ]
    return problems, notes
