"""One job becomes a request for each month."""

from typing import Any

import months


def test_months_emits_a_request_for_each_month(make_job: Any, emitted: Any) -> None:
    params = months.Params(year=2013, source="s3://data/raw/flights-{year}-{month}.csv")
    job = make_job({}, params, stage="months")

    months.run(None, job)  # type: ignore[arg-type]  # no Spark is used

    found = [request["inputs"] for request in emitted(job)["clean"]]
    assert found[0] == {"flights": "s3://data/raw/flights-2013-01.csv"}
    assert (len(found), found[-1]) == (12, {"flights": "s3://data/raw/flights-2013-12.csv"})
