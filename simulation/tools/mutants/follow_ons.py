"""Bugs about follow-ons, joins and lineage."""

from typing import Final

from simulation.tools.mutants.mutant import Mutant

_CLAIM: Final = "longhaul/domain/claim.py"
_FINISH: Final = "longhaul/finish.py"
_JOINS: Final = "longhaul/adapters/dynamodb/joins.py"
_LEASES: Final = "longhaul/adapters/dynamodb/leases.py"
_OUTCOME: Final = "longhaul/domain/outcome.py"

FOLLOW_ONS: Final = (
    Mutant(
        "a repeated follow-on gets another job id",
        "longhaul/domain/lineage.py",
        'hashlib.sha256(f"{parent}\\n{run}\\n{n}".encode())',
        'hashlib.sha256(__import__("os").urandom(20))',
    ),
    Mutant(
        "follow-ons are sent before the publish",
        _OUTCOME,
        "owed = (*publish, *follow_ons, Owed.DELETE)",
        "owed = (*follow_ons, *publish, Owed.DELETE)",
    ),
    Mutant(
        "the message is deleted before the follow-ons",
        _OUTCOME,
        "owed = (*publish, *follow_ons, Owed.DELETE)",
        "owed = (*publish, Owed.DELETE, *follow_ons)",
    ),
    Mutant(
        "what was emitted is forgotten where a deploy leads nowhere",
        _OUTCOME,
        "if stage.next or has_emitted else ()",
        "if stage.next else ()",
    ),
    Mutant(
        "the emitted requests are ignored",
        _FINISH,
        "if output and output.emitted_ref:",
        "if output and not output.emitted_ref and output.emitted_ref:",
    ),
    Mutant(
        "refused entries of a batch count as sent",
        "longhaul/adapters/sqs.py",
        "left = [each for each, to in unsent if not to.is_refused]",
        "left = [each for each, to in unsent if not to.is_refused and not to.again]",
    ),
    Mutant(
        "the join starts with one member missing",
        _JOINS,
        ">= size else None",
        ">= size - 1 else None",
    ),
    Mutant(
        "a repeated arrival counts twice",
        _JOINS,
        """serialized({":place": {n}}) | {":ttl": ttl_of_set},
            ReturnValues="ALL_NEW",
        )["Attributes"]
        return self._outputs(join_key) if len(deserialize(arrived["places"])) >= size else None""",
        """serialized({":place": 1}) | {":ttl": ttl_of_set},
            ReturnValues="ALL_NEW",
        )["Attributes"]
        return self._outputs(join_key) if deserialize(arrived["places"]) >= size else None""",
    ),
    Mutant(
        "an empty fan-out starts no join",
        "longhaul/domain/follow_ons.py",
        "        if not requests:\n            yield from _joins_of_none",
        "        if requests is None:\n            yield from _joins_of_none",
    ),
    Mutant(
        "a correction loses its place in the fan-out",
        _CLAIM,
        "lineage=request.lineage or (old.lineage if old else None)",
        "lineage=request.lineage",
    ),
    Mutant(
        "slots are returned to the wrong stage",
        _LEASES,
        "self._slots.given_back(before.stage)",
        'self._slots.given_back("main")',
    ),
    Mutant(
        "whoever names a parent follows from it",
        "longhaul/domain/ancestry.py",
        "return (lineage, job_id) == (true, made)",
        "return True",
    ),
    Mutant(
        "a place beyond the group is in it",
        "longhaul/domain/ancestry.py",
        "return (lineage, job_id) == (true, made)",
        "return job_id == made",
        also=Mutant(
            "and any place counts",
            "longhaul/domain/ancestry.py",
            "if n < size else None",
            "if n <= size else None",
        ),
    ),
    Mutant(
        "a join reads a table once for each member that wrote to it",
        "longhaul/domain/follow_ons.py",
        "if n not in outputs or first[outputs[n]] == n",
        "",
    ),
    Mutant(
        "an attribute alone makes a follow-on",
        "longhaul/domain/message.py",
        "renews is None and attributes.FIRST_SENT in given and request.lineage is not None",
        "renews is None and attributes.FIRST_SENT in given",
    ),
    Mutant(
        "a join may start before its members have arrived",
        "longhaul/ancestry.py",
        "if stored is None:\n    raise InvalidRequestError([_FORGED])",
        "if stored is None:\n    return request",
    ),
)
