"""Messages of SQS, also those in flight: their visibility ends when it would have."""
# ruff: noqa: ANN401 - moto's objects, which have no types worth naming

from typing import Any

from moto.sqs.models import Message, Queue, sqs_backends

from longhaul.local.moto_repairs.patching import Patches
from longhaul.local.state.store import Store, keep_after


def apply(patches: Patches, store: Store) -> None:
    """Apply after the repairs."""
    stock_add = Queue.add_message

    def keep(message: Any, *_: Any) -> None:
        store.put("message", {message.id: vars(message)})

    @patches.replacing(Queue, "add_message")
    def add_message(queue: Any, message: Any) -> None:
        message.queue_name = queue.name
        keep(message)  # before another can receive it, and so write it
        stock_add(queue, message)

    def assign(queue: Any, messages: list[Any]) -> None:
        before = vars(queue).get("_messages", [])
        vars(queue)["_messages"] = messages
        gone = {each.id for each in before} - {each.id for each in messages}
        store.put("message", dict.fromkeys(gone))

    for name in ("mark_received", "change_visibility"):
        keep_after(patches, store, Message, name, keep)
    # Who removes messages for good gives the queue another list.
    patches.replace(Queue, "_messages", property(lambda queue: vars(queue)["_messages"], assign))


def restore(store: Store, account: str, region: str) -> None:
    """Put the messages of the queues that there are back.

    Those that are too old for their queue are removed by its next receive, as always.
    """
    queues = sqs_backends[account][region].queues
    for _, kept in store.things("message"):
        if (queue := queues.get(kept["queue_name"])) is not None:
            message: Any = Message.__new__(Message)
            vars(message).update(kept)
            queue._messages.append(message)  # noqa: SLF001 - there is no other way
