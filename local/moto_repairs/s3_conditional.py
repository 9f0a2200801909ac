"""Of two conditional writes of one key, one wins.

AWS: the condition of a PUT (If-Match, If-None-Match) and its write are one step.

Stock moto: its server answers in threads; two writers can both see the key absent and both write it.
"""
# ruff: noqa: ANN401 - moto's insides, which have no types worth naming

from threading import RLock
from typing import Any

from moto.s3.responses import S3Response

from local.moto_repairs.patching import Patches


def apply(patches: Patches) -> None:
    lock = RLock()
    stock_put = S3Response.put_object

    def put_object(response: Any) -> Any:
        if not (response.headers.get("If-Match") or response.headers.get("If-None-Match")):
            return stock_put(response)
        with lock:
            return stock_put(response)

    patches.replace(S3Response, "put_object", put_object)
