"""Rows and outcomes that the tests of the leases table share."""

import random

from longhaul.domain.lease import Lease
from longhaul.domain.settlement import after_verdict
from longhaul.domain.verdict import OutcomeClass, Verdict
from longhaul.settings import LeaseSettings
from tests.builders import NOW, changed, stage

NUMBERS = LeaseSettings()
STAGE = stage(slots=2)


def other(lease: Lease, n: int) -> Lease:
    return changed(lease, key=f"main#job-{n}", message_id=f"m-job-{n}")


def after(lease: Lease, kind: OutcomeClass) -> Lease:
    return after_verdict(lease, Verdict(kind, "why"), STAGE, NUMBERS, NOW, random.Random(1)).lease
