"""Whether a job follows from the job that it names. Pure.

A sender can write a lineage as it likes. It counts only if the parent's row proves it: the parent
succeeded, and made exactly this id, group and place. So a forged one cannot arrive at other
people's joins. The ids can be derived by who knows the parent's run. So each success also has a
seal, a random text that its row and its follow-ons share. A keyed digest would prove as much, and
would need a key to keep and to rotate.
"""

from longhaul.domain.follow_ons import (
    groups_behind,
    groups_of,
    place_behind,
)
from longhaul.domain.lease import Lease, State, job_key, joined_ref
from longhaul.domain.lineage import Group, Lineage, child_id
from longhaul.settings import Stage


def is_child(lineage: Lineage, job_id: str, stage: Stage, parent: Lease) -> bool:
    """Whether the job `job_id` of `stage` follows from `parent`, as its lineage says.

    Args:
        lineage: what the request claims.
        job_id: of the job.
        stage: of the job.
        parent: the row that the lineage names.
    """
    output = parent.attempt.output
    if parent.state is not State.SUCCEEDED or output is None:
        return False

    def follows(n: int, groups: tuple[Group, ...]) -> bool:
        true = Lineage(
            root=parent.root, parent=parent.key, run=parent.run, groups=groups, seal=output.seal
        )
        made = child_id(parent.root, stage.name, parent.key, n)
        return (lineage, job_id) == (true, made)

    # A deploy may have made its stage one that joins: what is sealed was sent before.
    if stage.join and output.seal is None:
        return False
    if output.emitted is None:
        return follows(0, groups_behind(parent))
    size = output.emitted.get(stage.name, 0)
    n = lineage.groups[-1].n if lineage.groups else size
    if n >= size:
        return False
    return follows(n, (*groups_of(parent), place_behind(parent, n, size)))


def is_noted(lineage: Lineage, job_id: str, stage: Stage, noted: Lineage) -> bool:
    """Whether a join's job is the one whose lineage was noted with its opener.

    The note outlives the opener's row: a member may be corrected months after the opener ended.
    """
    made = child_id(noted.root, stage.name, noted.parent, "join")
    inputs_ref = joined_ref(job_key(stage.name, job_id), lineage.run)
    true = noted.model_copy(update={"run": lineage.run, "inputs_ref": inputs_ref})
    return lineage == true and job_id == made
