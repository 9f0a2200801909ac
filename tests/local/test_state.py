"""What clients store is there again at the next start."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from botocore.exceptions import ClientError
from moto.s3.models import s3_backends

from longhaul.core.errors import SecretUnreadableError
from longhaul.core.secret_refs import SecretRef
from longhaul.local.cloud import EmbeddedAws
from longhaul.local.credentials import aws_client
from longhaul.local.state import objects
from longhaul.local.state.store import FOLDER, StateError, Store
from longhaul.operations import secrets
from longhaul.runner.variables import AwsSecretValues
from tests.local.support import ACCOUNT, REGION, error_code, eventually, function

if TYPE_CHECKING:
    from longhaul.cli.target import Target

MIB = 1 << 20
WAIT = {"StartAt": "W", "States": {"W": {"Type": "Wait", "Seconds": 600, "End": True}}}
END = {"StartAt": "E", "States": {"E": {"Type": "Pass", "Result": {"n": 7}, "End": True}}}


def machine(definition: dict[str, Any]) -> dict[str, Any]:
    return {
        "Type": "AWS::StepFunctions::StateMachine",
        "Properties": {
            "RoleArn": {"Fn::GetAtt": ["Role", "Arn"]},
            "DefinitionString": json.dumps(definition),
        },
    }


TEMPLATE = {
    "Data": {"Type": "AWS::S3::Bucket"},
    "Versions": {"Type": "AWS::S3::Bucket"},
    "Queue": {"Type": "AWS::SQS::Queue", "Properties": {"QueueName": "jobs"}},
    "Dead": {"Type": "AWS::SQS::Queue", "Properties": {"QueueName": "dead"}},
    "Rows": {
        "Type": "AWS::DynamoDB::Table",
        "Properties": {
            "BillingMode": "PAY_PER_REQUEST",
            "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
            "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
        },
    },
    "Lake": {
        "Type": "AWS::Glue::Database",
        "Properties": {"CatalogId": "123456789012", "DatabaseInput": {"Name": "lake"}},
    },
    "Waits": machine(WAIT),
    "Ends": machine(END),
    "Listens": {
        "Type": "AWS::Events::Rule",
        "Properties": {
            "EventPattern": {
                "source": ["aws.states"],
                "detail-type": ["Step Functions Execution Status Change"],
                "detail": {"status": ["ABORTED"]},
            },
            "Targets": [{"Id": "dead", "Arn": {"Fn::GetAtt": ["Dead", "Arn"]}}],
        },
    },
    "Echo": function("echo"),
}
OUTPUTS = {name: {"Ref": name} for name in ("Data", "Versions", "Rows", "Waits", "Ends", "Echo")}


class Place:
    """Starts the same stack again and again in one folder."""

    def __init__(self, folder: Path, assembly: Path) -> None:
        self._folder = folder
        self._assembly = assembly

    @contextmanager
    def started(self) -> Iterator[tuple[Callable[[str], Any], dict[str, str]]]:
        store = self.store = Store(self._folder / FOLDER, "Tiny").open()
        with EmbeddedAws(work_dir=self._folder, task_dir=self._folder, store=store) as aws:
            outputs = aws.deploy(self._assembly, "Tiny")
            yield lambda name: aws_client(name, endpoint=aws.endpoint, region=REGION), outputs


@pytest.fixture
def place(tmp_path: Path, assembly: Callable[..., Path]) -> Place:
    folder = tmp_path / "work"
    folder.mkdir()
    code = "def echo(event, context): return event"
    return Place(folder, assembly(TEMPLATE, code, OUTPUTS))


Client = Callable[[str], Any]


def store_objects(s3: Any, data: str) -> dict[str, Any]:
    s3.create_bucket(Bucket="theirs")
    s3.put_object(
        Bucket="theirs", Key="a/b", Body=b"text", Metadata={"k": "v"}, ContentType="text/csv"
    )
    s3.put_object_tagging(
        Bucket="theirs", Key="a/b", Tagging={"TagSet": [{"Key": "day", "Value": "1"}]}
    )
    s3.copy_object(Bucket=data, Key="copy", CopySource="theirs/a/b")
    s3.put_object(Bucket=data, Key="gone", Body=b"x")
    s3.delete_object(Bucket=data, Key="gone")
    return {"etag": s3.head_object(Bucket="theirs", Key="a/b")["ETag"]}


def check_objects(s3: Any, data: str, before: dict[str, Any]) -> None:
    there = s3.get_object(Bucket="theirs", Key="a/b")
    assert (there["Body"].read(), there["ETag"]) == (b"text", before["etag"])
    assert (there["Metadata"], there["ContentType"]) == ({"k": "v"}, "text/csv")
    assert s3.get_object(Bucket="theirs", Key="a/b", Range="bytes=1-2")["Body"].read() == b"ex"
    tags = s3.get_object_tagging(Bucket="theirs", Key="a/b")["TagSet"]
    assert tags == [{"Key": "day", "Value": "1"}]
    assert [each["Key"] for each in s3.list_objects_v2(Bucket=data)["Contents"]] == ["copy"]


def store_versions(s3: Any, bucket: str) -> dict[str, Any]:
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    first = s3.put_object(Bucket=bucket, Key="v", Body=b"1")["VersionId"]
    s3.put_object(Bucket=bucket, Key="v", Body=b"2")
    s3.delete_object(Bucket=bucket, Key="v")
    return {"first": first}


def check_versions(s3: Any, bucket: str, before: dict[str, Any]) -> None:
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    with pytest.raises(ClientError) as error:
        s3.get_object(Bucket=bucket, Key="v")
    assert error_code(error.value) == "NoSuchKey"
    old = s3.get_object(Bucket=bucket, Key="v", VersionId=before["first"])
    assert old["Body"].read() == b"1"
    listed = s3.list_object_versions(Bucket=bucket)
    assert (len(listed["Versions"]), len(listed["DeleteMarkers"])) == (2, 1)


def begin_upload(s3: Any, data: str) -> dict[str, Any]:
    upload = s3.create_multipart_upload(Bucket=data, Key="large", ContentType="text/x")
    part = {"Bucket": data, "Key": "large", "UploadId": upload["UploadId"]}
    first = s3.upload_part(**part, PartNumber=1, Body=b"a" * 5 * MIB)["ETag"]
    return {"part": part, "etags": [first]}


def complete_upload(s3: Any, data: str, before: dict[str, Any]) -> None:
    part = before["part"]
    etags = [*before["etags"], s3.upload_part(**part, PartNumber=2, Body=b"b")["ETag"]]
    ends = [{"PartNumber": n, "ETag": each} for n, each in enumerate(etags, 1)]
    s3.complete_multipart_upload(**part, MultipartUpload={"Parts": ends})
    check_completed(s3, data)


def check_completed(s3: Any, data: str) -> None:
    whole = s3.get_object(Bucket=data, Key="large")
    assert (len(whole["Body"].read()), whole["ContentType"]) == (5 * MIB + 1, "text/x")
    assert not s3.list_multipart_uploads(Bucket=data).get("Uploads")


def store_items(dynamodb: Any, table: str) -> None:
    dynamodb.put_item(TableName=table, Item={"pk": {"S": "1"}, "n": {"N": "3"}})
    dynamodb.update_item(
        TableName=table,
        Key={"pk": {"S": "1"}},
        UpdateExpression="SET n = n + :o, b = :b",
        ExpressionAttributeValues={":o": {"N": "1"}, ":b": {"B": b"\x00\xff"}},
    )
    put = {"TableName": table, "Item": {"pk": {"S": "2"}, "set": {"SS": ["a", "b"]}}}
    dynamodb.transact_write_items(TransactItems=[{"Put": put}])
    dynamodb.batch_write_item(RequestItems={table: [{"PutRequest": {"Item": {"pk": {"S": "3"}}}}]})
    dynamodb.delete_item(TableName=table, Key={"pk": {"S": "3"}})


def check_items(dynamodb: Any, table: str) -> None:
    items = dynamodb.scan(TableName=table)["Items"]
    assert sorted(items, key=lambda item: str(item["pk"])) == [
        {"pk": {"S": "1"}, "n": {"N": "4"}, "b": {"B": b"\x00\xff"}},
        {"pk": {"S": "2"}, "set": {"SS": ["a", "b"]}},
    ]


def store_messages(sqs: Any) -> dict[str, Any]:
    url = sqs.get_queue_url(QueueName="jobs")["QueueUrl"]
    for body in ("deleted", "in flight", "waits"):
        attribute = {"a": {"DataType": "String", "StringValue": body}}
        sqs.send_message(QueueUrl=url, MessageBody=body, MessageAttributes=attribute)
    handles = {}
    for _ in range(2):
        (got,) = sqs.receive_message(QueueUrl=url, VisibilityTimeout=600)["Messages"]
        handles[got["Body"]] = got["ReceiptHandle"]
    sqs.delete_message(QueueUrl=url, ReceiptHandle=handles["deleted"])
    return {"url": url, "handle": handles["in flight"]}


def check_messages(sqs: Any, before: dict[str, Any]) -> None:
    url = before["url"]
    counts = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert counts["ApproximateNumberOfMessages"] == "1"
    assert counts["ApproximateNumberOfMessagesNotVisible"] == "1"
    sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=before["handle"], VisibilityTimeout=0)
    asked = {
        "QueueUrl": url,
        "MessageAttributeNames": ["All"],
        "MessageSystemAttributeNames": ["ApproximateReceiveCount"],
    }
    got = [sqs.receive_message(**asked)["Messages"][0] for _ in range(2)]
    assert [
        (
            each["Body"],
            each["Attributes"]["ApproximateReceiveCount"],
            each["MessageAttributes"]["a"]["StringValue"],
        )
        for each in got
    ] == [("in flight", "2", "in flight"), ("waits", "1", "waits")]


def store_tables(glue: Any) -> None:
    for n, call in enumerate((glue.create_table, glue.update_table), 1):
        table = {"Name": "t", "Parameters": {"metadata_location": str(n)}}
        call(DatabaseName="lake", TableInput=table)
    glue.create_table(DatabaseName="lake", TableInput={"Name": "gone"})
    glue.delete_table(DatabaseName="lake", Name="gone")
    glue.create_database(DatabaseInput={"Name": "own"})


def check_tables(glue: Any) -> None:
    (table,) = glue.get_tables(DatabaseName="lake")["TableList"]
    assert (table["Parameters"], table["VersionId"]) == ({"metadata_location": "2"}, "2")
    glue.get_database(Name="own")


SECRET = "arn:aws:secretsmanager:us-east-1:123456789012:secret:shop/db-AbCd12"
GONE = "arn:aws:secretsmanager:us-east-1:123456789012:secret:shop/gone-AbCd12"
PARAMETER = "arn:aws:ssm:us-east-1:123456789012:parameter/shop/token"


def store_secrets(client: Client) -> None:
    """As `longhaul secret set` does."""
    target = cast("Target", SimpleNamespace(client=client))
    for text, value in (
        (f"{SECRET}:password::", "first"),
        (f"{SECRET}:user::", "a"),
        (PARAMETER, "token"),
        (GONE, "x"),
        (f"{SECRET}:password::", "rotated"),
        (PARAMETER, "rotated too"),
    ):
        secrets.put(target, SecretRef.parse(text), value)
    client("secretsmanager").delete_secret(SecretId=GONE, ForceDeleteWithoutRecovery=True)


def check_secrets(client: Client) -> None:
    """As a task reads them, by their ARNs."""
    read = AwsSecretValues(client).read_secret
    secret = json.loads(read(SecretRef.parse(SECRET)))
    assert secret == {"password": "rotated", "user": "a"}
    assert read(SecretRef.parse(PARAMETER)) == "rotated too"
    with pytest.raises(SecretUnreadableError):
        read(SecretRef.parse(GONE))


def test_what_a_stack_stores_is_there_at_the_next_start(place: Place) -> None:
    with place.started() as (client, names):
        objects = store_objects(client("s3"), names["Data"])
        versions = store_versions(client("s3"), names["Versions"])
        upload = begin_upload(client("s3"), names["Data"])
        store_items(client("dynamodb"), names["Rows"])
        messages = store_messages(client("sqs"))
        store_tables(client("glue"))
        store_secrets(client)

    with place.started() as (client, again):
        assert again == names
        check_objects(client("s3"), names["Data"], objects)
        check_versions(client("s3"), names["Versions"], versions)
        complete_upload(client("s3"), names["Data"], upload)
        check_items(client("dynamodb"), names["Rows"])
        check_messages(client("sqs"), messages)
        check_tables(client("glue"))
        check_secrets(client)

    with place.started() as (client, _):
        check_completed(client("s3"), names["Data"])


def test_an_execution_that_ran_is_aborted_by_the_next_start_and_an_event_says_so(
    place: Place,
) -> None:
    with place.started() as (client, names):
        sfn = client("stepfunctions")
        sfn.start_execution(stateMachineArn=names["Waits"], name="ran", input='{"a": 1}')
        sfn.start_execution(stateMachineArn=names["Ends"], name="done")
        done = names["Ends"].replace(":stateMachine:", ":execution:") + ":done"
        eventually(
            lambda: sfn.describe_execution(executionArn=done)["status"] == "SUCCEEDED", "it ends"
        )
    with place.started() as (client, names):
        sfn, sqs = client("stepfunctions"), client("sqs")
        assert json.loads(sfn.describe_execution(executionArn=done)["output"]) == {"n": 7}
        arn = names["Waits"].replace(":stateMachine:", ":execution:") + ":ran"
        ran = sfn.describe_execution(executionArn=arn)
        assert (ran["status"], ran["cause"]) == ("ABORTED", "the embedded AWS was stopped")
        assert json.loads(ran["input"]) == {"a": 1}
        assert sfn.get_execution_history(executionArn=arn)["events"] == []
        with pytest.raises(ClientError) as error:
            sfn.start_execution(stateMachineArn=names["Waits"], name="ran", input='{"a": 2}')
        assert error_code(error.value) == "ExecutionAlreadyExists"
        url = sqs.get_queue_url(QueueName="dead")["QueueUrl"]
        (event,) = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=5)["Messages"]
        assert json.loads(event["Body"])["detail"]["name"] == "ran"
        sqs.delete_message(QueueUrl=url, ReceiptHandle=event["ReceiptHandle"])
    with place.started() as (client, _):
        assert client("stepfunctions").describe_execution(executionArn=arn)["status"] == "ABORTED"
        assert "Messages" not in client("sqs").receive_message(QueueUrl=url)


WRITER = """
import sys
from pathlib import Path
from longhaul.local.state.store import Store
store = Store(Path(sys.argv[1]), "Tiny").open()
store.recording = True
for n in range(1_000_000):
    store.put("item", {f"{n}-{part}": n for part in range(3)})
    print(n + 1, flush=True)
