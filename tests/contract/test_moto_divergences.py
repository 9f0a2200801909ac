"""Where moto as shipped does as AWS, and where it does otherwise: what the fakes answer, and what moto answers.

A change on moto's side fails here, so that an upgrade shows what has been mended. What the embedded AWS repairs is tested beside its repairs
(`tests/local/moto_repairs`): receipt handles, the 12 hours, attributes and sizes, batches, atomicity, the state machine interpreter.
"""

from collections.abc import Callable
from typing import Any

import pytest

from tests.contract.conftest import Aws, create_leases_table
from tests.contract.refusals import code_of

KEY = {"key": {"S": "main#a"}, "item": {"S": "lease"}}
ROLE_ARN = "arn:aws:iam::123456789012:role/x"
DEFINITION = '{"StartAt": "End", "States": {"End": {"Type": "Succeed"}}}'

Probe = Callable[[Aws], Any]


def upload(aws: Aws, **more: Any) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """S3, an upload with one part, and what completes it."""
    s3 = aws.client("s3")
    s3.create_bucket(Bucket="data")
    begun = s3.create_multipart_upload(Bucket="data", Key="a", **more)
    named = {"Bucket": "data", "Key": "a", "UploadId": begun["UploadId"]}
    part = s3.upload_part(**named, PartNumber=1, Body=b"x", ChecksumAlgorithm="CRC32")
    parts = [{"PartNumber": 1, "ETag": part["ETag"], "ChecksumCRC32": part["ChecksumCRC32"]}]
    return s3, named, {"MultipartUpload": {"Parts": parts}}


def an_upload_completed_twice(aws: Aws) -> str:
    s3, named, completion = upload(aws)
    s3.complete_multipart_upload(**named, **completion)
    return code_of(lambda: s3.complete_multipart_upload(**named, **completion))


def an_upload_aborted_after_its_completion(aws: Aws) -> str:
    s3, named, completion = upload(aws)
    s3.complete_multipart_upload(**named, **completion)
    return code_of(lambda: s3.abort_multipart_upload(**named))


def an_upload_completed_without_its_checksums(aws: Aws) -> str:
    s3, named, completion = upload(aws, ChecksumAlgorithm="CRC32")
    del completion["MultipartUpload"]["Parts"][0]["ChecksumCRC32"]
    return code_of(lambda: s3.complete_multipart_upload(**named, **completion))


def an_upload_completed_with_wrong_checksums(aws: Aws) -> str:
    s3, named, completion = upload(aws, ChecksumAlgorithm="CRC32")
    completion["MultipartUpload"]["Parts"][0]["ChecksumCRC32"] = "AAAAAA=="
    return code_of(lambda: s3.complete_multipart_upload(**named, **completion))


def a_put_that_expects_a_key_that_is_not_there(aws: Aws) -> str:
    s3 = aws.client("s3")
    s3.create_bucket(Bucket="data")
    return code_of(lambda: s3.put_object(Bucket="data", Key="a", Body=b"", IfMatch='"etag"'))


def leases(aws: Aws) -> Any:
    dynamodb = aws.client("dynamodb")
    create_leases_table(dynamodb)
    dynamodb.put_item(TableName="leases", Item=KEY | {"n": {"N": "1"}})
    return dynamodb


def a_transaction_repeated_with_its_token(aws: Aws) -> str:
    dynamodb = leases(aws)
    change = {"UpdateExpression": "ADD n :one", "ExpressionAttributeValues": {":one": {"N": "1"}}}
    for _ in range(2):
        dynamodb.transact_write_items(
            TransactItems=[{"Update": {"TableName": "leases", "Key": KEY, **change}}], ClientRequestToken="token"
        )
    return str(dynamodb.get_item(TableName="leases", Key=KEY)["Item"]["n"]["N"])


def another_transaction_with_the_same_token(aws: Aws) -> str:
    dynamodb = leases(aws)

    def put(n: str) -> Any:
        item = {"Put": {"TableName": "leases", "Item": KEY | {"n": {"N": n}}}}
        return dynamodb.transact_write_items(TransactItems=[item], ClientRequestToken="token")

    put("1")
    return code_of(lambda: put("2"))


