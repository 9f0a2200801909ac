import json
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from longhaul.cli import extras
from longhaul.cli.checks.account import denied_resources
from longhaul.cli.checks.finding import Level
from longhaul.cli.checks.jobs import Stuck, stuck
from longhaul.cli.checks.versions import OUTPUT, versions
from longhaul.cli.target import Target
from longhaul.config.project_file import VARIABLE
from longhaul.config.version import version
from longhaul.domain.lease import Owed, State
from longhaul.domain.verdict import OutcomeClass
from longhaul.operations.stack import Deployment
from longhaul.settings import LeaseSettings
from simulation.aws.service import Call, Proceed, client_error
from tests.builders import NOW, running
from tests.cli.conftest import PLACE, World

TEMPLATE: dict[str, Any] = {
    "Resources": {"Queue": {"Type": "AWS::SQS::Queue", "Properties": {"VisibilityTimeout": 120}}}
}


@pytest.fixture(autouse=True)
def synthesized(monkeypatch: pytest.MonkeyPatch, bare: World) -> dict[str, Any]:
    """The template of the checkout. An e2e test synthesizes the real one, which takes long."""
    template: dict[str, Any] = json.loads(json.dumps(TEMPLATE))

    def synth(
        folder: Path, *, profile: Path | None, context: dict[str, Any], project: Path | None
    ) -> Path:
        assert profile is None
        assert project is None
        (folder / f"{context['longhaul']['stack_name']}.template.json").write_text(
            json.dumps(template)
        )
        return folder

    monkeypatch.setattr("longhaul.cli.checks.stack.synth", synth)
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    monkeypatch.setattr("longhaul.cli.checks.docker.run", lambda _: "28.2.2")
    bare.deploy(template=TEMPLATE)
    bare.aws.ecs.register_task_definition(
        family="Longhaul-small", containerDefinitions=[{"name": "job"}]
    )
    return template


def examine(world: World, *arguments: str) -> tuple[int, dict[str, list[str]]]:
    """The exit code, and the findings by level."""
    base = json.dumps({"python_image": f"python@sha256:{'0' * 64}"})
    done = world.run("check", "--json", "-c", f"longhaul={base}", *arguments)
    found: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        finding = json.loads(line)
        found.setdefault(finding["level"], []).append(finding["what"])
        assert finding["level"] in ("ok", "skipped") or finding["do"]
    return done.exit_code, found


def test_a_sound_deployment_has_only_ok_findings(bare: World) -> None:
    code, found = examine(bare)
    assert (code, set(found)) == (0, {"ok"}), found
    assert bare.aws.iam.simulated[0] == "arn:aws:iam::123456789012:role/path/Operator"


def test_it_says_what_the_jobs_of_a_stage_may_do(bare: World) -> None:
    managed = {"Fn::Join": ["", ["arn:", {"Ref": "AWS::Partition"}, ":iam::1:policy/readers"]]}
    statements = [
        {"Effect": "Allow", "Action": "ssm:GetParameter", "Resource": "arn:aws:ssm:x"},
        {"Effect": "Deny", "Action": ["s3:GetObject"], "Resource": "arn:aws:s3:::x/*"},
    ]
    others = {"Effect": "Allow", "Action": "kms:Decrypt", "Resource": "*"}
    roles = {
        "SparkTaskRoleF5D82B02": {
            "Type": "AWS::IAM::Role",
            "Properties": {"ManagedPolicyArns": [managed]},
        },
        # Of another stage, whose name ends alike.
        "CatchMainPolicies0123ABCD": {
            "Type": "AWS::IAM::Policy",
            "Properties": {"PolicyDocument": {"Statement": [others]}},
        },
        "MainPolicies0123ABCD": {
            "Type": "AWS::IAM::Policy",
            "Properties": {"PolicyDocument": {"Statement": statements}},
        },
    }
    bare.deploy(template={"Resources": {**TEMPLATE["Resources"], **roles}})

    _, found = examine(bare)

    (said,) = (each for each in found["ok"] if each.startswith("rights: stage main"))
    assert said.startswith("rights: stage main reads s3://")
    assert "; writes s3://" in said
    assert said.endswith("; may ssm:GetParameter; may never s3:GetObject; has readers")


@pytest.mark.parametrize(
    ("deployed", "project", "said"),
    [
        (None, None, ["the stack does not say which version deployed it"]),
        ("0.0.9", None, ["the stack was deployed by 0.0.9"]),
        (version(), 'version = "0.0.8"', ["longhaul.toml is for 0.0.8"]),
        (version(), "", ["longhaul.toml names no version"]),
        ("0.0.9", 'version = "0.0.8"', ["longhaul.toml is for 0.0.8", "deployed by 0.0.9"]),
    ],
)
def test_other_versions_of_stack_and_project_are_warnings_that_say_what_to_do(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    deployed: str | None,
    project: str | None,
    said: list[str],
) -> None:
    target = Target(PLACE, None)
    outputs = {OUTPUT: deployed} if deployed else {}
    monkeypatch.setattr(Target, "deployment", Deployment("Longhaul", "CREATE_COMPLETE", outputs))
    if project is not None:
        (tmp_path / "longhaul.toml").write_text(project)
        monkeypatch.setenv(VARIABLE, str(tmp_path))
    found = list(versions(target))
    assert [each.level for each in found] == [Level.WARNING] * len(said)
    assert all(words in each.what for words, each in zip(said, found, strict=True))


