"""The one stack of Longhaul's own app: the construct, with outputs."""

from aws_cdk import DefaultStackSynthesizer, Environment, Stack
from constructs import Construct

from longhaul.cdk.construct import Longhaul
from longhaul.config.project import Project
from longhaul.config.settings import Settings, code_prefix


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
