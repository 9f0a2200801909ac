"""An upload that was aborted cannot be completed.

AWS: CompleteMultipartUpload of an id that was aborted, or never was, answers NoSuchUpload.

Stock moto: fails with a KeyError, which its server answers as a fault of its own (500), and clients try that again.
"""
# ruff: noqa: ANN401 - moto's insides, which have no types worth naming

from typing import Any

from moto.s3.exceptions import NoSuchUpload
from moto.s3.models import S3Backend

from local.moto_repairs.patching import Patches


def apply(patches: Patches) -> None:
    stock_complete = S3Backend.complete_multipart_upload

    def complete_multipart_upload(backend: Any, bucket_name: str, multipart_id: str, body: Any) -> Any:
        if multipart_id not in backend.get_bucket(bucket_name).multiparts:
            raise NoSuchUpload(upload_id=multipart_id)
        return stock_complete(backend, bucket_name, multipart_id, body)

    patches.replace(S3Backend, "complete_multipart_upload", complete_multipart_upload)
