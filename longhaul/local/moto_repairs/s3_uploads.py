"""An aborted upload takes no parts and cannot be completed.

AWS: UploadPart and CompleteMultipartUpload of an aborted or unknown id are a NoSuchUpload.

Stock moto: both fail with an error of its own, which clients see as a 500 and retry.
"""
# ruff: noqa: ANN401 - moto's insides, which have no types worth naming

from typing import Any

from moto.s3.exceptions import NoSuchUpload
from moto.s3.models import S3Backend

from longhaul.local.moto_repairs.patching import Patches


def apply(patches: Patches) -> None:
    stock_complete = S3Backend.complete_multipart_upload
    stock_part = S3Backend.upload_part

    def require(backend: Any, bucket_name: str, multipart_id: str) -> None:
        if multipart_id not in backend.get_bucket(bucket_name).multiparts:
            raise NoSuchUpload(upload_id=multipart_id)

    def upload_part(
        backend: Any, bucket_name: str, multipart_id: str, part_id: int, value: bytes
    ) -> Any:
        require(backend, bucket_name, multipart_id)
        return stock_part(backend, bucket_name, multipart_id, part_id, value)

    def complete_multipart_upload(
        backend: Any, bucket_name: str, multipart_id: str, body: Any
    ) -> Any:
        require(backend, bucket_name, multipart_id)
        return stock_complete(backend, bucket_name, multipart_id, body)

    patches.replace(S3Backend, "upload_part", upload_part)
    patches.replace(S3Backend, "complete_multipart_upload", complete_multipart_upload)
