"""Rows and outcomes that the tests of the leases table share."""

import random

from longhaul.core.lease import Lease
from longhaul.core.settings import LeaseSettings
from longhaul.core.settlement import after_verdict
from longhaul.core.verdict import OutcomeClass, Verdict
from tests.builders import NOW, changed, stage

NUMBERS = LeaseSettings()
STAGE = stage(slots=2)


def other(lease: Lease, n: int) -> Lease:
    return changed(lease, key=f"main#job-{n}", message_id=f"m-job-{n}")


def after(lease: Lease, kind: OutcomeClass) -> Lease:
    return after_verdict(lease, Verdict(kind, "why"), STAGE, NUMBERS, NOW, random.Random(1)).lease
