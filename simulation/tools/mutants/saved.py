"""Bugs about what a job stores for its next attempt."""

from typing import Final

from simulation.tools.mutants.mutant import Mutant

_SAVING: Final = "longhaul/runner/saving.py"
_SAVED: Final = "longhaul/saved/record.py"

SAVED: Final = (
    Mutant(
        "a stale attempt moves the pointer of the one that replaced it",
        _SAVING,
        "            if row is None or not row.owns(self._attempt) or row.saved_ref == self._known:\n"
        "                raise\n"
        "            if row.saved_ref is None or not row.saved_ref.startswith(own):\n"
        "                raise\n"
        "            self._report(row.saved_ref, ref, size_bytes)",
        "            if row is None:\n"
        "                raise\n"
        "            self._leases.report(transitions.save(row.id, row.saved_ref, ref, size_bytes,"
        " self._clock.now()))",
    ),
    Mutant(
        "the pointer moves before the record is there",
        _SAVING,
        "        self._store.put(ref, record)\n"
        "        before, self._known = self._known, self._move_pointer(ref, record.size_bytes)",
        "        before, self._known = self._known, self._move_pointer(ref, record.size_bytes)\n"
        "        self._store.put(ref, record)",
    ),
    Mutant(
        "what was stored is never removed",
        "longhaul/saved/keeper.py",
        'decide_saved(row, self.context.clock.now()) == "remove"',
        'decide_saved(row, self.context.clock.now()) == "never"',
        also=Mutant(
            "nor by who finishes the job",
            "longhaul/saved/keeper.py",
            "            self.store.remove(lease.id)",
            "            pass",
        ),
    ),
    Mutant(
        "what a job may still take over is removed",
        _SAVED,
        'case State.RUNNING | State.RELEASED:\n            return "keep"',
        'case State.RUNNING | State.RELEASED:\n            return "remove"',
    ),
)
