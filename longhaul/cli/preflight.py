"""Checks before `longhaul deploy` builds anything: `longhaul check`.

The exit code is 1 if the deployment would fail or lose something, and 2 if a setting is wrong.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import partial, wraps

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    MissingDependencyException,
    NoCredentialsError,
    NoRegionError,
    ProfileNotFound,
)

from longhaul.cli.checks import base_image, catalog, deploying, docker, lake, network
from longhaul.cli.checks.deploying import Plan
from longhaul.cli.checks.finding import MARKS, Finding, Level, problem, skipped
from longhaul.cli.errors import CommandError
from longhaul.cli.place import Place
from longhaul.cli.project import chosen
from longhaul.cli.sentences import translated
from longhaul.cli.target import Target
from longhaul.config.cdk_context import load
from longhaul.config.errors import SettingsError
from longhaul.config.settings import CONTEXT_KEY, Settings
from longhaul.config.sources import sources
from longhaul.domain.errors import LonghaulError

Check = Callable[[], Iterator[Finding]]
_Checks = Callable[[Settings, str | None], int]


def with_settings(command: str) -> Callable[[_Checks], Callable[[Sequence[str]], int]]:
    """Checks of a command as its `main`: it reads the arguments, and is 2 if a setting is wrong."""

    def decorated(checks: _Checks) -> Callable[[Sequence[str]], int]:
        @wraps(checks)
        def main(arguments: Sequence[str]) -> int:
            given = parsed(arguments, command)
            try:
                settings = given_settings(given.context)
            except SettingsError as error:
                sys.stderr.write(f"{error}\n")
                return 2
            return checks(settings, given.profile)

        return main

    return decorated


@with_settings("longhaul deploy")
def main(settings: Settings, profile: str | None) -> int:
    problems = tell(findings(settings, profile))
    if problems:
        sys.stdout.write(f"{problems} to solve first; nothing was built or deployed\n")
    return 1 if problems else 0


@with_settings("longhaul diff")
def before_diff(settings: Settings, profile: str | None) -> int:
    """Whether the CDK can look at the account: it says twice, and in other words, that it cannot.

    Prints problems alone: what follows is the difference.
    """
    return 1 if misplaced(settings, profile) else 0


def misplaced(settings: Settings, profile: str | None) -> int:
    """The number of problems with credentials, region and account; prints these alone."""
    return tell(each for each in place(settings, profile) if each.level is Level.PROBLEM)


def tell(findings: Iterable[Finding]) -> int:
    """Print the findings as they come; returns the number of problems."""
    problems = 0
    for finding in findings:
        problems += finding.level is Level.PROBLEM
        sys.stdout.write(f"{MARKS[finding.level]}  {finding.what}\n")
        if finding.do:
            sys.stdout.write(f"    → {finding.do}\n")
        sys.stdout.flush()
    return problems


def findings(settings: Settings, profile: str | None) -> Iterator[Finding]:
    """All that can be known before anything is built.

    The machine's part first: it needs no account.
    """
    yield from _guarded("docker", partial(docker.builds, settings.architecture))
    yield from base_image.check(settings.python_image)
    plan = yield from place(settings, profile)
    if plan is None:
        return
    for name, check in account_checks(plan):
        yield from _guarded(name, check)


def account_checks(plan: Plan) -> Iterator[tuple[str, Check]]:
    """What is asked of the account, by name."""
    yield "bootstrap", partial(_bootstrap, plan)
    yield "roles", partial(deploying.boundary, plan)
    yield "ecs", partial(deploying.service_role, plan.target)
    yield "quotas", partial(deploying.quotas, plan)
    yield "network", partial(network.room, plan)
    yield "stages", partial(deploying.stages, plan)
    yield "tables", partial(deploying.databases, plan)
    yield "catalog", partial(catalog.encryption, plan)
    yield "lake", partial(lake.governed, plan)


def _bootstrap(plan: Plan) -> Iterator[Finding]:
    parameter = deploying.version_parameter(plan.settings.bootstrap_qualifier)
    return deploying.bootstrap(plan.target, parameter)


def place(settings: Settings, profile: str | None) -> Generator[Finding, None, Plan | None]:
    """Whether there are credentials for the account of the settings; None where there are none."""
    try:
        plan = Plan(target_of(settings, profile), settings)
        yield from deploying.place(plan)
    except NoRegionError:
        yield problem(
            "region: none is chosen",
            "set AWS_DEFAULT_REGION, give the profile one "
            "(`aws configure set region eu-central-1`), or set the setting region",
        )
        return None
    except (NoCredentialsError, ProfileNotFound) as error:
        yield problem(
            f"credentials: {error}",
            "log in (`aws login`, `aws sso login`, `aws configure`), and choose a profile with "
            "AWS_PROFILE, or with --profile",
        )
        return None
    except MissingDependencyException as error:
        message = translated(error, on_aws=True)
        yield problem(
            f"credentials: {message}", "install it, or choose a profile that logs in another way"
        )
        return None
    except (ClientError, BotoCoreError) as error:
        message = translated(error, on_aws=True)
        yield problem(f"credentials: AWS does not take them: {message}", "log in again")
        return None
    return plan


def _guarded(name: str, check: Check) -> Iterator[Finding]:
    """A check that may not look is skipped; the others run."""
    try:
        yield from check()
    except (CommandError, LonghaulError) as error:
        yield skipped(f"{name}: could not be checked: {error}")
    except (ClientError, BotoCoreError) as error:
        yield skipped(f"{name}: could not be checked: {translated(error, on_aws=True)}")


def given_settings(contexts: Sequence[str]) -> Settings:
    """The project's settings or `cdk.json`'s, overridden by the last `longhaul=…` of `contexts`."""
    pairs = (each.partition("=") for each in contexts)
    values = [value for key, _, value in pairs if key == CONTEXT_KEY]
    override = values[-1] if values else None
    if (project := chosen()) is not None:
        return project.checked(override)
    usual = json.loads((sources() / "cdk.json").read_text())["context"][CONTEXT_KEY]
    return load(usual, override)


def target_of(settings: Settings, profile: str | None) -> Target:
    # Never the embedded AWS of this machine, which `locate` would find: the CDK does not deploy
    # there.
    endpoint = os.environ.get("AWS_ENDPOINT_URL") or None
    # The CDK knows AWS_REGION; boto3 knows the other one and the profile's.
    region = settings.region or os.environ.get("AWS_REGION") or None
    return Target(Place(endpoint, region, profile, embedded=False), settings.stack_name)


def parsed(arguments: Sequence[str], prog: str) -> argparse.Namespace:
    """The arguments that concern us; the others are the CDK's alone."""
    parser = argparse.ArgumentParser(prog=prog, allow_abbrev=False, add_help=False)
    parser.add_argument("--profile")
    parser.add_argument("-c", "--context", action="append", default=[])
    return parser.parse_known_args(arguments)[0]
