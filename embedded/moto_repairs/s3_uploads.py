"""An aborted upload cannot be completed.

AWS: CompleteMultipartUpload of an aborted or unknown id is a NoSuchUpload.

Stock moto: CompleteMultipartUpload fails with a KeyError, which clients see as a 500 and retry.
"""
# ruff: noqa: ANN401 - moto's insides, which have no types worth naming

from typing import Any

from moto.s3.exceptions import NoSuchUpload
from moto.s3.models import S3Backend

from embedded.moto_repairs.patching import Patches


def apply(patches: Patches) -> None:
    stock_complete = S3Backend.complete_multipart_upload

    def complete_multipart_upload(
        backend: Any, bucket_name: str, multipart_id: str, body: Any
    ) -> Any:
        if multipart_id not in backend.get_bucket(bucket_name).multiparts:
            raise NoSuchUpload(upload_id=multipart_id)
        return stock_complete(backend, bucket_name, multipart_id, body)

    patches.replace(S3Backend, "complete_multipart_upload", complete_multipart_upload)
