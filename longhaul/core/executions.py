"""Step Functions executions of our one state machine."""

from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from longhaul.core.aws_errors import code_of

if TYPE_CHECKING:
    from mypy_boto3_stepfunctions import SFNClient


class SfnExecutions:
    """`ports.Executions`."""

    def __init__(self, client: "SFNClient", state_machine_arn: str) -> None:
        self._client = client
        self._machine = state_machine_arn

    def arn(self, name: str) -> str:
        return f"{self._machine.replace(':stateMachine:', ':execution:')}:{name}"

    def ensure_started(self, name: str, execution_input: str) -> str | None:
        """None when the execution runs; the status in which it closed otherwise.

        StartExecution is idempotent for the same name and the same input while the execution runs;
        afterwards, or for another input, it fails with ExecutionAlreadyExists.
        """
        try:
            self._client.start_execution(
                stateMachineArn=self._machine, name=name, input=execution_input
            )
        except ClientError as error:
            if code_of(error) != "ExecutionAlreadyExists":
                raise
            status = self.status(name)
            return None if status == "RUNNING" else status
        return None

    def status(self, name: str) -> str | None:
        try:
            return self._client.describe_execution(executionArn=self.arn(name))["status"]
        except ClientError as error:
            if code_of(error) != "ExecutionDoesNotExist":
                raise
            return None
