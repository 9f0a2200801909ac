"""A deploy that allows less, between the claim of a run and one of its attempts."""

import pytest

from longhaul.core.settings import PathPolicy
from longhaul.core.verdict import ExitCode
from tests.builders import BUCKET, settings
from tests.runner.attempts import CSV
from tests.runner.conftest import Cloud, MakeAttempt


@pytest.mark.usefixtures("demo_jobs")
def test_an_attempt_reads_what_the_claim_of_its_run_was_allowed_to(
    cloud: Cloud, make_attempt: MakeAttempt
) -> None:
    cloud.s3.create_bucket(Bucket="landing")
    cloud.s3.put_object(Bucket="landing", Key="2013-01.csv", Body=CSV)
    cloud.claim(inputs={"flights": "s3://landing/2013-01.csv"})
    narrower = settings(paths=PathPolicy(data_bucket=BUCKET), jobs=("sql",))
    assert make_attempt(settings=narrower).run() is ExitCode.OK
