"""The checks, in one list, and what runs them: `longhaul check`, `deploy` and `destroy`."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from longhaul.cli.checks import deployment, stack
from longhaul.cli.checks.finding import MARKS, STYLES, Finding, Level, ok, skipped
from longhaul.cli.checks.plan import Plan
from longhaul.cli.sentences import AWS_OR_OURS, sentence
from longhaul.cli.target import Target
from longhaul.cli.terminal.output import Output

OF_DEPLOYMENT: Final[Sequence[Callable[[Plan], Iterator[Finding]]]] = (
    deployment.image,
    deployment.bootstrap,
    deployment.vcpus,
    deployment.functions,
    deployment.stages,
)
"""What can be known before anything is built: of this machine, and of the account."""

OF_STACK: Final[Sequence[Callable[[Target], Iterator[Finding]]]] = (
    stack.deployment,
    stack.versions,
    stack.mappings,
    stack.slots,
    stack.secrets,
    stack.dead_letters,
    stack.alarms,
)
"""What needs a stack that is deployed."""


def of_deployment(plan: Plan) -> Iterator[Finding]:
    yield _credentials(plan.target)
    yield from checked(OF_DEPLOYMENT, plan)


def of_stack(target: Target, plan: Plan | None) -> Iterator[Finding]:
    """Of a deployed stack, and of its next deployment if that can be made from here."""
    yield _credentials(target)
    yield from checked(OF_STACK, target)
    if plan is None:
        yield skipped(
            "deployment: `longhaul up` deploys to the embedded AWS"
            if target.place.embedded
            else f"deployment: the settings here are not those of the stack {target.stack}"
        )
        return
    for each in checked(OF_DEPLOYMENT, plan):
        # What is deployed runs without these.
        yield replace(each, level=Level.WARNING) if each.level is Level.PROBLEM else each


def _credentials(target: Target) -> Finding:
    who = target.identity
    return ok(f"credentials: {who['Arn']}, account {who['Account']}, region {target.region}")


def checked(checks: Sequence[Callable[[Any], Iterator[Finding]]], of: object) -> Iterator[Finding]:
    """Run checks. One that is not allowed, or fails, is skipped; the others go on."""
    for check in checks:
        try:
            yield from check(of)
        except AWS_OR_OURS as error:
            name = check.__name__.replace("_", " ")
            yield skipped(f"{name}: could not be checked: {sentence(error)}")


def tell(out: Output, findings: Iterable[Finding]) -> Counter[Level]:
    """Print the findings as they come; returns how many there are of each level."""
    counts: Counter[Level] = Counter()
    for each in findings:
        counts[each.level] += 1
        out.item(
            {"level": each.level.value, "what": each.what, "do": each.do or None},
            f"{MARKS[each.level]}  {each.what}",
            STYLES[each.level],
        )
        if each.do and not out.as_json:
            out.line(f"    → {each.do}")
    return counts
