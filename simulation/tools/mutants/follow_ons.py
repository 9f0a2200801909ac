"""Bugs about follow-ons, joins and lineage."""

from typing import Final

from simulation.tools.mutants.mutant import Mutant

_CLAIM: Final = "longhaul/core/claim.py"
_FOLLOWING: Final = "longhaul/pipelines/following.py"
_FOLLOW_ONS: Final = "longhaul/pipelines/follow_ons.py"
_JOINS: Final = "longhaul/pipelines/joins.py"

FOLLOW_ONS: Final = (
    Mutant(
        "a repeated follow-on gets another job id",
        "longhaul/core/descent.py",
        'hashlib.sha256(f"{parent}\\n{n}".encode())',
        'hashlib.sha256(__import__("os").urandom(20))',
    ),
    Mutant(
        "the emitted requests are ignored",
        _FOLLOWING,
        "if output and output.emitted is not None:",
        "if False:",
    ),
    Mutant(
        "the join starts with one member missing",
        _JOINS,
        "if standing.waits_for:",
        "if standing.waits_for > 1:",
    ),
    Mutant(
        "a repeated success counts twice",
        _JOINS,
        'new = f"{ABSENT} OR {OF_ANOTHER_RUN}"',
        'new = f"{ABSENT} OR attribute_exists(#key) OR {OF_ANOTHER_RUN}"',
    ),
    Mutant(
        "the opener of a join is the stage before it",
        "longhaul/pipelines/pipeline.py",
        "return splits[0] if splits else self.collected(join)",
        "return self.collected(join)",
    ),
    Mutant(
        "an emission of none leaves its place to be waited for",
        _FOLLOW_ONS,
        "{to: count for to, count in led_to.items() if count and leads(to, name)}",
        "{to: count or 1 for to, count in led_to.items() if leads(to, name)}",
    ),
    Mutant(
        "an inner join is not waited for by the outer one",
        _FOLLOW_ONS,
        "led_to[name] = 1",
        "led_to[name] = 0",
    ),
    Mutant(
        "a place beyond the group is in it",
        "longhaul/pipelines/descent_check.py",
        "return (lineage, job_id) == (true, made)",
        "return job_id == made",
        also=Mutant(
            "and any place counts",
            "longhaul/pipelines/descent_check.py",
            "if n >= size:",
            "if n > size:",
        ),
    ),
    Mutant(
        "a join may start before its members have arrived",
        "longhaul/pipelines/descent_check.py",
        "if stored is None:\n    raise InvalidRequestError([_FORGED])",
        "if stored is None:\n    return request",
    ),
    Mutant(
        "a job that runs again changes nothing at its join",
        _JOINS,
        "if noted == replaced.run:",
        "if noted <= replaced.run:",
    ),
    Mutant(
        "what a later run leads to is a duplicate",
        _CLAIM,
        "if led_by.run > lease.lineage.run:",
        "if led_by.run > lease.lineage.run and not lease.run:",
    ),
    Mutant(
        "an append that runs again leaves its old rows beside the new ones",
        "longhaul/runner/io/uploader.py",
        "if replaced or is_of_earlier_run(file.path, attempt.token)",
        "if replaced",
    ),
)