def test_a_letter_whose_job_has_succeeded_since_is_no_problem(bare: World) -> None:
    bare.bury("a")
    bare.end(bare.claim("a"), OutcomeClass.SUCCEEDED)

    _, found = examine(bare)

    assert "dead letters: none of stage main" in found["ok"]


@pytest.mark.parametrize(
    ("spoil", "level", "said"),
    [
        (
            lambda w: w.aws.iam.denied.add("sqs:SendMessage"),
            "problem",
            "sqs:SendMessage on arn:aws:sqs",
        ),
        (
            lambda w: w.aws.iam.denied.add("logs:FilterLogEvents"),
            "problem",
            "logs:FilterLogEvents on arn:aws:logs",
        ),
        (
            lambda w: w.aws.quotas.quotas.update({"Fargate On-Demand vCPU resource count": 6.0}),
            "warning",
            "6 Fargate",
        ),
        (lambda w: w.aws.quotas.quotas.clear(), "skipped", "the service does not say"),
        (
            lambda w: setattr(w.aws.lambda_, "concurrency", 10),
            "warning",
            "10 Lambda functions at once",
        ),
        (lambda w: w.aws.lambda_.mappings[0].update(State="Disabled"), "problem", "no job starts"),
        (
            lambda w: w.aws.lambda_.mappings[0].pop("FunctionResponseTypes"),
            "problem",
            "deletes messages of running jobs",
        ),
        (lambda w: w.aws.lambda_.mappings.clear(), "problem", "0 mappings read the queue"),
        (
            lambda w: w.aws.events.rules.update({"Longhaul-Sweep": "DISABLED"}),
            "problem",
            "rules are off: Longhaul-Sweep",
        ),
        (lambda w: w.aws.cloudwatch.sweeps.clear(), "problem", "no sweep in the last 20m"),
        (
            lambda w: w.aws.cloudwatch.ringing.update({"Longhaul-SweeperStopped": "stopped"}),
            "problem",
            "alarms: stopped",
        ),
        (
            lambda w: w.aws.ssm.parameters.clear(),
            "warning",
            "bootstrap: this account in us-east-1 has none",
        ),
        (
            lambda w: setattr(w.aws.iam, "ecs_used", False),
            "warning",
            "no role AWSServiceRoleForECS",
        ),
        (lambda w: w.bury("a"), "warning", "dead letters: 1 of stage main"),
        (
            lambda w: (w.bury("a"), w.clock.advance(11 * 86_400)),
            "problem",
            "SQS drops the oldest in 3d",
        ),
        (
            lambda w: (w.claim("a"), w.clock.advance(3_600)),
            "problem",
            "without a beat for long: a",
        ),
        (
            lambda w: w.deploy(status="UPDATE_ROLLBACK_COMPLETE", template=TEMPLATE),
            "warning",
            "UPDATE_ROLLBACK_COMPLETE",
        ),
        (
            lambda w: w.deploy(template={"Resources": {}}),
            "warning",
            "1 difference to this checkout: Queue is only here",
        ),
        (
            lambda w: w.deploy(
                template={"Resources": {"Queue": {"Properties": {"VisibilityTimeout": 30}}}}
            ),
            "warning",
            "Queue: VisibilityTimeout",
        ),
    ],
)
def test_each_problem_is_found(bare: World, spoil: Any, level: str, said: str) -> None:
    spoil(bare)
    code, found = examine(bare)
    assert any(said in what for what in found.get(level, [])), found
    assert code == (1 if "problem" in found else 0)


@pytest.mark.parametrize(
    ("result", "denied"),
    [
        (
            {
                "EvalDecision": "implicitDeny",
                "EvalResourceName": "arn:${Partition}:sqs:${Region}:${Account}:${QueueName}",
                "ResourceSpecificResults": [
                    {"EvalResourceName": "arn:a", "EvalResourceDecision": "allowed"},
                    {"EvalResourceName": "arn:b", "EvalResourceDecision": "explicitDeny"},
                ],
            },
            ["arn:b"],
        ),
        ({"EvalDecision": "implicitDeny", "EvalResourceName": "arn:a"}, ["arn:a"]),
        ({"EvalDecision": "implicitDeny"}, ["*"]),
        ({"EvalDecision": "allowed"}, []),
    ],
)
def test_the_denied_resources_are_those_of_the_results_inside(
    result: dict[str, Any], denied: list[str]
) -> None:
    assert denied_resources(result) == denied


