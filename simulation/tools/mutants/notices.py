"""Bugs about what a stage's `notify` is told."""

from typing import Final

from simulation.tools.mutants.mutant import Mutant

_ANNOUNCING: Final = "longhaul/announcing.py"
_FINISH: Final = "longhaul/finish.py"
_NOTICE: Final = "longhaul/domain/notice.py"
_TREE_ENDS: Final = "longhaul/tree_ends.py"
_BACKFILLS: Final = "tests/handlers/test_backfill_ends.py"
_TESTS: Final = "tests/handlers/test_tree_ends.py"

NOTICES: Final = (
    Mutant(
        "a success is told before it is published",
        _FINISH,
        "if lease.attempt.published_at is None:\n    self.publication.publish(lease, until)",
        "self.announcer.ended(lease, stage, until)\n"
        "if lease.attempt.published_at is None:\n    self.publication.publish(lease, until)",
    ),
    Mutant(
        "a death is told before its dead letter",
        _FINISH,
        "self.context.queue.send(stage.dead_letter_queue_url, letter)",
        "self.announcer.ended(lease, stage, until)\n"
        "self.context.queue.send(stage.dead_letter_queue_url, letter)",
    ),
    Mutant(
        "a notice that cannot be sent is forgotten",
        _ANNOUNCING,
        "if tried_for < most:",
        "if tried_for < tried_for:",
    ),
    Mutant(
        "a repeated notice has another id",
        _NOTICE,
        "f'{lease.id.key_hash}-{lease.run}'",
        "__import__('os').urandom(8).hex()",
    ),
    Mutant(
        "a run has a start for OpenLineage, and no end",
        _ANNOUNCING,
        "for event in self._run_events(lease):\n    self._send(stage.notify, event, until)",
        "for event in self._run_events(lease)[:1]:\n    self._send(stage.notify, event, until)",
    ),
    Mutant(
        "a cancelled job is not told",
        _FINISH,
        "self.announcer.ended(lease, stage, until)",
        "if lease.state is not State.CANCELLED:\n    self.announcer.ended(lease, stage, until)",
    ),
    Mutant(
        "an invalid message is not told",
        "longhaul/batch.py",
        "self.refused.append((message_id, reason))",
        "",
    ),
    Mutant(
        "the day of a notice counts from the end of its job",
        _ANNOUNCING,
        "self._try_again_or_lose(stage, lease.key, lease.untold_at, error)",
        "self._try_again_or_lose(stage, lease.key, lease.ended_at, error)",
    ),
    Mutant(
        "a tree is told while jobs of it go on",
        _TREE_ENDS,
        "if look.open is not None:",
        "if False:",
    ),
    Mutant(
        "a tree is never told",
        _TREE_ENDS,
        "return stage.tells_trees and lease.may_begin_tree",
        "return False",
    ),
    Mutant(
        "a tree that went on at the first look is never looked at again",
        _TREE_ENDS,
        "yield root, _watch(root).waits_for not in open_keys",
        "yield root, _watch(root).waits_for is None",
    ),
    Mutant(
        "the end of a job that runs again begins no watch",
        _FINISH,
        "self.tree_ends.ends_again(lease)",
        "",
    ),
    Mutant(
        "a job that dies again begins no watch",
        "longhaul/domain/lease.py",
        "bool(self.dead_runs) or self.cancelled_at is not None",
        "self.cancelled_at is not None",
    ),
    Mutant(
        "a later end of a tree has the id of the first one",
        _TREE_ENDS,
        "digest=_digest(jobs)",
        "digest=_digest([tree])",
    ),
    Mutant(
        "a refused job that is sent again begins no watch",
        _TREE_ENDS,
        "lease.may_have_ended_before or self.context.refusals.was_refused(lease.key)",
        "lease.may_have_ended_before",
        test=f"{_TESTS}::test_a_refused_job_that_is_sent_again_ends_its_tree_a_second_time",
    ),
    Mutant(
        "an end that comes while the first one is told is taken for told",
        "longhaul/domain/transitions.py",
        "requires=_same(root) | same",
        "requires=_same(root)",
        test=f"{_TESTS}::test_an_end_that_comes_while_a_sweep_tells_the_first_one_is_told_too",
    ),
    Mutant(
        "a tree is told of which a job began again during the look",
        "longhaul/trees.py",
        "going or self._changed(top)",
        "going",
        test=f"{_TESTS}::test_a_job_that_begins_again_during_a_look_keeps_its_tree_open",
    ),
    Mutant(
        "a backfill is told that has jobs to send",
        _TREE_ENDS,
        "isinstance(root, Backfill) and root.is_sending",
        "False",
    ),
    Mutant(
        "what a backfill sends later begins no watch",
        "longhaul/operations/backfill.py",
        "watches = noted is not None and (is_new or not values <= noted)",
        "watches = noted == set()",
        test=f"{_BACKFILLS}::test_it_ends_once_more_after_a_retry_and_after_more_is_sent",
    ),
    Mutant(
        "the end of a backfill's job that runs again begins no watch",
        _TREE_ENDS,
        "self.context.backfills.watch_again(backfill, lease.root, self.context.clock.now())",
        "pass",
    ),
    Mutant(
        "a job that a backfill has not sent tells its end again",
        "longhaul/adapters/dynamodb/backfills.py",
        "HAS_SENT: Final = 'contains(sent_values, :value)'",
        "HAS_SENT: Final = 'attribute_exists(sent_values) AND :value = :value'",
        test=f"{_BACKFILLS}::test_a_job_that_it_has_not_sent_does_not_tell_its_end_again",
    ),
    Mutant(
        "a backfill is told that has sent more during the look",
        _TREE_ENDS,
        "look if now == root else None",
        "look",
        test=f"{_BACKFILLS}::test_more_that_is_noted_during_a_look_keeps_it_open",
    ),
    Mutant(
        "what a backfill sends while its end is told is taken for told",
        "longhaul/adapters/dynamodb/backfills.py",
        "is_same = 'ends = :ends AND told = :told'",
        "is_same = 'ends >= :ends AND told = :told'",
        test=f"{_BACKFILLS}::test_an_end_that_comes_while_a_sweep_tells_the_first_one_is_told_too",
    ),
)
