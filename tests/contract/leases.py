"""Rows and outcomes that the tests of the leases table share."""

import random

from longhaul.domain.lease import CommittedOutput, Lease
from longhaul.domain.outcome import settle
from longhaul.domain.verdict import OutcomeClass, Verdict
from longhaul.settings import LeaseSettings
from tests.builders import NOW, changed, stage

NUMBERS = LeaseSettings()
STAGE = stage(slots=2)
OUTPUT = CommittedOutput(
    attempt=1,
    pending_ref="longhaul/pending/x",
    prefix="s3://longhaul-data/out/",
    files=2,
    size_bytes=10,
)


def other(lease: Lease, n: int) -> Lease:
    return changed(lease, key=f"main#job-{n}", message_id=f"m-job-{n}")


def after(lease: Lease, kind: OutcomeClass) -> Lease:
    return settle(lease, Verdict(kind, "why"), STAGE, NUMBERS, NOW, random.Random(1)).lease
