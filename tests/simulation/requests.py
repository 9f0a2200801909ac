"""What is asked for: the requests that producers send, and those that jobs emit."""

import json
from typing import Any

from tests.simulation.plan import Job

INVALID_BODIES = ("not JSON", "[1, 2]", '{"job": "nobody-knows-it"}')


def body_of(job: Job, work: int, bucket: str) -> str:
    """The request that a producer sends."""
    request: dict[str, Any] = {
        "job": "flights_clean",
        "inputs": {"flights": f"s3://{bucket}/raw/{job.name}.csv"},
        "output": f"s3://{bucket}/out/{job.output or job.name}/",
        "params": {"name": job.name, "work": work},
    }
    if job.named:
        request["job_id"] = job.name
    return json.dumps(request | _wishes(job))


def emitted_of(job: Job, bucket: str) -> dict[str, Any]:
    """The request that another job emits: `job`, and mostly `output`, are left to the stage."""
    request: dict[str, Any] = {
        "inputs": {"flights": f"s3://{bucket}/raw/{job.name}.csv"},
        "params": {"name": job.name, "work": 0},
    }
    if job.output:
        request["output"] = f"s3://{bucket}/out/{job.output}/"
    return request | _wishes(job)


def corrected_of(job: Job, work: int, bucket: str, job_id: str) -> str:
    """What somebody sends by hand under the id of a job that died: its lineage they do not know."""
    return json.dumps(json.loads(body_of(job, work, bucket)) | {"job_id": job_id})


def _wishes(job: Job) -> dict[str, Any]:
    wishes: dict[str, Any] = {}
    if job.mode != "overwrite":
        wishes["mode"] = job.mode
    for name, seconds in (("timeout", job.timeout_s), ("stall_timeout", job.stall_timeout_s)):
        if seconds is not None:
            wishes[name] = f"{seconds}s"
    if job.max_attempts is not None:
        wishes["max_attempts"] = job.max_attempts
    return wishes
