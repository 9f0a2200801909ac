"""What a receipt handle is worth.

A handle holds its message from its receive until the visibility timeout ends or the message is received again. Then it is stale. What a stale handle does on a
standard queue AWS does not say, and people have seen all three: it `work`s, SQS answers 200 and `ignore`s it, the call `fail`s.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

from tests.fakes.service import RefusedError
from tests.fakes.sqs_queues import MAX_VISIBILITY_S, Message, Queue, invalid

Stale = Literal["work", "ignore", "fail"]


class StaleUse(NamedTuple):
    """A handle is used that does not hold its message: an earlier receive's, or (`lapsed`) the newest one's after its time."""

    operation: Literal["ChangeMessageVisibility", "DeleteMessage"]
    message: Message
    lapsed: bool


Policy = Stale | Callable[[StaleUse], Stale]


def change_visibility(queue: Queue, handle: str, seconds: int, now: float, policy: Policy) -> None:
    check_visibility(seconds)
    message = queue.held_by(handle)
    if message is None:
        raise _not_available(handle)
    if handle != message.receipt_handle or message.shows_at <= now:
        lapsed = handle == message.receipt_handle
        match _decided(policy, StaleUse("ChangeMessageVisibility", message, lapsed)):
            case "ignore":
                return
            case "fail" if lapsed:
                raise RefusedError(
                    "AWS.SimpleQueueService.MessageNotInflight", "The specified message isn't in flight."
                )
            case "fail":
                raise _not_available(handle)
            case "work":
                pass
    # Refused, not clamped: the old timeout runs on.
    if now + seconds > message.received_at + MAX_VISIBILITY_S:
        raise invalid(
            f"Value {seconds} for parameter VisibilityTimeout is invalid. Reason: Total VisibilityTimeout for the message is beyond the limit "
            f"[{MAX_VISIBILITY_S} seconds]"
        )
    queue.show(message, now + seconds)


def delete(queue: Queue, handle: str, policy: Policy) -> None:
    """Never an error for a handle that was once given, whether or not it still deletes. The newest deletes also after its time."""
    message = queue.held_by(handle)
    if message is None:
        return
    if handle == message.receipt_handle or _decided(policy, StaleUse("DeleteMessage", message, lapsed=False)) == "work":
        queue.remove(message)


def check_visibility(seconds: int) -> None:
    if not 0 <= seconds <= MAX_VISIBILITY_S:
        raise invalid(
            f"Value {seconds} for parameter VisibilityTimeout is invalid. Reason: Must be between 0 and {MAX_VISIBILITY_S}, if provided."
        )


def _decided(policy: Policy, use: StaleUse) -> Stale:
    return policy(use) if callable(policy) else policy


def _not_available(handle: str) -> RefusedError:
    return invalid(
        f"Value {handle} for parameter ReceiptHandle is invalid. Reason: Message does not exist or is not available for visibility timeout change."
    )
