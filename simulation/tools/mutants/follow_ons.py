"""Bugs about follow-ons, joins and lineage."""

from typing import Final

from simulation.tools.mutants.mutant import Mutant

_CLAIM: Final = "longhaul/domain/claim.py"
_FINISH: Final = "longhaul/finish.py"
_FOLLOW_ONS: Final = "longhaul/domain/follow_ons.py"
_JOINS: Final = "longhaul/adapters/dynamodb/joins.py"
_LEASES: Final = "longhaul/adapters/dynamodb/leases.py"
_SETTLEMENT: Final = "longhaul/domain/settlement.py"

FOLLOW_ONS: Final = (
    Mutant(
        "a job leads wherever it says that it emitted",
        "longhaul/lineage_check.py",
        "parent.may_emit_to is None and parent.is_begun and",
        "parent.is_begun and",
        test="tests/handlers/test_forged_lineage.py::test_a_job_that_forges_what_it_emitted_leads_to_no_other_stage_than_its_own_leads_to",
    ),
    Mutant(
        "a planned job leads wherever a task writes into its row",
        "longhaul/lineage_check.py",
        "parent.may_emit_to is None and parent.is_begun and",
        "parent.may_emit_to is None and",
        test="tests/handlers/test_forged_lineage.py::test_what_a_task_writes_into_a_row_that_waits_for_its_time_leads_nowhere",
    ),
    Mutant(
        "a repeated follow-on gets another job id",
        "longhaul/domain/lineage.py",
        'hashlib.sha256(f"{parent}\\n{run}\\n{n}".encode())',
        'hashlib.sha256(__import__("os").urandom(20))',
    ),
    Mutant(
        "follow-ons are sent before the publish",
        _SETTLEMENT,
        "owed = (*publish, *follow_ons, Owed.DELETE)",
        "owed = (*follow_ons, *publish, Owed.DELETE)",
    ),
    Mutant(
        "the message is deleted before the follow-ons",
        _SETTLEMENT,
        "owed = (*publish, *follow_ons, Owed.DELETE)",
        "owed = (*publish, Owed.DELETE, *follow_ons)",
    ),
    Mutant(
        "what was emitted is forgotten where a deploy leads nowhere",
        _SETTLEMENT,
        "is_followed = stage.next or lease.leads_to or has_emitted or has_joins(lease)",
        "is_followed = stage.next",
    ),
    Mutant(
        "the jobs of every stage get the rights of the first",
        "longhaul/cdk/definition.py",
        '"Result": dict(rights[stage]),',
        '"Result": dict(rights[next(iter(rights))]),',
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
        'deserialize(answer["Item"]["jobs"]) != 0',
        'deserialize(answer["Item"]["jobs"]) > 1',
        also=Mutant(
            "also where it is checked once more",
            _JOINS,
            'NONE_LEFT = "#jobs = :none"',
            'NONE_LEFT = "#jobs >= :none"',
        ),
    ),
    Mutant(
        "a repeated success counts twice",
        _JOINS,
        'new = f"{ABSENT} OR {OF_ANOTHER_RUN}"',
        'new = f"{ABSENT} OR attribute_exists(#key) OR {OF_ANOTHER_RUN}"',
    ),
    Mutant(
        "what follows by default is asked of the settings when it is sent",
        _FOLLOW_ONS,
        "if lease.leads_to is not None:",
        "if False:",
        test="tests/handlers/test_joins.py::test_what_was_counted_is_sent_though_a_deploy_leads_elsewhere_in_between",
    ),
    Mutant(
        "a job whose stage was taken out leads nowhere",
        _FOLLOW_ONS,
        "if stage.is_removed:\n    return lease",
        "",
        test="tests/handlers/test_joins.py::test_success_leads_where_its_stage_led_when_that_was_taken_out_since",
    ),
    Mutant(
        "a join that was taken out is forgotten",
        _FOLLOW_ONS,
        "if name in stages[depth + 1 :] or _joins_no_more(name, settings):",
        "if name in stages[depth + 1 :] or name not in pipeline.joins:",
        test="tests/handlers/test_joins.py::test_join_that_was_taken_out_or_renamed_is_a_dead_letter_when_all_has_arrived",
    ),
    Mutant(
        "a corrected run keeps what the counted one led to",
        _JOINS,
        "if noted is None or deserialize(noted) == replaced.run:",
        "if noted is None or deserialize(noted) <= replaced.run:",
        test="tests/handlers/test_joins.py::test_corrected_run_takes_the_place_of_all_that_the_counted_one_led_to",
    ),
    Mutant(
        "what descends from a replaced run counts",
        _JOINS,
        'f"{LED_HERE} AND {OPEN} AND ({UNKNOWN_RUN} OR {SAME_RUN})"',
        'f"{LED_HERE} AND {OPEN} AND ({UNKNOWN_RUN} OR {SAME_RUN} OR #run > :n)"',
        test="tests/contract/test_joins.py::test_later_run_replaces_what_the_earlier_one_led_to",
    ),
    Mutant(
        "more is counted below a place while another run replaces it",
        _JOINS,
        'OPEN = "attribute_not_exists(closed)"',
        'OPEN = "attribute_not_exists(opened)"',
        test="tests/contract/test_joins.py::test_nothing_is_counted_below_a_place_while_another_run_replaces_it",
    ),
    Mutant(
        "a later run changes a join that has started",
        _JOINS,
        'NOT_STARTED = "attribute_not_exists(started)"',
        'NOT_STARTED = "attribute_not_exists(begun)"',
        test="tests/contract/test_joins.py::test_later_run_of_a_job_does_not_change_a_join_that_has_started",
    ),
    Mutant(
        "a join is proven by the row of its opener alone",
        "longhaul/lineage_check.py",
        "if lineage.inputs_ref is None or not lineage.groups:",
        "if True:",
        test="tests/handlers/test_joins.py::test_join_starts_though_the_row_of_its_opener_has_expired",
    ),
    Mutant(
        "a job that emits one opens a fan-out of its own",
        _FOLLOW_ONS,
        "is_first = lease.lineage is None",
        "is_first = True",
        also=Mutant(
            "also where a join has one already",
            _FOLLOW_ONS,
            "before = {name for group in groups_of(lease) for name in group.opens or ()}",
            "before: set[str] = set()",
        ),
    ),
    Mutant(
        "the opener of a join is the stage before it",
        "longhaul/domain/pipeline.py",
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
        "what follows is sent before its parent is counted",
        _FINISH,
        "jobs_to_send = chain(self._jobs(lease, emitted, refused), started)",
        "jobs_to_send = chain(self._jobs(lease, emitted, refused), self._jobs_of_complete_joins(lease, emitted, refused))",
        also=Mutant(
            "all of it",
            _FINISH,
            "started = list(self._jobs_of_complete_joins(lease, emitted, refused))",
            "started = []",
        ),
        test="tests/handlers/test_joins.py::test_join_starts_once_though_members_end_before_their_emitter_is_settled_again",
    ),
    Mutant(
        "a correction of a cancelled follow-on takes its place before it has come",
        _CLAIM,
        "if not covered and (until := _follow_on_first(lease, message, timing, now)):",
        "if not covered and (until := None):",
        also=Mutant(
            "without a lineage",
            "longhaul/lineage_check.py",
            "if is_child and (row is None or row.lineage is None):",
            "if is_child and row is None:",
        ),
        test="tests/handlers/test_joins.py::test_correction_of_a_cancelled_member_waits_for_the_member_and_takes_its_place",
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
        "self._slots.given_back(change.after.stage)",
        'self._slots.given_back("main")',
    ),
    Mutant(
        "whoever names a parent follows from it",
        "longhaul/domain/lineage_proof.py",
        "return (lineage, job_id) == (true, made)",
        "return True",
        test="tests/handlers/test_forged_lineage.py::test_a_member_under_an_id_of_its_own_never_starts",
    ),
    Mutant(
        "a place beyond the group is in it",
        "longhaul/domain/lineage_proof.py",
        "return (lineage, job_id) == (true, made)",
        "return job_id == made",
        also=Mutant(
            "and any place counts",
            "longhaul/domain/lineage_proof.py",
            "if n >= size:",
            "if n > size:",
        ),
    ),
    Mutant(
        "a join reads a table once for each member that wrote to it",
        _FOLLOW_ONS,
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
        "longhaul/lineage_check.py",
        "if stored is None:\n    raise InvalidRequestError([_FORGED])",
        "if stored is None:\n    return request",
    ),
)
