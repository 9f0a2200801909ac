"""The product's own code makes no mistake, whatever AWS does."""

from traceback import extract_tb
from typing import TYPE_CHECKING

from simulation.seen.invariants.table import invariant

if TYPE_CHECKING:
    from simulation.aws.stepfunctions.client import Execution
    from simulation.seen.record import Seen

_MISTAKES = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NameError,
    RecursionError,
    TypeError,
)


@invariant("L11", "code failed", "no error is a mistake of the product's own code")
def no_mistake(seen: "Seen", error: BaseException) -> str | None:
    """An error of AWS is answered by a later try; this one would come again."""
    if not isinstance(error, _MISTAKES):
        return None
    at = extract_tb(error.__traceback__)[-1]
    if at.name == "stage_of_queue" and seen.was_retired:
        return None  # the last batch of a stage that was taken out: its queue goes too
    return f"{type(error).__name__}: {error}, at {at.filename.rpartition('/')[2]}:{at.lineno}"


@invariant("L11", "execution ended", "every state gets what it reads")
def no_state_fails_at_runtime(seen: "Seen", execution: "Execution") -> str | None:
    del seen
    if execution.error != "States.Runtime":
        return None
    return f"{execution.name} failed: {execution.cause}"
