"""`announcer.Notices` on SQS, SNS and EventBridge; FIFO targets on moto alone."""

import json
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from botocore.stub import Stubber

from longhaul.core.errors import NoticeRefusedError, NotNotifiedError
from longhaul.core.lease import State
from longhaul.notices.notice import Notice, ended
from longhaul.notices.targets import AwsNotices, queue_url_of
from tests.builders import running
from tests.contract.conftest import Aws
from tests.contract.moto_account import REGION, client, moto_account

NOTICE = Notice("n-1", "subject", '{"outcome": "SUCCEEDED"}')


@pytest.fixture
def notices(aws: Aws) -> AwsNotices:
    return AwsNotices(lambda service, region: aws.client(service, region_name=region))


def queue_of(sqs: Any, name: str, **attributes: str) -> tuple[str, str]:
    """URL and ARN."""
    url = sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
    found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]
    return url, found["QueueArn"]


def bodies(sqs: Any, url: str) -> list[str]:
    got = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", [])
    return [each["Body"] for each in got]


def test_a_queue_gets_the_notice(aws: Aws, notices: AwsNotices) -> None:
    sqs = aws.client("sqs", region_name=REGION)
    url, arn = queue_of(sqs, "ended")
    notices.send(arn, NOTICE)
    assert bodies(sqs, url) == [NOTICE.body]


@pytest.mark.parametrize(
    "target",
    [f"arn:aws:{service}:{REGION}:123456789012:nobody" for service in ("sqs", "sns")],
)
def test_a_queue_or_topic_that_is_not_there_refuses(notices: AwsNotices, target: str) -> None:
    with pytest.raises(NoticeRefusedError):
        notices.send(target, NOTICE)


@pytest.fixture
def moto() -> Any:
    with moto_account() as client:
        yield AwsNotices(lambda service, region: client(service, region_name=region))


@pytest.mark.parametrize(
    ("name", "of_queue", "of_topic"),
    [("ended", {}, {}), ("ended.fifo", {"FifoQueue": "true"}, {"FifoTopic": "true"})],
)
def test_a_topics_subscriber_gets_the_notice(
    moto: AwsNotices, name: str, of_queue: dict[str, str], of_topic: dict[str, str]
) -> None:
    sqs, sns = client("sqs"), client("sns")
    url, arn = queue_of(sqs, name, **of_queue)
    topic = sns.create_topic(Name=name, Attributes=of_topic)["TopicArn"]
    raw = {"RawMessageDelivery": "true"}
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn, Attributes=raw)
    moto.send(topic, NOTICE)
    assert bodies(sqs, url) == [NOTICE.body]


def test_a_fifo_queue_takes_the_notice_of_each_run_of_a_job_once(moto: AwsNotices) -> None:
    sqs = client("sqs")
    url, arn = queue_of(sqs, "ended.fifo", FifoQueue="true")
    first, second = (ended(running(run=run, state=State.DEAD)) for run in (1, 2))
    assert first.subject == second.subject
    for notice in (first, first, second):
        moto.send(arn, notice)
    assert bodies(sqs, url) == [first.body, second.body]


def test_a_rule_of_a_bus_gets_the_notice(moto: AwsNotices) -> None:
    sqs, events = client("sqs"), client("events")
    url, arn = queue_of(sqs, "ended")
    bus = events.create_event_bus(Name="ours")["EventBusArn"]
    pattern = {"source": ["longhaul"], "detail": {"outcome": ["SUCCEEDED"]}}
    events.put_rule(Name="ended", EventBusName="ours", EventPattern=json.dumps(pattern))
    events.put_targets(Rule="ended", EventBusName="ours", Targets=[{"Id": "1", "Arn": arn}])
    moto.send(bus, NOTICE)
    (body,) = bodies(sqs, url)
    assert json.loads(body)["detail-type"] == "Longhaul Job Ended"
    assert json.loads(body)["detail"] == {"outcome": "SUCCEEDED"}


