"""The settings as keyword arguments of the construct `longhaul.cdk.Longhaul`. Imports no CDK."""

import json
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, Literal, TypedDict

from pydantic import BaseModel

from longhaul.config.cdk_context import merged, read
from longhaul.config.errors import SettingsError
from longhaul.config.job_files import check
from longhaul.config.project import Project, load_project
from longhaul.config.settings import LogRetention, NetworkSettings, Settings
from longhaul.config.sizes import Sizes
from longhaul.config.stages import StageDeployment
from longhaul.engines.emr_serverless.settings import EmrSettings
from longhaul.settings import Architecture, LeaseSettings

Fields = Mapping[str, Any]
"""The fields of a settings model by name, as a table of `longhaul.toml` has them."""

OF_THE_STACK: Final = {
    "account": "an `env`",
    "region": "an `env`",
    "bootstrap_qualifier": "a `synthesizer`",
}
"""Settings that are no arguments, and what the stack around the construct has in their place."""

OF_THE_CONSTRUCT: Final = ("permissions_boundary",)
"""Settings that are arguments of the construct's own: a construct of the CDK may be one."""

OWN_ARGUMENTS: Final = (*OF_THE_CONSTRUCT, "notify", "project", "vpc", "vpc_subnets")
"""The construct's arguments beside the settings."""


class SettingsArguments(TypedDict, total=False):
    """The settings of `longhaul.toml`, as typed arguments: all but those of the two above.

    `docs/reference/settings.md` says what each is for, its default, and what is allowed.
    """

    stack_name: str
    architecture: Architecture
    log_retention_days: LogRetention
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"]
    alarm_emails: Sequence[str]
    lease: LeaseSettings | Fields
    stages: Sequence[StageDeployment | Fields]
    input_buckets: Sequence[str]
    output_buckets: Sequence[str]
    table_databases: Sequence[str]
    own_database: bool
    catalog_key: str | None
    lake_formation: bool
    optimized_tables: Sequence[str]
    job_prefixes: Sequence[str]
    kms_keys: Mapping[str, Sequence[str]]
    kms_key: str | None
    versions_days: int | None
    access_log_bucket: str | None
    role_name_prefix: str | None
    role_path: str
    allow_file_paths: bool
    sizes: Sizes | Fields
    network: NetworkSettings | Fields
    functions_in_vpc: bool
    code_signing: str | None
    emr_serverless: EmrSettings | Fields | None
    image_compression: Literal["gzip", "zstd"]
    python_image: str | None
    pip_index: str | None


def from_arguments(
    arguments: Mapping[str, object],
    *,
    where: str,
    name: str,
    env: Fields,
    project: Project | None,
) -> Settings:
    """The settings that a project has, overridden by the arguments, and checked.

    Args:
        arguments: `SettingsArguments` and those `OF_THE_CONSTRUCT`. Objects merge with the
            project's; lists and scalars replace them.
        where: the construct's path, for messages.
        name: the `stack_name` where neither the arguments nor the project have one.
        env: `account` and `region` of the stack, where they are known.
        project: its jobs are known too.

    Raises:
        SettingsError: some settings are wrong; all are named.
    """
    problems = [
        f"{where}: {setting}: is no argument: give the stack {place} that says it"
        for setting, place in OF_THE_STACK.items()
        if setting in arguments
    ]
    problems += [
        f"{where}: {problem}"
        for name in arguments
        if name not in OF_THE_STACK and (problem := _unknown(name))
    ]
    if problems:
        raise SettingsError("\n".join(problems))
    try:
        given = json.loads(json.dumps(arguments, default=_plain))
    except TypeError as error:
        raise SettingsError(f"{where}: {error}") from error
    if project:
        return project.checked(
            {"stack_name": project.settings.get("stack_name", name)} | given | env
        )
    result = read(merged({"stack_name": name}, {**given, **env}))
    if isinstance(result, Settings):
        return result
    raise SettingsError(
        "\n".join(f"{where}: {'.'.join(map(str, each.location))}: {each.why}" for each in result)
    )


def project_in(project: Project | Path | str | None) -> Project | None:
    """The project in a folder, with jobs that can run.

    Raises:
        SettingsError: it is no project, or a job of it could never run.
    """
    if isinstance(project, Path | str):
        project = load_project(Path(project))
        check(project)
    return project


def _unknown(argument: str) -> str | None:
    allowed = sorted({*SettingsArguments.__annotations__, *OWN_ARGUMENTS})
    if argument in allowed:
        return None
    near = get_close_matches(argument, allowed, n=1, cutoff=0.5)
    meant = f"did you mean {near[0]}? " if near else ""
    return f"{argument}: is no argument; {meant}allowed here: {', '.join(allowed)}"


def _plain(value: object) -> object:
    match value:
        case BaseModel():
            # What is not set keeps the defaults of a later version.
            return value.model_dump(mode="json", exclude_unset=True)
        case Mapping():
            return dict(value)
        case Sequence():
            return list(value)
        case _:
            raise TypeError(f"{value!r} is no value of a setting")
