"""A conditional write is atomic, and so is a transaction.

AWS: checks the condition and applies the write as one step. A transaction applies whole or not at
all, and no reader sees half of it.

Stock moto: handles requests in threads, so two writes can both pass their condition on the same old
item. A failed transaction restores a copy of the whole table, which undoes concurrent writes.

One lock is held around each request, up to its response, which is written from the live item. It
costs little: a request takes a few milliseconds of CPU.
"""
# ruff: noqa: ANN401 - moto's insides, which have no types worth naming

from threading import RLock
from typing import Any

from moto.dynamodb.responses import DynamoHandler

from embedded.moto_repairs.patching import Patches


def apply(patches: Patches) -> None:
    lock = RLock()
    stock_call_action = DynamoHandler.call_action

    def call_action(response: Any) -> Any:
        with lock:
            return stock_call_action(response)

    patches.replace(DynamoHandler, "call_action", call_action)
