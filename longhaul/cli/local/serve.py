"""Serves the embedded AWS with the stack deployed, in the foreground."""

import json
from collections import defaultdict
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from threading import Event
from typing import Final

from rich.console import Console

from longhaul.cli.local.aws import embedded_aws, roles_judge_if_any
from longhaul.cli.local.ready import say_ready
from longhaul.cli.local.training import BackgroundTraining
from longhaul.cli.local.watching import Watch
from longhaul.cli.local_project import local_synth, make_ready
from longhaul.cli.project import DEFAULT_STACK, default_work_dir
from longhaul.cli.terminal.output import Output
from longhaul.cli.terminal.signals import ends_within, stop_signals
from longhaul.config.project import Project
from longhaul.core.settings import VARIABLE, RuntimeSettings
from longhaul.local.cloud import EmbeddedAws
from longhaul.local.credentials import aws_client
from longhaul.local.running import announce, withdraw
from longhaul.local.state.store import FOLDER, StateError, Store, begin_anew

# A task has two minutes at most to end, as on ECS.
_STOP_WITHIN_S: Final = 180.0

SAM_ENVIRONMENT = "sam-env.json"
"""In the work dir: for `sam local invoke --env-vars`."""


def serve(
    out: Output,
    *,
    host: str,
    port: int,
    work_dir: Path,
    project: Project | None,
    enforce_roles: bool,
    fresh: bool,
) -> None:
    """Serve until SIGINT or SIGTERM; what is on stdout says when it is ready.

    The address is one that `longhaul.cli.local.address` has checked, and the caller holds the work
    dir.

    What an earlier start has stored is there again, unless `fresh` begins without it.

    Raises:
        SettingsError: something is wrong with the project; nothing was synthesized.
        StateError: what an earlier start has stored is of another version, or damaged.
        KeyboardInterrupt: a signal came before there was anything to stop.
    """
    stderr = out.err
    with stop_signals() as at_stop, BackgroundTraining():
        if project is not None:
            stderr.print("looking after the project and what its jobs import …")
            make_ready(project)
        stack = project.stack_name if project else DEFAULT_STACK
        store = _opened(work_dir, stack, fresh=fresh)
        says = partial(stderr.print, "synthesizing the stack …")
        assembly = local_synth(work_dir / "cdk.out", host, says)
        stopping = Event()
        at_stop(ends_within(_STOP_WITHIN_S, stopping))
        iam = roles_judge_if_any(partial(stderr.print, soft_wrap=True)) if enforce_roles else None
        with embedded_aws(
            work_dir, port=port, host=host, project=project, iam=iam, store=store
        ) as aws:
            outputs = _deploy(aws, assembly, stack)
            # Before anything on stdout: its readers may run a command that looks for this file.
            announce(aws.work_dir, endpoint=aws.endpoint, region=aws.region, stack=stack)
            try:
                say_ready(
                    out,
                    deployed_settings(aws),
                    endpoint=aws.endpoint,
                    region=aws.region,
                    outputs=outputs,
                )
                _say_where(stderr, aws)
                with _watched(project, aws, partial(stderr.print, soft_wrap=True, markup=False)):
                    stopping.wait()
            finally:
                withdraw(aws.work_dir)
            stderr.print("stopping …")


def _watched(
    project: Project | None, aws: EmbeddedAws, say: Callable[[str], object]
) -> AbstractContextManager[object]:
    def change(name: str, change: Callable[[str], str]) -> None:
        aws.change_variable(name, change)
        write_sam_environment(aws, deployed_settings(aws))

    return nullcontext() if project is None else Watch(project, change, say)


def _opened(work_dir: Path, stack: str, *, fresh: bool) -> Store:
    if fresh:
        begin_anew(work_dir)
    try:
        return Store(work_dir / FOLDER, stack).open()
    except StateError as error:
        raise StateError(f"{error}; `longhaul up --fresh` begins without it") from error


def _deploy(aws: EmbeddedAws, assembly: Path, stack: str) -> dict[str, str]:
    """Deploy the stack, and make what an account has beside it. Returns the stack's outputs."""
    outputs = aws.deploy(assembly, stack)
    settings = deployed_settings(aws)
    make_buckets(aws, settings)
    write_sam_environment(aws, settings)
    return outputs


def _say_where(stderr: Console, aws: EmbeddedAws) -> None:
    stderr.print(
        f"ready: AWS_ENDPOINT_URL={aws.endpoint}, logs under {aws.work_dir}; Ctrl-C ends it",
        soft_wrap=True,
    )
    usual = default_work_dir()
    if aws.work_dir.resolve() != usual.resolve():
        stderr.print(
            f"commands look for it only in {usual}: set AWS_ENDPOINT_URL for them, as above",
            soft_wrap=True,
        )


def deployed_settings(aws: EmbeddedAws) -> RuntimeSettings:
    """The settings that the stack's functions have, all the same, with the deployed names."""
    return RuntimeSettings.model_validate_json(_variables(aws)[0][VARIABLE])


def _variables(aws: EmbeddedAws) -> list[dict[str, str]]:
    """The environment of each function."""
    client = aws_client("lambda", endpoint=aws.endpoint, region=aws.region)
    return [each["Environment"]["Variables"] for each in client.list_functions()["Functions"]]


def make_buckets(aws: EmbeddedAws, settings: RuntimeSettings) -> None:
    """Make the other buckets that requests may name. In an account they exist already."""
    s3 = aws_client("s3", endpoint=aws.endpoint, region=aws.region)
    present = {bucket["Name"] for bucket in s3.list_buckets()["Buckets"]}
    wanted = {*settings.paths.input_buckets, *settings.paths.output_buckets}
    for bucket in sorted(wanted - present):
        s3.create_bucket(Bucket=bucket)


def write_sam_environment(aws: EmbeddedAws, settings: RuntimeSettings) -> None:
    """Write the functions' settings for `sam local invoke`, which does not resolve references.

    For any other variable of the template sam takes this machine's value, if it has one: TMPDIR,
    above all. So those with one value in all functions that have them are in the file too.
    """
    value = settings.model_copy(update={"endpoint_url": aws.endpoint}).model_dump_json(
        exclude_defaults=True
    )
    names: dict[str, set[str]] = defaultdict(set)
    for variables in _variables(aws):
        for name, each in variables.items():
            names[name].add(each)
    shared = {name: min(values) for name, values in sorted(names.items()) if len(values) == 1}
    document = {"Parameters": shared | {VARIABLE: value}}
    (aws.work_dir / SAM_ENVIRONMENT).write_text(json.dumps(document, indent=2) + "\n")
