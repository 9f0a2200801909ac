"""The state machine and what it may do."""

from typing import Final

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from infra.definition import definition
from infra.emr_serverless import EmrServerless
from infra.functions import PythonFunction
from infra.grants import WHY_ANY_TASK, allow, for_this_account
from infra.log_group import LogGroup
from infra.nag import acknowledge
from infra.network import Network
from infra.settings import Settings
from infra.spark_runtime import SparkRuntime, family

# Step Functions makes these rules itself, once for each account. They report the end of what it
# runs with `.sync`.
SYNC_RULE: Final = "StepFunctionsGetEventsForECSTaskRule"
EMR_SYNC_RULE: Final = "StepFunctionsGetEventsForEMRServerlessJobRule"
# Step Functions writes any other log group into the account's resource policy of CloudWatch Logs,
# which holds 5,120 characters. Where it is full, CreateStateMachine fails.
# https://docs.aws.amazon.com/step-functions/latest/dg/bp-cwl.html
VENDED_LOGS: Final = "/aws/vendedlogs/states/"


class Workflow(Construct):
    def __init__(  # noqa: PLR0913 - these are the parts that the machine joins
        self,
        scope: Construct,
        id_: str,
        *,
        settings: Settings,
        spark: SparkRuntime,
        emr: EmrServerless | None,
        runtime_settings: str,
        network: Network,
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
            run_task={
                "Cluster": spark.cluster.attr_arn,
                "NetworkConfiguration": {
                    "AwsvpcConfiguration": {
                        "Subnets": network.subnet_ids,
                        "SecurityGroups": [network.security_group.security_group_id],
                        "AssignPublicIp": "ENABLED" if network.assign_public_ip else "DISABLED",
                    }
                },
            },
            task_families=settings.stack_name,
            heartbeat_arn=heartbeat.function_arn,
            heartbeat_timeout_s=heartbeat.timeout_s,
            settle_arn=settle.function_arn,
            settle_timeout_s=settle.timeout_s,
            beat_ceiling_s=settings.lease.beat_ceiling_s,
            partition=stack.partition,
            emr_job_run=emr.job_run(runtime_settings) if emr else None,
        )
        self.machine = sfn.StateMachine(
            self,
            "Machine",
            # A fixed name makes the ARN known without the machine: functions that the machine names
            # need it (`infra.deployed`).
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
        self._grant_running_tasks(stack, settings, spark)
        if emr is not None:
            self._grant_running_job_runs(stack, emr)
        self._grant_invoking(heartbeat, settle)

    def _grant_running_tasks(self, stack: Stack, settings: Settings, spark: SparkRuntime) -> None:
        allow(
            self.role,
            "RunTheJob",
            ["ecs:RunTask"],
            [
                stack.format_arn(
                    service="ecs",
                    resource="task-definition",
                    resource_name=f"{family(settings.stack_name, size)}:*",
                )
                for size in settings.sizes.by_name()
            ],
            conditions={"ArnEquals": {"ecs:cluster": spark.cluster.attr_arn}},
            wildcards=(
                "Any revision of our families: executions name the family, and outlive revisions."
            ),
        )
        allow(
            self.role,
            "FollowTheTask",
            ["ecs:StopTask", "ecs:DescribeTasks"],
            [spark.tasks],
            wildcards=WHY_ANY_TASK,
        )
        allow(
            self.role,
            "HearOfItsEnd",
            ["events:PutTargets", "events:PutRule", "events:DescribeRule"],
            [stack.format_arn(service="events", resource="rule", resource_name=SYNC_RULE)],
        )
        allow(
            self.role,
            "LendItsRoles",
            ["iam:PassRole"],
            [spark.task_role.role_arn, spark.execution_role.role_arn],
            conditions={"StringEquals": {"iam:PassedToService": "ecs-tasks.amazonaws.com"}},
        )

    def _grant_running_job_runs(self, stack: Stack, emr: EmrServerless) -> None:
        # https://docs.aws.amazon.com/step-functions/latest/dg/emr-serverless-iam.html
        allow(
            self.role, "RunTheJobOnEmr", ["emr-serverless:StartJobRun"], [emr.application.attr_arn]
        )
        allow(
            self.role,
            "FollowTheJobRun",
            ["emr-serverless:GetJobRun", "emr-serverless:CancelJobRun"],
            [emr.job_runs],
            wildcards="A job run's id is known only once it runs; the application is ours alone.",
        )
        allow(
            self.role,
            "HearOfTheJobRunsEnd",
            ["events:PutTargets", "events:PutRule", "events:DescribeRule"],
            [stack.format_arn(service="events", resource="rule", resource_name=EMR_SYNC_RULE)],
        )
        allow(
            self.role,
            "LendTheJobRole",
            ["iam:PassRole"],
            [emr.job_role.role_arn],
            conditions={"StringEquals": {"iam:PassedToService": "emr-serverless.amazonaws.com"}},
        )

    def _grant_invoking(self, *functions: PythonFunction) -> None:
        # Unqualified only: `grant_invoke` would add every version and alias.
        allow(
            self.role,
            "BeatAndSettle",
            ["lambda:InvokeFunction"],
            [function.function_arn for function in functions],
        )
