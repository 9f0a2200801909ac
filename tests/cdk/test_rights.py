"""What each of two stages may do: nothing of the other's, as AWS's policies say it."""

import json
from pathlib import Path
from typing import Any, Final

import pytest
from pydantic import JsonValue

from longhaul.config.errors import SettingsError
from longhaul.core.lease import AttemptId, emitted_ref, job_key, request_ref
from longhaul.local.iam.judge import Judge
from longhaul.outputs.pending import pending_ref
from longhaul.saved.record import job_prefix
from tests.cdk.roles import Roles, Use
from tests.cdk.synthesis import Synthesis, synthesize
from tests.projects import checked
from tests.synthesized import once

HELPER: Final = "arn:aws:lambda:us-east-1:123456789012:function:helper"
THEIRS: Final = "arn:aws:iam::123456789012:role/team/crunching"
STAGES: Final[JsonValue] = [
    {
        "name": "main",
        "next": ["clean"],
        "advanced": {"limits": {"input_prefixes": ["s3://raw/"], "output_prefixes": ["parsed/"]}},
    },
    {
        "name": "clean",
        "job": "flights_clean",
        "advanced": {
            "limits": {
                "jobs": ["flights_clean"],
                "input_prefixes": ["reference/"],
                "output_prefixes": [
                    "s3://lake/clean/",
                    "stages/clean/",
                    "tables/longhaul/flights/",
                ],
            },
            "policies": [
                {"Effect": "Allow", "Action": "lambda:InvokeFunction", "Resource": HELPER},
                {
                    "Effect": "Deny",
                    "Action": ["s3:GetObject"],
                    "Resource": ["arn:aws:s3:::lake/clean/x*"],
                },
            ],
            "managed_policies": [
                "arn:aws:iam::aws:policy/AWSXRayDaemonWriteAccess",
                "team/readers",
            ],
        },
    },
    {"name": "crunch", "advanced": {"role": THEIRS}},
    {"name": "open"},
    {
        "name": "greedy",
        "advanced": {"policies": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]},
    },
]
SETTINGS: Final[dict[str, JsonValue]] = {
    "stages": STAGES,
    "input_buckets": ["raw"],
    "output_buckets": ["lake"],
    "job_prefixes": ["jobs/"],
    "emr_serverless": {},
    "sizes": {"tiny": {}},
}
MOST_STAGES: Final = 11
"""As docs/stages.md says; the settings of more do not fit a function's environment."""
READ, WRITE = ("s3:GetObject",), ("s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload")
ROLES: Final = ("Spark{}TaskRole", "Lambda{}JobRole", "EmrServerless{}JobRole")
TABLE: Final = "arn:aws:glue:us-east-1:123456789012:table/longhaul/{}"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Synthesis:
    return Synthesis(
        once(tmp_path_factory, "stages-apart", lambda folder: synthesize(folder, SETTINGS))
    )


@pytest.fixture(scope="module")
def roles(stack: Synthesis) -> Roles:
    return Roles(stack.template)


def _of(stage: str) -> list[str]:
    return [f"<{each.format('' if stage == 'Main' else stage)}.Arn>" for each in ROLES]


def _own(stage: str) -> list[str]:
    """What Longhaul keeps for a job of the stage, below `longhaul/`."""
    key = job_key(stage.lower(), "january/part")
    attempt = AttemptId(key, 5, 2)
    return [pending_ref(attempt), emitted_ref(attempt), f"{job_prefix(key)}5-2/0/0"]


def _data(*keys: str) -> list[str]:
    return [f"<Data.Arn>/{key}" for key in keys]


