"""The effect of a receipt handle, valid or stale.

A handle holds its message from its receive until the visibility timeout ends or the message is
received again. Then it is stale. AWS does not say what a stale handle does on a standard queue, and
all three have been seen: it `work`s, SQS returns 200 and `ignore`s it, or the call `fail`s.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

from simulation.aws.service import RefusedError
from simulation.aws.sqs.queues import MAX_VISIBILITY_S, Message, Queue, invalid

Stale = Literal["work", "ignore", "fail"]


class StaleUse(NamedTuple):
    """The use of a stale handle: an earlier receive's, or (`lapsed`) the newest after its time."""

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
                    "AWS.SimpleQueueService.MessageNotInflight",
                    "The specified message isn't in flight.",
                )
            case "fail":
                raise _not_available(handle)
            case "work":
                pass
    # SQS refuses such a value and does not clamp it: the old timeout stays.
    if now + seconds > message.received_at + MAX_VISIBILITY_S:
        raise invalid(
            f"Value {seconds} for parameter VisibilityTimeout is invalid. Reason: Total"
            " VisibilityTimeout for the message is beyond the limit"
            f" [{MAX_VISIBILITY_S} seconds]"
        )
    queue.show(message, now + seconds)


def delete(queue: Queue, handle: str, policy: Policy) -> None:
    """Delete a message by any handle of its receives; a stale one may have no effect.

    The newest handle deletes even after its visibility timeout.
    """
    message = queue.held_by(handle)
    if message is None:
        return
    if (
        handle == message.receipt_handle
        or _decided(policy, StaleUse("DeleteMessage", message, lapsed=False)) == "work"
    ):
        queue.remove(message)


def check_visibility(seconds: int) -> None:
    if not 0 <= seconds <= MAX_VISIBILITY_S:
        raise invalid(
            f"Value {seconds} for parameter VisibilityTimeout is invalid."
            f" Reason: Must be between 0 and {MAX_VISIBILITY_S}, if provided."
        )


def _decided(policy: Policy, use: StaleUse) -> Stale:
    return policy(use) if callable(policy) else policy


def _not_available(handle: str) -> RefusedError:
    return invalid(
        f"Value {handle} for parameter ReceiptHandle is invalid. Reason: Message does not exist or"
        " is not available for visibility timeout change."
    )
