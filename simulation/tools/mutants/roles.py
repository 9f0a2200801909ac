"""Bugs about the roles of stages, and about those that are refused."""

from typing import Final

from simulation.tools.mutants.mutant import Mutant

_CLASSIFY: Final = "longhaul/domain/classify.py"

ROLES: Final = (
    Mutant(
        "the jobs of each stage get the role of the first one",
        "longhaul/cdk/definition.py",
        "'Result': dict(rights[stage])",
        "'Result': dict(next(iter(rights.values())))",
    ),
    Mutant(
        "a role that Lambda refuses is a lack of room",
        _CLASSIFY,
        "if says_passing(words):",
        "if says_passing(words) or 'Lambda' in words:",
    ),
    Mutant(
        "a role that EMR Serverless cannot take is a lack of room",
        _CLASSIFY,
        "if says_passing(words):",
        "if says_passing(words) or 'EMRServerless' in words:",
    ),
)