def an_index_key_that_is_empty(aws: Aws) -> str:
    dynamodb = leases(aws)
    return code_of(lambda: dynamodb.put_item(TableName="leases", Item=KEY | {"open": {"S": ""}}))


def a_number_as_it_is_written(aws: Aws) -> str:
    dynamodb = leases(aws)
    dynamodb.put_item(TableName="leases", Item=KEY | {"n": {"N": "007.50"}})
    return str(dynamodb.get_item(TableName="leases", Key=KEY)["Item"]["n"]["N"])


def a_number_of_39_digits(aws: Aws) -> str:
    dynamodb = leases(aws)
    return code_of(lambda: dynamodb.put_item(TableName="leases", Item=KEY | {"n": {"N": "1" * 39}}))


def a_condition_on_an_absent_attribute_being_different(aws: Aws) -> str:
    dynamodb = leases(aws)
    condition = {"ConditionExpression": "absent <> :one", "ExpressionAttributeValues": {":one": {"N": "1"}}}
    return code_of(lambda: dynamodb.put_item(TableName="leases", Item=KEY, **condition))


def placeholders_that_are_not_used(aws: Aws) -> str:
    dynamodb = leases(aws)
    condition = {"ConditionExpression": "attribute_exists(n)", "ExpressionAttributeNames": {"#unused": "x"}}
    return code_of(lambda: dynamodb.put_item(TableName="leases", Item=KEY, **condition))


def a_reserved_word_in_a_condition(aws: Aws) -> str:
    dynamodb = leases(aws)
    return code_of(
        lambda: dynamodb.put_item(TableName="leases", Item=KEY, ConditionExpression="attribute_not_exists(state)")
    )


def an_update_of_an_attribute_that_is_not_there(aws: Aws) -> str:
    dynamodb = leases(aws)
    return code_of(lambda: dynamodb.update_item(TableName="leases", Key=KEY, UpdateExpression="SET x = absent"))


def an_item_that_grows_over_400_kib(aws: Aws) -> str:
    dynamodb = leases(aws)
    values = {":x": {"S": "x" * 409_600}}
    return code_of(
        lambda: dynamodb.update_item(
            TableName="leases", Key=KEY, UpdateExpression="SET x = :x", ExpressionAttributeValues=values
        )
    )


def queue(aws: Aws, **attributes: str) -> tuple[Any, str]:
    sqs = aws.client("sqs")
    return sqs, str(sqs.create_queue(QueueName="jobs", Attributes=attributes)["QueueUrl"])


def a_redrive_of_a_dead_letter_queue(aws: Aws) -> str:
    sqs, url = queue(aws)
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    policy = f'{{"deadLetterTargetArn": "{arn}", "maxReceiveCount": 1}}'
    sqs.create_queue(QueueName="source", Attributes={"RedrivePolicy": policy})
    try:
        return code_of(lambda: sqs.start_message_move_task(SourceArn=arn))
    except NotImplementedError:
        return "not implemented"


def a_second_purge_within_a_minute(aws: Aws) -> str:
    sqs, url = queue(aws)
    sqs.purge_queue(QueueUrl=url)
    return code_of(lambda: sqs.purge_queue(QueueUrl=url))


def an_extension_of_a_deleted_message(aws: Aws) -> str:
    sqs, url = queue(aws)
    sqs.send_message(QueueUrl=url, MessageBody="job")
    (message,) = sqs.receive_message(QueueUrl=url)["Messages"]
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    return code_of(
        lambda: sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0)
    )


def an_attribute_with_an_empty_value(aws: Aws) -> str:
    sqs, url = queue(aws)
    attributes = {"a": {"DataType": "String", "StringValue": ""}}
    return code_of(lambda: sqs.send_message(QueueUrl=url, MessageBody="job", MessageAttributes=attributes))


def a_message_group_with_a_space(aws: Aws) -> str:
    sqs, url = queue(aws)
    return code_of(lambda: sqs.send_message(QueueUrl=url, MessageBody="job", MessageGroupId="a b"))