@pytest.mark.parametrize(
    ("stage", "actions", "places"),
    [
        ("Main", READ, ["arn:aws:s3:::raw/a.csv", *_data("parsed/a", "jobs/x.py")]),
        ("Main", WRITE, _data("parsed/a", *_own("main"))),
        ("Main", READ, _data(request_ref("main#a", "m-1"), "longhaul/joined/0af.json")),
        # The stage before it wrote there, and leads to it.
        ("Clean", READ, _data("parsed/a", "reference/a", *_own("clean"))),
        ("Clean", WRITE, ["arn:aws:s3:::lake/clean/a", *_data("stages/clean/a", *_own("clean"))]),
        # Without limits, all that the settings of the stack open.
        ("Open", READ, ["arn:aws:s3:::raw/a.csv", "arn:aws:s3:::lake/a", *_data("parsed/a")]),
        ("Open", WRITE, ["arn:aws:s3:::lake/a", *_data("parsed/a", *_own("open"))]),
    ],
)
def test_a_stage_may_use_what_its_limits_and_the_stages_before_it_name(
    roles: Roles, judge: Judge, stage: str, actions: tuple[str, ...], places: list[str]
) -> None:
    uses = [Use(who, actions, place, "") for who in _of(stage) for place in places]
    assert [use for use in uses if roles.refused(judge, roles.named(use))] == []


@pytest.mark.parametrize(
    ("stage", "actions", "places"),
    [
        ("Main", READ, ["arn:aws:s3:::lake/clean/a", *_data("reference/a", "stages/clean/a")]),
        ("Main", WRITE, ["arn:aws:s3:::raw/a", "arn:aws:s3:::lake/a", *_data("other/a", "parsed")]),
        ("Main", (*READ, *WRITE), _data(*_own("clean"), *_own("open"))),
        ("Main", READ, _data(request_ref("clean#a", "m-1"))),
        ("Main", WRITE, _data(request_ref("main#a", "m-1"), "longhaul/joined/0af.json")),
        ("Clean", READ, ["arn:aws:s3:::raw/a.csv", *_data("jobs/x.py")]),
        # Read alone, though the stage before it writes there.
        ("Clean", WRITE, _data("parsed/a", "reference/a", "stages/other/a")),
        ("Clean", (*READ, *WRITE), _data(*_own("main"))),
        # No limits, but never what Longhaul keeps for others.
        ("Open", (*READ, *WRITE), _data(*_own("main"), *_own("clean"), *_own("crunch"))),
        ("Open", READ, _data(request_ref("clean#a", "m-1"))),
    ],
)
def test_a_stage_may_use_nothing_of_anothers(
    roles: Roles, judge: Judge, stage: str, actions: tuple[str, ...], places: list[str]
) -> None:
    uses = [Use(who, actions, place, "") for who in _of(stage) for place in places]
    wrong = [use for use in uses if roles.refused(judge, roles.named(use)) != [*use.actions]]
    assert wrong == []


def test_a_stage_reports_to_rows_of_its_own_jobs_alone(roles: Roles, judge: Judge) -> None:
    def report(who: str, key: str) -> Use:
        context = {"dynamodb:LeadingKeys": [key], "dynamodb:Attributes": ["progress"]}
        return Use(who, ("dynamodb:UpdateItem",), "<LeasesTable.Arn>", "", {**context})

    for who in _of("Clean"):
        assert roles.refused(judge, roles.named(report(who, "clean#a"))) == []
        for key in ("main#a", "cleaner#a", "slots#clean", "join#clean"):
            assert roles.refused(judge, roles.named(report(who, key))) == ["dynamodb:UpdateItem"]


# S3 asks for these alone where a call names a version (`null` where a bucket keeps none), an ACL or
# tags: no right to `GetObject` or `DeleteObject` counts there.
READ_OTHERWISE: Final = (
    *("s3:GetObjectVersion", "s3:GetObjectAcl", "s3:GetObjectTagging"),
    "s3:ListMultipartUploadParts",
)
WRITE_OTHERWISE: Final = (
    *("s3:DeleteObjectVersion", "s3:PutObjectAcl", "s3:PutObjectTagging"),
    "s3:DeleteObjectTagging",
)


def test_no_statement_opens_what_longhaul_keeps_for_another_stage(
    roles: Roles, judge: Judge
) -> None:
    whole = (*READ, *WRITE, *READ_OTHERWISE, *WRITE_OTHERWISE)
    kept = _data(*_own("clean"), request_ref("clean#a", "m-1"))
    uses = [Use(who, whole, place, "") for who in _of("Greedy") for place in kept]
    wrong = [use for use in uses if roles.refused(judge, roles.named(use)) != [*whole]]
    assert wrong == []
    own = Use(_of("Greedy")[0], whole, _data(*_own("greedy"))[0], "")
    assert roles.refused(judge, roles.named(own)) == []