@pytest.mark.parametrize(
    ("arn", "url"),
    [
        ("arn:aws:sqs:eu-west-1:210987654321:ended",
         "https://sqs.eu-west-1.amazonaws.com/210987654321/ended"),
        ("arn:aws-cn:sqs:cn-north-1:210987654321:ended.fifo",
         "https://sqs.cn-north-1.amazonaws.com.cn/210987654321/ended.fifo"),
    ],
)  # fmt: skip
def test_the_url_of_a_queue_of_another_account_and_region(arn: str, url: str) -> None:
    assert queue_url_of(arn) == url


CALLS = {"sqs": "send_message", "sns": "publish", "events": "put_events"}


def said(service: Any, code: str) -> AwsNotices:
    """Notices to a service that says this to each."""
    client = boto3.client(service, REGION)
    stub = Stubber(client)
    stub.add_client_error(CALLS[service], code, "the text")
    stub.activate()
    return AwsNotices(lambda *_: client)


def target_of(service: str) -> str:
    return f"arn:aws:{service}:{REGION}:123456789012:ended"


# The codes of the services' references; of SQS those of both protocols, which SDKs mix.
REFUSALS = {
    "sqs": (
        "AccessDenied",
        "AccessDeniedException",
        "AWS.SimpleQueueService.NonExistentQueue",
        "QueueDoesNotExist",
        "InvalidMessageContents",
        "KmsAccessDenied",
        "KMS.KmsDisabled",
        "KmsNotFound",
    ),
    "sns": (
        "AuthorizationError",
        "InvalidParameter",
        "KMSAccessDenied",
        "KMSAccessDeniedException",
        "KMSDisabled",
        "KMSDisabledException",
        "KMSNotFound",
        "KMSNotFoundException",
        "NotFound",
    ),
    "events": ("AccessDeniedException", "ResourceNotFoundException", "ValidationException"),
}


@pytest.mark.parametrize(
    ("service", "code"), [(name, code) for name, codes in REFUSALS.items() for code in codes]
)
def test_what_stays_until_people_change_something_refuses(service: str, code: str) -> None:
    with pytest.raises(NoticeRefusedError, match=f"{code}.*the text"):
        said(service, code).send(target_of(service), NOTICE)


@pytest.mark.parametrize(
    ("service", "code"),
    [
        ("sqs", "RequestThrottled"),
        ("sqs", "KmsThrottled"),
        ("sns", "InternalError"),
        ("sns", "KMSThrottling"),
        ("events", "InternalException"),
    ],
)
def test_what_passes_is_raised_so_that_the_notice_is_sent_again(service: str, code: str) -> None:
    with pytest.raises(ClientError, match=code):
        said(service, code).send(target_of(service), NOTICE)


def entry(code: str) -> AwsNotices:
    """Notices to a bus that takes the call and not the event."""
    client = boto3.client("events", REGION)
    failed = {"FailedEntryCount": 1, "Entries": [{"ErrorCode": code, "ErrorMessage": "the text"}]}
    event = {"EventBusName": target_of("events"), "Source": "longhaul", "Detail": NOTICE.body}
    stub = Stubber(client)
    sent = {"Entries": [event | {"DetailType": "Longhaul Job Ended"}]}
    stub.add_response("put_events", failed, sent)
    stub.activate()
    return AwsNotices(lambda *_: client)


@pytest.mark.parametrize(
    "code",
    ["MalformedDetail", "NotAuthorizedForDetailTypeException", "NotAuthorizedForSourceException"],
)
def test_a_bus_that_will_never_take_the_event_refuses(code: str) -> None:
    with pytest.raises(NoticeRefusedError, match=f"^{code}: the text$"):
        entry(code).send(target_of("events"), NOTICE)


def test_a_bus_that_does_not_take_the_event_for_now_gets_it_again() -> None:
    with pytest.raises(NotNotifiedError, match=r"^ThrottlingException: the text$"):
        entry("ThrottlingException").send(target_of("events"), NOTICE)