def machine(aws: Aws) -> tuple[Any, str]:
    sfn = aws.client("stepfunctions")
    made = sfn.create_state_machine(name="Longhaul", definition=DEFINITION, roleArn=ROLE_ARN)
    return sfn, str(made["stateMachineArn"])


def an_execution_name_with_a_sharp(aws: Aws) -> str:
    sfn, arn = machine(aws)
    return code_of(lambda: sfn.start_execution(stateMachineArn=arn, name="main#a", input="{}"))


def an_execution_name_of_81_characters(aws: Aws) -> str:
    sfn, arn = machine(aws)
    return code_of(lambda: sfn.start_execution(stateMachineArn=arn, name="a" * 81, input="{}"))


def an_execution_input_of_more_than_256_kib(aws: Aws) -> str:
    sfn, arn = machine(aws)
    return code_of(lambda: sfn.start_execution(stateMachineArn=arn, name="a", input=f'"{"x" * 262_143}"'))


def an_execution_started_again_after_its_stop(aws: Aws) -> str:
    sfn, arn = machine(aws)
    started = sfn.start_execution(stateMachineArn=arn, name="a", input="{}")
    sfn.stop_execution(executionArn=started["executionArn"])
    return code_of(lambda: sfn.start_execution(stateMachineArn=arn, name="a", input="{}"))


AGREED: list[tuple[Probe, str]] = [
    # what is asked, what both answer
    (an_upload_aborted_after_its_completion, "NoSuchUpload"),
    (a_put_that_expects_a_key_that_is_not_there, "NoSuchKey"),
    (an_index_key_that_is_empty, "ValidationException"),
    (a_condition_on_an_absent_attribute_being_different, "ok"),
    (placeholders_that_are_not_used, "ValidationException"),
    (a_reserved_word_in_a_condition, "ValidationException"),
    (an_update_of_an_attribute_that_is_not_there, "ValidationException"),
    (an_item_that_grows_over_400_kib, "ValidationException"),
    (a_second_purge_within_a_minute, "AWS.SimpleQueueService.PurgeQueueInProgress"),
    (an_execution_name_with_a_sharp, "InvalidName"),
    (an_execution_name_of_81_characters, "ValidationException"),
    (an_execution_started_again_after_its_stop, "ExecutionAlreadyExists"),
]
DIVERGENT: list[tuple[Probe, str, str]] = [
    # what is asked, what AWS answers, what moto answers
    (an_upload_completed_twice, "NoSuchUpload", "ok"),
    (an_upload_completed_without_its_checksums, "InvalidRequest", "ok"),
    (an_upload_completed_with_wrong_checksums, "InvalidPart", "ok"),
    (a_transaction_repeated_with_its_token, "2", "3"),
    (another_transaction_with_the_same_token, "IdempotentParameterMismatchException", "ok"),
    (a_number_as_it_is_written, "7.5", "007.50"),
    (a_number_of_39_digits, "ValidationException", "ok"),
    (a_redrive_of_a_dead_letter_queue, "ok", "not implemented"),
    (an_extension_of_a_deleted_message, "InvalidParameterValue", "ReceiptHandleIsInvalid"),
    (an_attribute_with_an_empty_value, "InvalidParameterValue", "ok"),
    (a_message_group_with_a_space, "InvalidParameterValue", "ok"),
    (an_execution_input_of_more_than_256_kib, "ValidationException", "ok"),
]


@pytest.mark.parametrize(("probe", "answer"), AGREED, ids=[row[0].__name__.replace("_", " ") for row in AGREED])
def test_the_strict_fakes_and_moto_agree(aws: Aws, probe: Probe, answer: str) -> None:
    assert probe(aws) == answer


@pytest.mark.parametrize(
    ("probe", "on_aws", "on_moto"), DIVERGENT, ids=[row[0].__name__.replace("_", " ") for row in DIVERGENT]
)
def test_moto_is_still_as_lenient_as_it_was(aws: Aws, probe: Probe, on_aws: str, on_moto: str) -> None:
    assert probe(aws) == (on_aws if aws.fake else on_moto)