def test_no_statement_lets_a_job_change_code_requests_or_the_inputs_of_joins(
    roles: Roles, judge: Judge
) -> None:
    whole = (*WRITE, *WRITE_OTHERWISE)
    places = _data("jobs/x.py", request_ref("greedy#a", "m-1"), "longhaul/joined/0af.json")
    uses = [Use(who, whole, place, "") for who in _of("Greedy") for place in places]
    wrong = [use for use in uses if roles.refused(judge, roles.named(use)) != [*whole]]
    assert wrong == []


def test_tables_are_those_below_the_prefixes_of_the_stage(stack: Synthesis) -> None:
    def tables(role: str, action: str) -> set[str]:
        found = stack.grants(role).get(f"glue:{action}", set())
        return {each.rpartition(":table/")[2] for each in found if ":table/" in each}

    assert tables("SparkCleanTaskRole", "UpdateTable") == {"longhaul/flights"}
    assert tables("SparkCleanTaskRole", "GetTable") == {"longhaul/flights"}
    assert tables("SparkTaskRole", "GetTable") == set()
    assert tables("SparkOpenTaskRole", "CreateTable") == {"longhaul/*"}


def test_what_the_settings_add_is_of_that_stage_alone_on_every_engine(
    stack: Synthesis, roles: Roles, judge: Judge
) -> None:
    def refused(who: str, action: str, resource: str) -> list[str]:
        return roles.refused(judge, roles.named(Use(who, (action,), resource, "")))

    for who in _of("Clean"):
        assert refused(who, "lambda:InvokeFunction", HELPER) == []
        assert refused(who, "s3:GetObject", "arn:aws:s3:::lake/clean/x1") == ["s3:GetObject"]
    for who in (*_of("Main"), *_of("Open")):
        assert refused(who, "lambda:InvokeFunction", HELPER) == ["lambda:InvokeFunction"]
    managed = {
        name: [each.replace("<AWS::Partition>", "aws") for each in role["ManagedPolicyArns"]]
        for name, role in stack.resources("AWS::IAM::Role").items()
        if "ManagedPolicyArns" in role
    }
    both = [
        "arn:aws:iam::aws:policy/AWSXRayDaemonWriteAccess",
        "arn:aws:iam::<AWS::AccountId>:policy/team/readers",
    ]
    assert managed == {name.format("Clean"): both for name in ROLES}


def _job_branch(stack: Synthesis) -> dict[str, Any]:
    return stack.definition["States"]["RunUnderLease"]["Branches"][0]


def test_the_machine_gives_each_stage_what_is_its_own(stack: Synthesis) -> None:
    branch = _job_branch(stack)
    states = branch["States"]
    assert branch["StartAt"] == "Rights"
    assert states["Rights"]["Choices"][1] == {
        "Variable": "$.stage",
        "StringEquals": "clean",
        "Next": "CleanRights",
    }
    assert states[states["Rights"]["Default"]]["Type"] == "Fail"
    assert states["CleanRights"] == {
        "Type": "Pass",
        "Result": {
            "task_role": "<SparkCleanTaskRole.Arn>",
            "function": "<LambdaCleanFunction.Arn>",
            "job_run_role": "<EmrServerlessCleanJobRole.Arn>",
        },
        "ResultPath": "$.rights",
        "Next": "Engine",
    }


def test_the_function_of_a_stage_has_its_role(stack: Synthesis) -> None:
    functions = stack.resources("AWS::Lambda::Function")
    assert {name: each["Role"] for name, each in functions.items() if "ImageConfig" in each} == {
        "LambdaFunction": "<LambdaJobRole.Arn>",
        "LambdaCleanFunction": "<LambdaCleanJobRole.Arn>",
        "LambdaCrunchFunction": THEIRS,
        "LambdaOpenFunction": "<LambdaOpenJobRole.Arn>",
        "LambdaGreedyFunction": "<LambdaGreedyJobRole.Arn>",
    }


