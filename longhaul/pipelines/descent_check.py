"""Whether a job follows from the job that it names, which its parent's row proves.

A sender can write a lineage as it likes. It counts only if the parent's row proves it: the parent
succeeded, and made exactly this id, group and place. So a forged one cannot arrive at other
people's joins. The ids can be derived by who knows the parent's run. So each success also has a
seal, a random text that its row and its follow-ons share. A keyed digest would prove as much, and
would need a key to keep and to rotate.
"""

from dataclasses import dataclass

from longhaul.core.descent import Group, Lineage, child_id, is_child_id
from longhaul.core.errors import InvalidRequestError, SupersededError, UnprovenError
from longhaul.core.lease import Lease, State, job_key, joined_ref
from longhaul.core.message import JobMessage
from longhaul.core.ports import Context
from longhaul.core.request import JobRequest
from longhaul.core.settings import Stage
from longhaul.pipelines.follow_ons import (
    Joins,
    fan_out_problem,
    groups_behind,
    join_key,
    place_behind,
    with_joins,
    with_stored,
)


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
    return follows(n, (*parent.groups, place_behind(parent, n, size)))


def is_noted(lineage: Lineage, job_id: str, stage: Stage, noted: Lineage) -> bool:
    """Whether a join's job is the one whose lineage was noted with its opener.

    The note outlives the opener's row: a member may be corrected months after the opener ended.
    """
    made = child_id(noted.root, stage.name, noted.parent, "join")
    inputs_ref = joined_ref(job_key(stage.name, job_id), lineage.run)
    true = noted.model_copy(update={"run": lineage.run, "inputs_ref": inputs_ref})
    return lineage == true and job_id == made


_FORGED = "lineage: is Longhaul's own, and no success led to this job: leave it out"
_RESERVED = (
    "job_id: has the form of jobs that follow from others, and no such job has come yet: take"
    " another; or send this once `longhaul status` shows it, or with the lineage of its request"
)


@dataclass(frozen=True, kw_only=True)
class DescentCheck:
    """`core.seams.Descent`."""

    context: Context
    joins: Joins

    def proven(self, message: JobMessage, stage: Stage, row: Lease | None) -> JobRequest:
        request = message.request
        if request.lineage is None:
            is_child = is_child_id(message.key.partition("#")[2], stage.name)
            if is_child and (row is None or row.lineage is None):
                # It would take the place of a job that is still to come. A cancel may have left a
                # row without a lineage for it.
                raise UnprovenError([_RESERVED])
            return request
        # A redrive of a job whose row has the same lineage was checked before.
        if row is None or row.lineage != request.lineage:
            self._check(request.lineage, message, stage)
        if request.lineage.inputs_ref is None:
            return request
        stored = self.context.requests.get_inputs(request.lineage.inputs_ref)
        if stored is None:
            # Written when the last member has arrived. Before that, nothing sends this job.
            raise InvalidRequestError([_FORGED])
        return with_stored(request, stored)

    def proven_lineage(
        self, message: JobMessage, stage: Stage, row: Lease | None
    ) -> Lineage | None:
        try:
            return self.proven(message, stage, row).lineage
        except InvalidRequestError:
            return None

    def with_joins(self, lease: Lease) -> Lease:
        return with_joins(lease, self.context.settings)

    def _check(self, lineage: Lineage, message: JobMessage, stage: Stage) -> None:
        job_id = message.key.partition("#")[2]
        is_join = lineage.inputs_ref is not None
        if not (self._is_noted if is_join else self._is_child)(lineage, job_id, stage):
            raise UnprovenError([_FORGED])
        if problem := fan_out_problem(lineage.groups):
            raise InvalidRequestError([f"lineage: {problem}"])

    def _is_noted(self, lineage: Lineage, job_id: str, stage: Stage) -> bool:
        """Whether a join's job was noted with its opener."""
        noted = self.joins.noted_lineage(join_key(stage.name, lineage.parent))
        if noted is None or not lineage.groups:
            return False
        _require_latest(lineage.groups[-1].run, noted.groups[-1].run)
        return is_noted(lineage, job_id, stage, noted)

    def _is_child(self, lineage: Lineage, job_id: str, stage: Stage) -> bool:
        parent = self.context.leases.load(lineage.parent)
        if parent is None or not self._may_lead_to(parent, stage):
            return False
        _require_latest(lineage.run, parent.run)
        follows = is_child(lineage, job_id, stage, parent)
        if follows and parent.cut_off:  # and another function had begun to send what follows
            raise SupersededError(["lineage: the job that led to this one was cancelled since"])
        return follows

    def _may_lead_to(self, parent: Lease, stage: Stage) -> bool:
        """Whether the parent's stage leads to this one, or did when an attempt of it was claimed.

        What it emitted proves neither: a job's code can write that into its row, and it would have
        requests run with another stage's rights.
        """
        known = self.context.settings.stages
        now = next((each.next for each in known if each.name == parent.stage), ())
        return stage.name in {*now, *(parent.leads_to or ()), *(parent.may_emit_to or ())}


def _require_latest(run: int, latest: int) -> None:
    """Raises SupersededError if the run that led to a job is not the latest of its parent."""
    if run < latest:
        raise SupersededError(["lineage: the job that led to this one has run again since"])
