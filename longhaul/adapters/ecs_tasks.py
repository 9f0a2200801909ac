"""ECS tasks of our one cluster."""

from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

if TYPE_CHECKING:
    from mypy_boto3_ecs import ECSClient

_MAX_REASON = 255


class EcsTasks:
    """`ports.Tasks`."""

    def __init__(self, client: "ECSClient", cluster_arn: str) -> None:
        self._client = client
        self._cluster = cluster_arn

    def stop(self, task_arn: str, reason: str) -> None:
        """SIGTERM now, SIGKILL after the task's stop timeout; stopping a task that has ended is no error."""
        try:
            self._client.stop_task(cluster=self._cluster, task=task_arn, reason=reason[:_MAX_REASON])
        except ClientError as error:
            # ECS forgets a stopped task after about an hour, and then says that it cannot find it.
            if (
                error.response["Error"]["Code"] != "InvalidParameterException"
                or "not found" not in error.response["Error"]["Message"]
            ):
                raise
