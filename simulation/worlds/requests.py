"""The requests that producers send and that jobs emit."""

import json
from hashlib import sha256
from typing import Any

from simulation.worlds.plan import Job
from simulation.worlds.stages import CLEAN, JOINS, SUM

PRODUCERS_JOB = "flights_clean"
OWN_OUTPUT = "own"
"""The input of a job that compacts its output."""

BESIDE = ("report/", "beside/")
"""Where the outputs beside `out/` go: their paths are after it, or before it."""
DATABASE = "longhaul"
"""The stack's own, for tables."""

FORGED = "forged"
"""A parameter of requests that claim to follow from another job, and do not."""


def _text(value: str) -> dict[str, str]:
    return {"DataType": "String", "StringValue": value}


_HOSTILE_ATTRIBUTES: tuple[dict[str, Any], ...] = (
    {"longhaul_first_sent": _text("9" * 400)},
    {"longhaul_renews": _text("[" * 9_000)},
    {f"of-the-producer-{n}": _text("x") for n in range(6)},
    {"job_id": _text("of-the-producer"), "longhaul": _text("no JSON")},
)
_HOSTILE_LINEAGES: tuple[Any, ...] = (
    {"root": "", "parent": "main#j0"},
    {"root": "main#j0", "parent": "no key"},
    {
        "root": "main#j0",
        "parent": "main#j0",
        "groups": [{"of": "main#j0", "run": int("9" * 4_000), "n": 0, "size": 1}],
    },
    {
        "root": "main#j0",
        "parent": "main#j0",
        "groups": [{"of": "main#j0", "run": 1, "n": 0, "size": 10**9}],
    },
)
_FORGED: tuple[tuple[str, int | str, bool], ...] = (
    (CLEAN, "beyond", False),
    (CLEAN, 0, False),
    (SUM, "join", False),
    (SUM, "join", True),
    (SUM, "join", True),
)
SEALED = 4
"""The forged request of who has read the seal in a follow-on, as any reader of its queue can."""
INVALID_BODIES = ("not JSON", "[1, 2]", '{"size": 7}', '{"job": "nobody-knows-it"}')
"""No JSON, no object, no request, and a request that no settings allow."""


def body_of(job: Job, work: int, bucket: str) -> str:
    """A producer's request."""
    request: dict[str, Any] = {
        "job": PRODUCERS_JOB,
        "inputs": {"flights": f"s3://{bucket}/raw/{job.name}.csv"},
        "output": _output_of(job, bucket),
        "params": {"name": job.name, "work": work},
    }
    request |= _beside(job, bucket)
    if job.named:
        request["job_id"] = job.name
    if job.compacts:
        request["inputs"][OWN_OUTPUT] = request["output"]
    request |= {"label": f"label of {job.name}", "tags": {"job": job.name}}
    return json.dumps(request | _wishes(job))


def hostile_of(job: Job, variant: int, bucket: str) -> tuple[str, dict[str, Any]]:
    """A request whose sender means harm, and its attributes.

    The even variants are the job's own request, with attributes that resemble ours. The odd ones
    have a lineage that no job has, and can never run.
    """
    kind = variant // 2
    if variant % 2 == 0:
        return body_of(job, 0, bucket), _HOSTILE_ATTRIBUTES[kind % len(_HOSTILE_ATTRIBUTES)]
    request = json.loads(body_of(job, 0, bucket)) | {"job_id": f"hostile-{variant}"}
    request["params"] = {FORGED: variant}
    request["lineage"] = _HOSTILE_LINEAGES[kind % len(_HOSTILE_LINEAGES)]
    return json.dumps(request), {}


def forged_of(job: Job, variant: int, row: Any, bucket: str) -> tuple[str, str]:
    """A stage and a request that claims to follow from a job, by who knows the job's row by sight.

    A place that was not emitted, a place of a group of another size, a member without the seal, a
    join with inputs of its own, a join before its time, and that with the seal.
    """
    key, run = row["key"]["S"], int(row["run"]["N"])
    size = job.fan_out or 0
    opens = [join["S"] for join in row.get("opens", {"L": []})["L"]]
    lineage: dict[str, Any] = {"root": key, "parent": key, "run": run}
    stage, n, inputs_ref = _FORGED[variant % len(_FORGED)]
    if stage == SUM and opens:
        (stage, *_) = opens
    place = {"size": size, "beyond": size}.get(str(n), n)
    digest = sha256(f"{key}\n{place}".encode()).hexdigest()[:20]
    job_id = f"{key.partition('#')[2]}/{stage}/{digest}"
    group = {"of": key, "run": run, "n": 0, "size": 1}
    if stage not in JOINS:
        group |= {"n": place, "size": size + (1 if n == "beyond" else 0) or 1}
    if opens:
        group["opens"] = opens
    if opens or stage not in JOINS:
        lineage["groups"] = [group]
    if inputs_ref:
        digest = sha256(f"{stage}#{job_id}".encode()).hexdigest()[:20]
        lineage |= {"run": 0, "inputs_ref": f"longhaul/joined/{digest}-0.json"}
    if variant == SEALED:
        lineage["seal"] = json.loads(row["output"]["S"])["seal"]
    request = {
        "job": PRODUCERS_JOB,
        "job_id": job_id,
        "inputs": {"clean_00000": f"s3://{bucket}/raw/forged.csv"},
        "output": f"s3://{bucket}/out/forged/",
        "params": {FORGED: variant},
        "lineage": lineage,
    }
    return stage, json.dumps(request)


def emitted_of(job: Job, bucket: str) -> dict[str, Any]:
    """A request that another job emits; the stage adds `job`, and mostly `output`."""
    request: dict[str, Any] = {
        "inputs": {"flights": f"s3://{bucket}/raw/{job.name}.csv"},
        "params": {"name": job.name, "work": 0},
    }
    if job.output or job.output_bytes or job.table:
        request["output"] = _output_of(job, bucket)
    return request | _beside(job, bucket) | _wishes(job)


def _beside(job: Job, bucket: str) -> dict[str, Any]:
    """The output beside the main one. Its path is after that of the main one, or before it."""
    if not job.beside:
        return {}
    folder = BESIDE[job.files % 2]
    return {"outputs": {"report": f"s3://{bucket}/{folder}{job.name}/"}}


def _output_of(job: Job, bucket: str) -> str:
    if job.table:
        return f"table://{DATABASE}/{job.table}"
    key = f"out/{job.output or job.name}"
    return f"s3://{bucket}/{key.ljust(job.output_bytes - 1, 'x')}/"


def corrected_of(job: Job, work: int, bucket: str, job_id: str) -> str:
    """A request by hand under the id of a job that died, without the lineage and the names."""
    request = json.loads(body_of(job, work, bucket)) | {"job_id": job_id}
    del request["label"], request["tags"]
    return json.dumps(request)


def _wishes(job: Job) -> dict[str, Any]:
    wishes: dict[str, Any] = {}
    if job.mode != "overwrite":
        wishes["mode"] = job.mode
    for name, seconds in (("timeout", job.timeout_s), ("stall_timeout", job.stall_timeout_s)):
        if seconds is not None:
            wishes[name] = f"{seconds}s"
    if job.max_attempts is not None:
        wishes["max_attempts"] = job.max_attempts
    if job.size:
        wishes["size"] = job.size
    if job.engine:
        wishes["engine"] = job.engine
    return wishes
