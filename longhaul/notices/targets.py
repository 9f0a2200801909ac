"""Notices to an EventBridge bus, an SNS topic or an SQS queue, by its ARN.

The client is of the region that the ARN names. Another account's target needs a policy of its own.
"""

from collections.abc import Callable
from typing import Any, Final

from botocore.exceptions import ClientError, ParamValidationError

from longhaul.core.aws_errors import code_of, is_refused
from longhaul.core.errors import NoticeRefusedError, NotNotifiedError
from longhaul.notices.notice import Notice

SOURCE: Final = "longhaul"

_REFUSED = (
    "AccessDenied",
    "AccessDeniedException",
    "AuthorizationError",
    "KmsAccessDenied",
    "KMSAccessDenied",
    "KMSAccessDeniedException",
    "KmsDisabled",
    "KMSDisabled",
    "KMSDisabledException",
    "KmsNotFound",
    "KMSNotFound",
    "KMSNotFoundException",
    "InvalidParameter",
    "NonExistentQueue",
    "QueueDoesNotExist",
    "NotFound",
    "ResourceNotFoundException",
    "MalformedDetail",
    "NotAuthorizedForDetailTypeException",
    "NotAuthorizedForSourceException",
)
"""Ends of the codes that stay until people change something: permissions, keys, the target."""


class AwsNotices:
    """`announcer.Notices`."""

    def __init__(self, client_of: Callable[[str, str], Any]) -> None:
        """`client_of` returns the client of a service in a region."""
        self._client_of = client_of

    def send(self, target: str, notice: Notice) -> None:
        _, _, service, region, _, _ = target.split(":", 5)
        client = self._client_of(service, region)
        # A FIFO target drops a repeated notice by itself, for five minutes.
        fifo: dict[str, Any] = {}
        if target.endswith(".fifo"):
            fifo = {"MessageGroupId": notice.subject, "MessageDeduplicationId": notice.id}
        try:
            if service == "sqs":
                client.send_message(QueueUrl=queue_url_of(target), MessageBody=notice.body, **fifo)
            elif service == "sns":
                client.publish(TopicArn=target, Message=notice.body, **fifo)
            else:
                _put(client, target, notice)
        except ParamValidationError as error:
            raise NoticeRefusedError(str(error)) from error
        except ClientError as error:
            if is_refused(error) or code_of(error).endswith(_REFUSED):
                raise NoticeRefusedError(str(error)) from error
            raise


def _put(client: Any, bus: str, notice: Notice) -> None:  # noqa: ANN401 - any client
    event = {
        "EventBusName": bus,
        "Source": SOURCE,
        "DetailType": notice.detail_type,
        "Detail": notice.body,
    }
    answer = client.put_events(Entries=[event])
    if answer["FailedEntryCount"]:
        (entry,) = answer["Entries"]
        code = entry.get("ErrorCode", "")
        kind = NoticeRefusedError if code.endswith(_REFUSED) else NotNotifiedError
        raise kind(f"{code}: {entry.get('ErrorMessage', '')}")


def queue_url_of(arn: str) -> str:
    """The URL of the queue with this ARN."""
    _, partition, _, region, account, name = arn.split(":")
    domain = "amazonaws.com.cn" if partition == "aws-cn" else "amazonaws.com"
    return f"https://sqs.{region}.{domain}/{account}/{name}"
