"""What an attempt uploads to a prefix, as its destination plans it."""

from collections.abc import Sequence
from typing import Any

from longhaul.core.lease import AttemptId
from longhaul.core.places import DataPath
from longhaul.core.settings import Mode
from longhaul.runner.io.destinations import PrefixDestination
from longhaul.runner.io.listing import InputListing
from longhaul.runner.io.uploader import UploadPlan
from longhaul.runner.io.written import Dataset


def plan_of(
    s3: Any,
    attempt: AttemptId,
    prefix: str,
    datasets: Sequence[Dataset],
    mode: Mode = "overwrite",
) -> UploadPlan:
    """Of a job that has read no output of ours."""
    destination = PrefixDestination(s3, DataPath.on_s3(prefix), mode, attempt)
    return destination.plan(datasets, InputListing(s3, "data"))
