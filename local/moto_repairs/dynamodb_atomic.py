"""A conditional write is atomic, and so is a transaction.

AWS: the condition is evaluated and the write applied as one step; a transaction applies whole or not at all, and no one sees half of it.

Stock moto: its server answers in threads, and nothing keeps two writes from both passing their condition on the same old item; a transaction that fails puts
back a copy of the whole table, and with it undoes what others wrote meanwhile.

One lock around each request, its answer included (which is written from the live item), is enough: requests take a few milliseconds of CPU in any case.
"""
# ruff: noqa: ANN401 - moto's insides, which have no types worth naming

from threading import RLock
from typing import Any

from moto.dynamodb.responses import DynamoHandler

from local.moto_repairs.patching import Patches


def apply(patches: Patches) -> None:
    lock = RLock()
    stock_call_action = DynamoHandler.call_action

    def call_action(response: Any) -> Any:
        with lock:
            return stock_call_action(response)

    patches.replace(DynamoHandler, "call_action", call_action)
