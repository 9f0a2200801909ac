"""The state machine and what it may do."""

from collections.abc import Mapping
from typing import Final

from aws_cdk import ArnFormat, Duration, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from infra.definition import EmrJobRun, definition
from infra.emr_serverless import EmrServerless
from infra.functions import PythonFunction
from infra.grants import allow
from infra.logs import LogGroup
from infra.nag import acknowledge
from infra.network import Network
from infra.settings import Settings
from infra.spark_runtime import SparkRuntime, family

# Step Functions makes this rule itself, once per account, to hear of the end of tasks that it runs with `.sync`.
SYNC_RULE: Final = "StepFunctionsGetEventsForECSTaskRule"
EMR_SYNC_RULE: Final = "StepFunctionsGetEventsForEMRServerlessJobRule"


class Workflow(Construct):
    def __init__(  # noqa: PLR0913 - these are the parts that the machine joins
        self,
        scope: Construct,
        id_: str,
        *,
        settings: Settings,
        runtime: SparkRuntime,
        emr: EmrServerless | None,
        runtime_settings: Mapping[str, object],
        network: Network,
        heartbeat: PythonFunction,
        heartbeat_timeout: Duration,
        settle: PythonFunction,
        settle_timeout: Duration,
    ) -> None:
        super().__init__(scope, id_)
        stack = Stack.of(self)
        self.role = iam.Role(self, "Role", assumed_by=iam.ServicePrincipal("states.amazonaws.com"))
        states = definition(
            run_task={
                "Cluster": runtime.cluster.attr_arn,
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
            heartbeat_timeout_s=int(heartbeat_timeout.to_seconds()),
            settle_arn=settle.function_arn,
            settle_timeout_s=int(settle_timeout.to_seconds()),
            skip_wait_s=settings.lease.skip_wait_s,
            partition=stack.partition,
            emr_job_run=EmrJobRun(emr.run(runtime_settings), emr.spark_parameters(), emr.worker_parameters())
            if emr
            else None,
        )
        self.machine = sfn.StateMachine(
            self,
            "Machine",
            # A name of our own, so that the ARN is known without the machine: settle, which the machine names, has to name executions.
            state_machine_name=settings.stack_name,
            definition_body=sfn.DefinitionBody.from_string(stack.to_json_string(states)),
            role=self.role,
            tracing_enabled=True,
            logs=sfn.LogOptions(
                destination=LogGroup(self, "Logs", retention_days=settings.log_retention_days),
                # Failures only, and without payloads: the history has the rest for 90 days, and a job's parameters are nobody's log line.
                level=sfn.LogLevel.ERROR,
                include_execution_data=False,
            ),
        )
        acknowledge(
            self.machine,
            "SF1",
            "Failures are logged; ALL would bill every beat of every job for what the history holds anyway.",
        )
        acknowledge(self.role, "IAM5[Resource::*]", "Log delivery and tracing: their actions know no resource.")
        # After the machine, but part of it: the default policy of the role that the machine waits for.
        self._grant_running_tasks(stack, settings, runtime)
        if emr is not None:
            self._grant_running_job_runs(stack, emr)
        self._grant_invoking(heartbeat, settle)

    def _grant_running_tasks(self, stack: Stack, settings: Settings, runtime: SparkRuntime) -> None:
        allow(
            self.role,
            "RunTheJob",
            ["ecs:RunTask"],
            [
                stack.format_arn(
                    service="ecs", resource="task-definition", resource_name=f"{family(settings.stack_name, size)}:*"
                )
                for size in settings.sizes.by_name()
            ],
            conditions={"ArnEquals": {"ecs:cluster": runtime.cluster.attr_arn}},
            wildcards="Any revision of our families: executions name the family, and outlive revisions.",
        )
        allow(
            self.role,
            "FollowTheTask",
            ["ecs:StopTask", "ecs:DescribeTasks"],
            [tasks_of(runtime)],
            wildcards="A task's id is known only once it runs; the cluster is ours alone.",
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
            [runtime.task_role.role_arn, runtime.execution_role.role_arn],
            conditions={"StringEquals": {"iam:PassedToService": "ecs-tasks.amazonaws.com"}},
        )

    def _grant_running_job_runs(self, stack: Stack, emr: EmrServerless) -> None:
        # https://docs.aws.amazon.com/step-functions/latest/dg/emr-serverless-iam.html
        allow(self.role, "RunTheJobOnEmr", ["emr-serverless:StartJobRun"], [emr.application.attr_arn])
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
        allow(self.role, "BeatAndSettle", ["lambda:InvokeFunction"], [function.function_arn for function in functions])


def machine_arn(stack: Stack, settings: Settings) -> str:
    """The machine's ARN, also for parts on which the machine depends."""
    return stack.format_arn(
        service="states",
        resource="stateMachine",
        resource_name=settings.stack_name,
        arn_format=ArnFormat.COLON_RESOURCE_NAME,
    )


def tasks_of(runtime: SparkRuntime) -> str:
    """The ARN pattern of every task in the cluster."""
    return Stack.of(runtime).format_arn(service="ecs", resource="task", resource_name=f"{runtime.cluster.ref}/*")
