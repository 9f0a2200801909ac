"""The CDK app: settings from context, stack, synth.

`python -m longhaul.cdk.app` writes into the folder of the variable CDK_OUTDIR, which the CDK's CLI
sets, and else into `cdk.out` of the working directory.

A wrong setting ends it with exit code 2 and a line that says which, why, and what is allowed.
"""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from pydantic import JsonValue

from longhaul.cdk.construct import Longhaul
from longhaul.cdk.layer import LayerError
from longhaul.config.cdk_context import merged
from longhaul.config.errors import SettingsError
from longhaul.config.job_files import check
from longhaul.config.project import Project, bare, demo, load_project
from longhaul.config.project_file import ENV_VARIABLE, VARIABLE
from longhaul.config.settings import CONTEXT_KEY, Settings, code_prefix
from longhaul.config.sources import sources

# isort: split
from aws_cdk import (  # after `longhaul.cdk`, which tells jsii where Node is
    App,
    DefaultStackSynthesizer,
    Environment,
    Stack,
)
from constructs import Construct


class LonghaulStack(Stack):
    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        settings: Settings,
        project: Project | None,
        env: Environment,
    ) -> None:
        """`project`: whose jobs are deployed; None for the catalogue alone."""
        super().__init__(
            scope,
            id_,
            env=env,
            description="Longhaul: PySpark jobs of any length from an SQS queue",
            # `python app.py` and `cdk synth` must give the same template.
            analytics_reporting=False,
            # Running jobs fetch code below the prefix across a deploy
            # (`longhaul.engines.emr_serverless`).
            synthesizer=DefaultStackSynthesizer(
                bucket_prefix=code_prefix(settings.stack_name),
                qualifier=settings.bootstrap_qualifier,
            ),
        )
        # Said, where it is the default: otherwise the construct makes a name of its own.
        settings = settings.model_copy(update={"stack_name": settings.stack_name})
        # With this id the logical ids are those of a stack that has the parts itself.
        self.longhaul = Longhaul(self, "Default", settings=settings, project=project)
        self.longhaul.add_outputs()


def build(
    *,
    outdir: str,
    context: Mapping[str, JsonValue] | None = None,
    project: Project | None = None,
) -> App:
    """The app with its one stack, ready to synth into `outdir`.

    `context` overrides that of `cdk.json`, key by key. A project's settings stand in the place of
    `cdk.json`'s. Without a project a checkout deploys the jobs of its demo.

    Raises:
        SettingsError: the context holds a wrong setting, or a job of the project could never run.
    """
    # The CLI passes cdk.json's context where it finds that file. Reading it here gives the same
    # template without the CLI, and from an installed package.
    usual = json.loads((sources() / "cdk.json").read_text())["context"]
    # As the CLI does: `sam local invoke` needs this metadata to find the functions' code.
    app = App(
        outdir=outdir, context={**usual, **(context or {}), "aws:cdk:enable-asset-metadata": True}
    )
    given = app.node.try_get_context(CONTEXT_KEY)
    if project:
        check(project)
        # The CLI passes cdk.json's own settings where none override them.
        settings = project.checked(None if given == usual[CONTEXT_KEY] else given)
    else:
        project = demo()
        settings = (project or bare()).checked(merged(usual[CONTEXT_KEY], given))
    LonghaulStack(
        app,
        settings.stack_name,
        settings=settings,
        project=project,
        env=Environment(account=settings.account, region=settings.region),
    )
    return app


# Synthesis needs no account, so it cannot make these checks itself.
ALONE = (
    "longhaul: `cdk deploy` alone checks neither the account nor what a stage that is taken out "
    "still holds: run `longhaul check` first (docs/deploy.md)\n"
)


def main() -> int:
    if "CDK_CLI_VERSION" in os.environ and "LONGHAUL_CHECKED" not in os.environ:
        sys.stderr.write(ALONE)
    try:
        folder, env = os.environ.get(VARIABLE), os.environ.get(ENV_VARIABLE) or None
        app = build(
            outdir=os.environ.get("CDK_OUTDIR", str(Path("cdk.out").absolute())),
            project=load_project(Path(folder), env) if folder else None,
        )
    except (SettingsError, LayerError) as error:
        sys.stderr.write(f"{error}\n")
        return 2 if isinstance(error, SettingsError) else 1
    app.synth()
    return 0


if __name__ == "__main__":
    sys.exit(main())
