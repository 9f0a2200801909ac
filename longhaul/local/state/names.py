"""A resource of a template has the same name at each start.

CloudFormation draws the end of a name once, and the stack keeps it. moto would draw another at each
start, and what is kept names buckets and functions.
"""

import hashlib
from threading import local
from typing import Final

from moto.cloudformation import parsing

from longhaul.local.moto_repairs.patching import Patches

_LENGTH: Final = 12


def apply(patches: Patches) -> None:
    stock = parsing.generate_resource_name
    end = local()

    @patches.replacing(parsing, "generate_resource_name")
    def generate_resource_name(resource_type: str, stack_name: str, logical_id: str) -> str:
        digest = hashlib.sha256(f"{stack_name}/{logical_id}".encode()).hexdigest()
        end.value = digest[:_LENGTH].upper()
        return stock(resource_type, stack_name, logical_id)

    patches.replace(parsing, "random_suffix", lambda: end.value)
