"""SendMessage only sends.

AWS: an event source mapping polls the queue by itself.

Stock moto: SendMessage itself receives a batch, calls the function, and deletes the batch even when
the function reports failures. `esm_poller` drives the mappings instead, so the queue must not know
of them.
"""

from moto.sqs import models

from longhaul.local.moto_repairs.patching import Patches


def apply(patches: Patches) -> None:
    # A property with a setter, because moto's constructor assigns the attribute. It returns a new
    # mapping each time, because the Lambda backend adds to it.
    no_mappings = property(lambda _queue: {}, lambda _queue, _value: None)
    patches.replace(models.Queue, "lambda_event_source_mappings", no_mappings)