"""


def test_a_killed_process_loses_nothing_that_it_has_answered(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout
    answered = [process.stdout.readline() for _ in range(20)]
    process.send_signal(signal.SIGKILL)
    process.stdout.close()
    process.wait()

    store = Store(folder, "Tiny").open()
    things = list(store.things("item"))
    assert len(things) % 3 == 0
    assert len(things) >= 3 * int(answered[-1])
    store.close()


def files_of(place: Place) -> dict[bytes, Path]:
    return {path.read_bytes(): path for path in place.store.objects.iterdir()}


def test_an_object_has_one_file_until_it_is_replaced_or_deleted(place: Place) -> None:
    with place.started() as (client, names):
        s3 = client("s3")
        for body in (b"old", b"new"):
            s3.put_object(Bucket=names["Data"], Key="k", Body=body)
            assert set(files_of(place)) == {body}
        s3.delete_objects(Bucket=names["Data"], Delete={"Objects": [{"Key": "k"}]})
        assert files_of(place) == {}
    with place.started() as (client, names):
        assert client("s3").list_objects_v2(Bucket=names["Data"])["KeyCount"] == 0


def test_an_object_is_moved_to_its_file_once_its_own_request_has_read_it(place: Place) -> None:
    with place.started() as (_, names):
        backend = s3_backends[ACCOUNT]["aws"]
        made = backend.put_object(names["Data"], "k", b"text")
        # Another request for the same key, such as one of a part beside this one.
        objects._keep(place.store, backend, names["Data"], "k")
        assert files_of(place) == {}
        assert made.etag
        objects._keep(place.store, backend, names["Data"], "k")
        assert set(files_of(place)) == {b"text"}


def test_after_a_crash_an_object_that_is_short_is_left_out_and_said(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    with place.started() as (client, names):
        for key in ("short", "gone", "whole"):
            client("s3").put_object(Bucket=names["Data"], Key=key, Body=key.encode())
    files = files_of(place)
    files[b"short"].write_bytes(b"sho")
    files[b"gone"].unlink()
    (place.store.objects / "of-none").write_bytes(b"x")
    with place.started() as (client, names):
        listed = client("s3").list_objects_v2(Bucket=names["Data"])["Contents"]
        assert [each["Key"] for each in listed] == ["whole"]
    assert set(files_of(place)) == {b"sho", b"whole"}, "a file without an object is removed"
    for key in ("short", "gone"):
        assert f"s3://{names['Data']}/{key} was not whole" in caplog.text


def test_state_of_another_version_or_stack_is_refused_and_kept(tmp_path: Path) -> None:
    Store(tmp_path / FOLDER, "Mine").open().close()
    with pytest.raises(StateError, match=r"stack Mine; this is .* stack Yours"):
        Store(tmp_path / FOLDER, "Yours").open()
    Store(tmp_path / FOLDER, "Mine").open().close()


def test_state_that_is_damaged_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / FOLDER
    Store(folder, "Mine").open().close()
    (folder / "state.db").write_bytes(os.urandom(8192))
    with pytest.raises(StateError, match="cannot be read"):
        Store(folder, "Mine").open()


# No file may grow, as on a disk that is full. A process of its own: the limit holds for all of it.
ON_A_FULL_DISK = """
import resource, sys
from pathlib import Path
from longhaul.local.state.store import Store
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
try:
    Store(Path(sys.argv[1]), "Mine").open()
except OSError as error:
    print(error)
"""


def test_state_on_a_full_disk_is_not_called_damaged(tmp_path: Path) -> None:
    store = Store(tmp_path, "Mine").open()
    store.close()
    opened = subprocess.run(
        [sys.executable, "-c", ON_A_FULL_DISK, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "cannot be written (disk I/O error): is its disk full?" in opened.stdout
    assert str(tmp_path) in opened.stdout


def test_full_disk_is_said_to_the_client_and_in_the_terminal(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    with place.started() as (client, _):
        sqs = client("sqs")
        queue = sqs.get_queue_url(QueueName="jobs")["QueueUrl"]
        database = place.store._database
        (pages,) = database.execute("PRAGMA page_count").fetchone()
        database.execute(f"PRAGMA max_page_count = {pages + 30}")
        with pytest.raises(ClientError, match=r"database or disk is full") as refused:
            sqs.send_message(QueueUrl=queue, MessageBody="x" * 200_000)
        assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 500
        assert "<html" not in str(refused.value)
    said = [each.getMessage() for each in caplog.records if "cannot keep" in each.getMessage()]
    assert len(said) == 1, "a line, however often clients try"
    assert "make room" in said[0]
