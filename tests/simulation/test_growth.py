"""What a job costs does not rise with the number of jobs beside it."""

from benchmarks.growth import grown


def test_a_job_among_many_makes_no_more_calls() -> None:
    few, many = ({name: n / jobs for name, n in grown(jobs)[0].items()} for jobs in (10, 40))

    assert 50 < sum(many.values()) <= sum(few.values())
    assert many["dynamodb.BatchGetItem"] < few["dynamodb.BatchGetItem"]
    assert many["ecs.ListTasks"] < few["ecs.ListTasks"] / 2
