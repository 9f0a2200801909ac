"""The state machine and what it may do."""

from collections.abc import Sequence
from typing import Final

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from longhaul.cdk.definition import definition
from longhaul.cdk.functions import PythonFunction
from longhaul.cdk.grants import allow, for_this_account
from longhaul.cdk.log_group import LogGroup
from longhaul.cdk.nag import acknowledge
from longhaul.config.settings import Settings
from longhaul.engines.construct import EngineConstruct

# Step Functions writes any other log group into the account's resource policy of CloudWatch Logs,
# which holds 5,120 characters. Where it is full, CreateStateMachine fails.
# https://docs.aws.amazon.com/step-functions/latest/dg/bp-cwl.html
VENDED_LOGS: Final = "/aws/vendedlogs/states/"


class Workflow(Construct):
    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        settings: Settings,
        engines: Sequence[EngineConstruct],
        heartbeat: PythonFunction,
        settle: PythonFunction,
    ) -> None:
        super().__init__(scope, id_)
        stack = Stack.of(self)
        self.role = iam.Role(
            self,
            "Role",
            # https://docs.aws.amazon.com/step-functions/latest/dg/procedure-create-iam-role.html
            assumed_by=for_this_account(self, "states.amazonaws.com"),
        )
        states = definition(
            engines=[each.states() for each in engines],
            heartbeat_arn=heartbeat.function_arn,
            heartbeat_timeout_s=heartbeat.timeout_s,
            settle_arn=settle.function_arn,
            settle_timeout_s=settle.timeout_s,
            beat_ceiling_s=settings.lease.beat_ceiling_s,
            partition=stack.partition,
        )
        self.machine = sfn.StateMachine(
            self,
            "Machine",
            # A fixed name makes the ARN known without the machine: functions that the machine names
            # need it (`longhaul.cdk.construct`).
            state_machine_name=settings.stack_name,
            definition_body=sfn.DefinitionBody.from_string(stack.to_json_string(states)),
            role=self.role,
            tracing_enabled=True,
            logs=sfn.LogOptions(
                destination=LogGroup(
                    self,
                    "Logs",
                    settings=settings,
                    name=f"{VENDED_LOGS}{settings.stack_name}",
                ),
                # Failures only: the history has the rest for 90 days. Without payloads: a job's
                # parameters do not belong in a log.
                level=sfn.LogLevel.ERROR,
                include_execution_data=False,
            ),
        )
        acknowledge(
            self.machine,
            "SF1",
            "Failures are logged; "
            "ALL would bill every beat of every job for what the history holds anyway.",
        )
        acknowledge(
            self.role,
            "IAM5[Resource::*]",
            "Log delivery and tracing: their actions know no resource.",
        )
        # The machine waits for these: they go into its role's default policy.
        for each in engines:
            each.grant_running(self.role)
        # Unqualified only: `grant_invoke` would add every version and alias.
        allow(
            self.role,
            "BeatAndSettle",
            ["lambda:InvokeFunction"],
            [heartbeat.function_arn, settle.function_arn],
        )