def test_the_machine_passes_the_roles_of_stages_alone(stack: Synthesis) -> None:
    passed = {
        statement["Condition"]["StringEquals"]["iam:PassedToService"]: set(statement["Resource"])
        for statement in stack.statements("WorkflowRole")
        if statement["Action"] == "iam:PassRole"
    }
    stages = ("", "Clean", "Open", "Greedy")
    assert passed == {
        "ecs-tasks.amazonaws.com": {
            *(f"<Spark{each}TaskRole.Arn>" for each in stages),
            "<SparkExecutionRole.Arn>",
            THEIRS,
        },
        "emr-serverless.amazonaws.com": {
            *(f"<EmrServerless{each}JobRole.Arn>" for each in stages),
            THEIRS,
        },
    }


def test_a_role_of_the_teams_own_stays_as_it_is(stack: Synthesis) -> None:
    assert _job_branch(stack)["States"]["CrunchRights"]["Result"] == {
        "task_role": THEIRS,
        "function": "<LambdaCrunchFunction.Arn>",
        "job_run_role": THEIRS,
    }
    policies = stack.resources("AWS::IAM::Policy").values()
    assert THEIRS.rpartition("/")[2] not in json.dumps([each["Roles"] for each in policies])
    made = stack.resources("AWS::IAM::Role")
    assert [name for name in made if "Crunch" in name] == ["SchedulingCrunchRole"]
    # Of a role that it may not change, the CDK would let the whole account write the log, and of
    # these policies an account has ten.
    assert stack.resources("AWS::Logs::ResourcePolicy") == {}


def _stage(**settings: JsonValue) -> dict[str, JsonValue]:
    return {"stages": [{"name": "main", "advanced": settings}]}


_READING: dict[str, JsonValue] = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}


def _statement(**changed: JsonValue) -> dict[str, JsonValue]:
    whole = {**_READING, **changed}
    return _stage(policies=[{name: value for name, value in whole.items() if value is not None}])


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (_statement(Effect=None), r"stages\.0\.advanced\.policies\.0\.Effect: is missing"),
        (_statement(Action=None), r"policies\.0\.Action: is missing"),
        (_statement(Resource=None), r"policies\.0\.Resource: is missing"),
        (_statement(Effect="Permit"), r"policies\.0\.Effect: is \"Permit\""),
        (_statement(Action=[]), r"policies\.0\.Action: is \[\]"),
        (_statement(NotAction="s3:*"), "NotAction: is not a setting"),
        (_stage(role="crunching"), r"advanced\.role: is \"crunching\""),
        (_stage(role="arn:aws:iam::123456789012:user/me"), r"advanced\.role: is "),
        (_stage(managed_policies=["arn:aws:iam::123456789012:role/x"]), "managed_policies"),
        (_stage(managed_policies=[f"p{n}" for n in range(21)]), "managed_policies"),
        (
            _stage(role=THEIRS, managed_policies=["readers"]),
            "has a role of its own, which the stack does not change",
        ),
    ],
)
def test_rights_that_can_be_none_are_refused_at_synth(
    settings: dict[str, JsonValue], problem: str
) -> None:
    with pytest.raises(SettingsError, match=problem):
        checked(settings)


def test_as_many_stages_as_functions_can_know_fit_one_template(tmp_path: Path) -> None:
    def stages(count: int) -> dict[str, JsonValue]:
        policy: dict[str, JsonValue] = {
            "Effect": "Allow",
            "Action": "s3:GetObject",
            "Resource": "arn:aws:s3:::x/*",
        }
        return {
            "stages": [
                {"name": f"stage{n}", "advanced": {"policies": [policy]}} for n in range(count)
            ],
            "emr_serverless": {},
            "sizes": {"tiny": {}},
        }

    with pytest.raises(SettingsError, match="use fewer stages"):
        synthesize(tmp_path / "more", stages(MOST_STAGES + 1))
    most = synthesize(tmp_path / "most", stages(MOST_STAGES))

    # CloudFormation's limits of a template.
    assert len(most.template["Resources"]) < 500
    assert most.template_file.stat().st_size < 1_000_000
    # A role's own policies have 10,240 characters.
    for role in most.resources("AWS::IAM::Role"):
        assert len(json.dumps(most.statements(role), separators=(",", ":"))) < 10_240