def test_code_that_the_embedded_aws_takes_up_by_itself_is_no_difference(
    bare: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def template(sha: str, seconds: int) -> dict[str, Any]:
        properties = {"Image": f"assets:{sha * 64}", "Timeout": seconds}
        return {"Resources": {"Job": {"Properties": properties}}}

    def local_synth(folder: Path) -> Path:
        (folder / "Longhaul.template.json").write_text(json.dumps(template("b", 3)))
        return folder

    here = replace(PLACE, endpoint="http://127.0.0.1:1", embedded=True)
    monkeypatch.setattr("longhaul.cli.target.locate", lambda *_: here)
    monkeypatch.setattr("longhaul.cli.checks.stack.local_synth", local_synth)
    bare.deploy(template=template("a", 3))
    assert "template: the stack is the one of this checkout" in examine(bare)[1]["ok"]
    bare.deploy(template=template("a", 4))
    assert "Job: Timeout" in examine(bare)[1]["warning"][0]


def test_job_that_the_embedded_aws_takes_up_by_itself_is_no_difference(
    bare: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def template(jobs: list[str], beat: int) -> dict[str, Any]:
        settings = json.dumps({"jobs": jobs, "beat": beat}, separators=(",", ":"))
        environment = {"Variables": {"Fn::Join": ["", [settings, {"Ref": "Table"}]]}}
        return {"Resources": {"Dispatcher": {"Properties": {"Environment": environment}}}}

    def local_synth(folder: Path) -> Path:
        (folder / "Longhaul.template.json").write_text(json.dumps(template(["new", "sql"], 2)))
        return folder

    here = replace(PLACE, endpoint="http://127.0.0.1:1", embedded=True)
    monkeypatch.setattr("longhaul.cli.target.locate", lambda *_: here)
    monkeypatch.setattr("longhaul.cli.checks.stack.local_synth", local_synth)
    bare.deploy(template=template(["sql"], 2))
    assert "template: the stack is the one of this checkout" in examine(bare)[1]["ok"]
    bare.deploy(template=template(["sql"], 3))
    assert "Dispatcher: Environment" in examine(bare)[1]["warning"][0]


def test_without_the_cdk_the_template_is_not_compared_and_the_extra_is_named(
    bare: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda name: name != "aws_cdk" or None)
    code, found = examine(bare)
    assert code == 0
    assert any("pip install 'longhaul-jobs[deploy]'" in each for each in found["skipped"])


def test_sweeps_are_counted_in_the_namespace_of_the_stack(bare: World) -> None:
    bare.settings = bare.settings.model_copy(update={"metrics_namespace": "Night"})
    bare.deploy("Night", template=TEMPLATE)
    bare.aws.ecs.register_task_definition(
        family="Night-small", containerDefinitions=[{"name": "job"}]
    )
    bare.aws.cloudwatch.sweeps = {"Night": 4.0}
    code, found = examine(bare, "--stack", "Night")
    assert (code, set(found)) == (0, {"ok", "skipped"}), found
    assert found["skipped"] == ["deployment: the settings here are not those of the stack Night"]


def test_a_check_that_is_denied_is_skipped_and_the_others_run(bare: World) -> None:
    def around(call: Call, proceed: Proceed) -> dict[str, Any]:
        if call.service in ("iam", "service-quotas", "cloudwatch"):
            raise client_error("AccessDenied", "you may not", call.operation, status=403)
        return proceed()

    bare.aws.gate.around = around
    code, found = examine(bare)
    assert code == 0
    assert len(found["skipped"]) == 6
    assert all("you may not" in what for what in found["skipped"])
    assert any(what.startswith("template:") for what in found["ok"])


def test_a_lease_that_three_sweeps_have_left_is_stuck() -> None:
    numbers, late = LeaseSettings(), NOW + timedelta(hours=1)
    overdue = running(key="main#overdue", lease_expires_at=NOW)
    kept = running(key="main#kept", lease_expires_at=late)
    owing = running(key="main#owing", state=State.DEAD, owed=(Owed.DELETE,), settled_at=NOW)
    waiting = running(key="main#waiting", state=State.RELEASED, retry_at=NOW)
    rows = [overdue, kept, owing, waiting]

    def seen(now: datetime) -> list[Stuck | None]:
        return [stuck(row, numbers, now) for row in rows]

    assert seen(late) == [Stuck.OVERDUE, None, Stuck.OWING, None]
    assert seen(NOW + timedelta(hours=7))[3] is Stuck.MISSING
    assert seen(NOW + timedelta(minutes=5)) == [None] * 4
    assert stuck(replace(owing, owed=()), numbers, late) is None
