"""Messages of SQS, also those in flight: their visibility ends when it would have."""
# ruff: noqa: ANN401, SLF001 - moto's insides, which have no types worth naming

import pickle
from typing import Any

from moto.sqs.models import Message, Queue, SQSBackend, sqs_backends
from moto.sqs.responses import SQSResponse

from longhaul.local.moto_repairs.patching import Patches
from longhaul.local.state.store import Store


def apply(patches: Patches, store: Store) -> None:
    """Apply after the repairs."""
    stock_add = Queue.add_message
    stock_received = Message.mark_received
    stock_change = Message.change_visibility
    stock_delete = Queue.delete_message
    stock_purge = SQSBackend.purge_queue
    responses: Any = SQSResponse
    stock_move = responses.start_message_move_task  # `sqs_move_task` adds it

    def add_message(queue: Any, message: Any) -> None:
        # Before another can receive it, and so write it.
        if store.recording:
            with store.writing() as database:
                database.execute(
                    "INSERT INTO message (id, queue, data) VALUES (?, ?, ?) "
                    "ON CONFLICT (id) DO UPDATE SET queue = excluded.queue, data = excluded.data",
                    (message.id, queue.name, _pickled(message)),
                )
        stock_add(queue, message)

    def mark_received(message: Any, visibility_timeout: int | None = None) -> None:
        stock_received(message, visibility_timeout=visibility_timeout)
        _update(store, message)

    def change_visibility(message: Any, visibility_timeout: int) -> None:
        stock_change(message, visibility_timeout)
        _update(store, message)

    def delete_message(queue: Any, receipt_handle: str) -> None:
        with queue._messages_lock:
            named = [each for each in queue._messages if each.had_receipt_handle(receipt_handle)]
            stock_delete(queue, receipt_handle)
            left = {each.id for each in queue._messages}
            _forget(store, [each.id for each in named if each.id not in left])

    def purge_queue(backend: Any, queue_name: str) -> None:
        stock_purge(backend, queue_name)
        _reconcile(store, backend.get_queue(queue_name))

    def start_message_move_task(response: Any) -> Any:
        result = stock_move(response)
        for queue in response.sqs_backend.queues.values():
            if queue.queue_arn == response._get_param("SourceArn"):
                _reconcile(store, queue)
        return result

    patches.replace(Queue, "add_message", add_message)
    patches.replace(Message, "mark_received", mark_received)
    patches.replace(Message, "change_visibility", change_visibility)
    patches.replace(Queue, "delete_message", delete_message)
    patches.replace(SQSBackend, "purge_queue", purge_queue)
    patches.replace(SQSResponse, "start_message_move_task", start_message_move_task)


def restore(store: Store, account: str, region: str) -> None:
    """Put the messages of the queues that there are back.

    Those that are too old for their queue are removed by its next receive, as always.
    """
    queues = sqs_backends[account][region].queues
    for name, data in store.rows("SELECT queue, data FROM message ORDER BY number"):
        if (queue := queues.get(name)) is not None:
            message: Any = Message.__new__(Message)
            message.__dict__.update(pickle.loads(data))  # noqa: S301 - of a folder of the user's own
            queue._messages.append(message)


def _update(store: Store, message: Any) -> None:
    if store.recording:
        with store.writing() as database:
            database.execute(
                "UPDATE message SET data = ? WHERE id = ?", (_pickled(message), message.id)
            )


def _forget(store: Store, ids: list[str]) -> None:
    if store.recording and ids:
        with store.writing() as database:
            database.executemany("DELETE FROM message WHERE id = ?", [(each,) for each in ids])


def _reconcile(store: Store, queue: Any) -> None:
    """Forget what the queue no longer has."""
    if not store.recording:
        return
    with queue._messages_lock, store.writing() as database:
        kept = database.execute("SELECT id FROM message WHERE queue = ?", (queue.name,)).fetchall()
        left = {each.id for each in queue._messages}
        gone = [row for row in kept if row[0] not in left]
        database.executemany("DELETE FROM message WHERE id = ?", gone)


def _pickled(message: Any) -> bytes:
    return pickle.dumps(dict(message.__dict__))
