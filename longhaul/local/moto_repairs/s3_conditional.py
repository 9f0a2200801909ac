"""Of two conditional writes of one key, one wins.

AWS: checks the condition of a PUT (If-Match, If-None-Match) and writes in one step.

Stock moto: handles requests in threads, so two writers can both see no key and both write it.
"""
# ruff: noqa: ANN401 - moto's insides, which have no types worth naming

from threading import RLock
from typing import Any

from moto.s3.responses import S3Response

from longhaul.local.moto_repairs.patching import Patches


def apply(patches: Patches) -> None:
    lock = RLock()
    stock_put = S3Response.put_object

    def put_object(response: Any) -> Any:
        if not (response.headers.get("If-Match") or response.headers.get("If-None-Match")):
            return stock_put(response)
        with lock:
            return stock_put(response)

    patches.replace(S3Response, "put_object", put_object)
