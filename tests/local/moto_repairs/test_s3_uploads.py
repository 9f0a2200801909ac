import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from longhaul.local.credentials import aws_client
from longhaul.local.moto_repairs import s3_uploads
from tests.local.support import REGION, Moto, error_code


def test_aborted_upload_cannot_be_completed(moto: Moto, *, repaired: bool) -> None:
    if repaired:
        s3_uploads.apply(moto.patches)
    s3 = aws_client(
        "s3",
        endpoint=moto.endpoint,
        region=REGION,
        config=Config(retries={"total_max_attempts": 1}),
    )
    s3.create_bucket(Bucket="data")
    upload = s3.create_multipart_upload(Bucket="data", Key="file")["UploadId"]
    part = s3.upload_part(Bucket="data", Key="file", UploadId=upload, PartNumber=1, Body=b"x")[
        "ETag"
    ]
    s3.abort_multipart_upload(Bucket="data", Key="file", UploadId=upload)
    parts = {"Parts": [{"PartNumber": 1, "ETag": part}]}
    with pytest.raises(ClientError) as refused:
        s3.complete_multipart_upload(
            Bucket="data", Key="file", UploadId=upload, MultipartUpload=parts
        )
    assert error_code(refused.value) == ("NoSuchUpload" if repaired else "500")
