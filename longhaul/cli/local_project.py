"""A project on this machine: what its jobs import, and the template that `longhaul up` deploys."""

import json
import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from longhaul.cli import premade
from longhaul.cli.extras import require
from longhaul.cli.project import chosen
from longhaul.cli.synth import PROFILE, kept_synth
from longhaul.config.errors import SettingsError
from longhaul.config.job_files import check
from longhaul.config.project import Project
from longhaul.config.project_file import LOCAL
from longhaul.config.requirements import check_for_image, install
from longhaul.config.settings import CONTEXT_KEY
from longhaul.config.sources import sources
from longhaul.core.settings import StageSettings
from longhaul.local.running import LOOPBACK, REGION

_BUNDLED: Final[dict[str, object]] = {"aws:cdk:bundling-stacks": ["**"]}
# Where a secret is: here is another account and region.
_WHERE: Final = re.compile(r"^arn:[^:]+:(secretsmanager|ssm):[^:]+:[^:]+:")
_HERE: Final = rf"arn:aws:\1:{REGION}:123456789012:"
# A job is a Spark of its own, and this machine has a few cores.
_LOCAL_SLOTS: Final = 2


def make_ready(project: Project) -> None:
    """Install what the jobs import, and check all else.

    Raises:
        SettingsError: settings, requirements or jobs are wrong; the message has everything.
    """
    steps: list[Callable[[], object]] = [
        *(project.of(env).checked for env in dict.fromkeys((project.env, *project.environments))),
        partial(_install, project),
        partial(check, project),  # also against the names of what is installed
    ]
    problems = []
    for step in steps:
        try:
            step()
        except SettingsError as error:
            problems.append(str(error))
    if problems:
        raise SettingsError("\n".join(dict.fromkeys(problems)))


def _install(project: Project) -> None:
    check_for_image(project.requirements)
    install(project.requirements, project.packages, sources())


def python_environment(project: Project) -> dict[str, str]:
    """Variables with which Python finds the project's jobs and what they import.

    The checkout comes first: no module of the project may hide the package.
    """
    path = (sources(), project.jobs, project.packages)
    return {"LONGHAUL_JOBS": str(project.jobs), "PYTHONPATH": os.pathsep.join(map(str, path))}


def local_synth(
    folder: Path, host: str = LOOPBACK, begins: Callable[[], object] = lambda: None
) -> Path:
    """The assembly that `longhaul up --host` deploys: the chosen project's, or `cdk.json`'s.

    That of a new project, also under other names, is made already. Any other is kept in the folder,
    and synthesized again, after `begins`, once what it is made of has changed. On loopback its
    layer is empty: functions run in this environment. On Docker's bridge the layer is built,
    because there `sam local invoke` mounts it.

    Raises:
        CommandError: it is to be synthesized, and the CDK is not installed.
    """
    project = chosen()
    context: dict[str, object] = {} if host == LOOPBACK else _BUNDLED
    own, of = (local_context(project), project.folder) if project else ({}, None)
    if project and host == LOOPBACK and premade.write(folder, project, own):
        return folder
    require("deploy", what="a stack with other settings than a new project's")
    return kept_synth(folder, context=own | context, project=of, begins=begins)


def local_context(project: Project) -> dict[str, Any]:
    """CDK context of the project on this machine: its own settings, with the profile's times.

    Its environment `local` is laid over both.

    Raises:
        SettingsError: its settings are wrong.
    """
    project = project.of(LOCAL)
    settings = project.checked()
    profile: dict[str, Any] = json.loads(PROFILE.read_text())
    local = profile[CONTEXT_KEY]
    if settings.emr_serverless is None:
        # Its archives would be built at each start, for an engine that the project does not have.
        del local["emr_serverless"]
    local["stages"] = [
        _local_stage(each) for each in project.settings.get("stages", [{"name": "main"}])
    ]
    # The embedded AWS has no alarms, and no optimizer of Glue's.
    local |= {"alarm_emails": [], "optimized_tables": []}
    of_profile = {name: local[name] for name in ("input_buckets", "output_buckets")}
    local |= {name: getattr(settings, name) for name in of_profile}
    local = project.overlaid(local)
    local |= {name: sorted({*usual, *local[name]}) for name, usual in of_profile.items()}
    # It is one account and region of its own.
    return profile | {CONTEXT_KEY: local | {"account": None, "region": None}}


def _local_stage(stage: dict[str, Any]) -> dict[str, Any]:
    usual: int = StageSettings.model_fields["slots"].default
    # The embedded AWS has neither roles nor policies of the account.
    without, advanced = ("role", "managed_policies"), stage.get("advanced", {})
    advanced = {name: value for name, value in advanced.items() if name not in without}
    if secrets := advanced.get("secrets"):
        advanced["secrets"] = {name: _WHERE.sub(_HERE, arn) for name, arn in secrets.items()}
    return {**stage, "slots": min(stage.get("slots", usual), _LOCAL_SLOTS), "advanced": advanced}
