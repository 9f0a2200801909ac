"""Sending a message sends a message, no more.

AWS: an event source mapping polls the queue on its own.

Stock moto: SendMessage itself receives a batch, calls the function, and deletes the batch whatever the function reported. Our own poller (`esm_poller`)
drives the mappings instead, so moto must not know of them at the queue.
"""

from moto.sqs import models

from local.moto_repairs.patching import Patches


def apply(patches: Patches) -> None:
    # A property with a setter: moto's constructor assigns the attribute, and the Lambda backend adds to what it reads.
    no_mappings = property(lambda _queue: {}, lambda _queue, _value: None)
    patches.replace(models.Queue, "lambda_event_source_mappings", no_mappings)
