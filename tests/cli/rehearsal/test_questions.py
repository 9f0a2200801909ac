"""What a rehearsal asks AWS, against stubs that hold each call against the service's model."""

import json
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from botocore.parsers import ResponseParserError

from longhaul.cli.checks.finding import Level
from longhaul.cli.rehearsal import machine, patterns, policies, surroundings
from longhaul.cli.rehearsal.answer import Answer, Question
from longhaul.cli.rehearsal.rehearse import Assembly, answers, questions
from longhaul.cli.rehearsal.template import Template
from longhaul.cli.target import Target
from simulation.aws.clock import VirtualClock
from tests.cdk.conftest import GUARDED, WITH_ALL
from tests.cli.rehearsal.conftest import AwsError, Stubs, fail, plan_of, synthesized
from tests.layers import ROOT


def levels(found: list[Answer]) -> Counter[Level]:
    return Counter(each.level for each in found)


def all_questions(target: Target, template: Template, **settings: Any) -> list[Question]:
    assembly = Assembly(template, f"cdk-assets-{template.account}")
    plan = plan_of(target, **settings)
    return list(questions(plan, assembly, token="abc123", clock=VirtualClock(), warn=pytest.fail))


def only_problem(found: list[Answer]) -> Answer:
    (problem,) = [each for each in found if each.level is Level.PROBLEM]
    assert problem.do
    return problem


@pytest.mark.usefixtures("stubs")
def test_in_an_account_in_which_all_is_well_each_question_gets_a_good_answer(
    target: Target, with_all: Template
) -> None:
    settings = {"emr_serverless": {"max_vcpu": 40}, "permissions_boundary": "bound"}
    for question in all_questions(target, with_all, **settings):
        found = list(answers(question))

        assert set(levels(found)) == {Level.OK}, (question.name, found)


def test_a_question_that_the_caller_may_not_ask_is_not_asked_and_no_success(
    target: Target, template: Template, stubs: Stubs
) -> None:
    for name in stubs.answers:
        denied = "UnauthorizedOperation" if name.startswith("ec2.") else "AccessDeniedException"
        stubs.answers[name] = lambda _, code=denied: fail(code)

    for question in all_questions(target, template, permissions_boundary="bound"):
        found = list(answers(question))

        assert Level.OK not in levels(found), question.name
        assert Level.SKIPPED in levels(found), question.name
        assert any("ask with the rights" in each.do for each in found), question.name


def unreadable(_: Mapping[str, Any]) -> Any:
    raise ResponseParserError("Unable to parse response")


@pytest.mark.parametrize("answer", [lambda _: fail("InternalServerException"), unreadable])
def test_a_service_that_gives_no_answer_ends_no_rehearsal(
    target: Target, template: Template, stubs: Stubs, answer: Any
) -> None:
    stubs.answers["accessanalyzer.ValidatePolicy"] = answer
    (question,) = [each for each in all_questions(target, template) if each.name == "policies"]

    assert levels(list(answers(question))) == {Level.SKIPPED: 1}


def test_what_makes_something_says_so_and_what_reads_does_not(
    target: Target, template: Template
) -> None:
    makes = ("Create", "Put", "Delete", "Update", "Start", "Execute", "Run")
    for question in all_questions(target, template):
        made = [each for each in question.calls if each.partition(":")[2].startswith(makes)]
        assert bool(made) == bool(question.passing), question.name
        assert "cloudformation:ExecuteChangeSet" not in made


@pytest.mark.parametrize(("name", "settings"), [("with-all", WITH_ALL), ("guarded", GUARDED)])
def test_each_policy_definition_and_pattern_is_whole(
    tmp_path_factory: pytest.TempPathFactory, name: str, settings: dict[str, Any]
) -> None:
    template = synthesized(tmp_path_factory, name, settings)

    roles = list(template.roles())
    parts = json.dumps(
        [[role.trust, role.policies] for role in roles]
        + [each.document for each in template.resource_policies()]
        + [json.loads(text) for _, text in template.machines()]
        + [pattern for _, pattern in template.patterns()]
    )

    assert all(role.policies for role in roles)
    assert "Fn::" not in parts
    assert '"Ref"' not in parts


def test_access_analyzer_is_told_what_each_policy_is(
    target: Target, template: Template, stubs: Stubs
) -> None:
    list(policies.validated(target, template))

    kinds = Counter(
        (each["policyType"], each.get("validatePolicyResourceType"))
        for each in stubs.named("accessanalyzer.ValidatePolicy")
    )
    assert kinds == {
        ("IDENTITY_POLICY", None): 8,
        ("RESOURCE_POLICY", "AWS::IAM::AssumeRolePolicyDocument"): 8,
        ("RESOURCE_POLICY", "AWS::S3::Bucket"): 1,
        ("RESOURCE_POLICY", None): 5,
    }


@pytest.mark.parametrize(
    ("kind", "level"),
    [
        ("ERROR", Level.PROBLEM),
        ("SECURITY_WARNING", Level.WARNING),
        ("WARNING", Level.WARNING),
        ("SUGGESTION", Level.OK),
    ],
)
def test_a_finding_of_access_analyzer_is_as_grave_as_its_type(
    target: Target, template: Template, stubs: Stubs, kind: str, level: Level
) -> None:
    finding = {
        "findingType": kind,
        "issueCode": "INVALID_ACTION",
        "findingDetails": "The action s3:Sing does not exist.",
        "learnMoreLink": "https://docs.aws.amazon.com/x",
        "locations": [],
    }
    stubs.answers["accessanalyzer.ValidatePolicy"] = lambda given: {
        "findings": [finding] if "ExtendMessages" in given["policyDocument"] else []
    }

    found = [each for each in policies.validated(target, template) if kind in each.answer]

    assert {each.level for each in found} == {level}
    assert "s3:Sing does not exist" in found[0].answer


def test_a_right_that_the_simulator_denies_is_a_problem_with_its_role_and_statement(
    target: Target, template: Template, stubs: Stubs
) -> None:
    judge = stubs.answers["iam.SimulateCustomPolicy"]

    def strict(given: Mapping[str, Any]) -> Any:
        if "iam:PassRole" not in given["ActionNames"]:
            return judge(given)
        return judge({**given, "PolicyInputList": ['{"Statement": []}']})

    stubs.answers["iam.SimulateCustomPolicy"] = strict

    problem = only_problem(list(policies.simulated(target, template)))

    assert problem.asked.startswith("role WorkflowRole")
    assert "iam:PassRole" in problem.asked
    assert "LendItsRoles" in problem.do


def test_what_a_boundary_denies_is_named_with_the_boundary(
    target: Target, template: Template, stubs: Stubs
) -> None:
    boundary = "arn:aws:iam::123456789012:policy/boundary"
    content = json.loads(json.dumps(template.content))
    for resource in content["Resources"].values():
        if resource["Type"] == "AWS::IAM::Role":
            resource["Properties"]["PermissionsBoundary"] = boundary
    bounded = Template(content, "Longhaul", template.account, template.region, "aws")
    stubs.answers["iam.GetPolicy"] = lambda _: {"Policy": {"DefaultVersionId": "v3"}}
    document = '{"Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}'
    stubs.answers["iam.GetPolicyVersion"] = lambda _: {"PolicyVersion": {"Document": document}}
    judge = stubs.answers["iam.SimulateCustomPolicy"]

    def within(given: Mapping[str, Any]) -> Any:
        assert given["PermissionsBoundaryPolicyInputList"]
        answer = judge(given)
        for each in answer["EvaluationResults"]:
            if each["EvalActionName"] == "states:StartExecution":
                inner = each["ResourceSpecificResults"][0]
                inner["EvalResourceDecision"] = each["EvalDecision"] = "implicitDeny"
                inner["PermissionsBoundaryDecisionDetail"] = {"AllowedByPermissionsBoundary": False}
        return answer

    stubs.answers["iam.SimulateCustomPolicy"] = within

    found = [each for each in policies.simulated(target, bounded) if each.level is Level.PROBLEM]

    assert {"states:StartExecution" in each.asked for each in found} == {True}
    assert boundary in found[0].do
    assert {each["VersionId"] for each in stubs.named("iam.GetPolicyVersion")} == {"v3"}


def test_each_statement_is_simulated_with_what_its_conditions_ask_for(
    target: Target, template: Template, stubs: Stubs
) -> None:
    list(policies.simulated(target, template))

    calls = stubs.named("iam.SimulateCustomPolicy")
    lends = next(each for each in calls if each["ActionNames"] == ["iam:PassRole"])
    beats = next(each for each in calls if "dynamodb:LeadingKeys" in str(each["ContextEntries"]))
    assert lends["ContextEntries"] == [
        {
            "ContextKeyName": "iam:PassedToService",
            "ContextKeyValues": ["ecs-tasks.amazonaws.com"],
            "ContextKeyType": "string",
        }
    ]
    assert {
        "ContextKeyName": "dynamodb:LeadingKeys",
        "ContextKeyValues": ["main#sample"],
        "ContextKeyType": "stringList",
    } in beats["ContextEntries"]
    assert not any("*" in arn for each in calls for arn in each.get("ResourceArns", ()))


def test_an_error_in_the_definition_is_a_problem_with_its_place(
    target: Target, template: Template, stubs: Stubs
) -> None:
    diagnostic = {
        "severity": "ERROR",
        "code": "MISSING_TRANSITION_TARGET",
        "message": "Missing 'Next' target: Settle",
        "location": "/States/RunUnderLease",
    }
    stubs.answers["stepfunctions.ValidateStateMachineDefinition"] = lambda _: {
        "result": "FAIL",
        "diagnostics": [diagnostic],
    }

    problem = only_problem(list(machine.validated(target, template)))

    assert "/States/RunUnderLease" in problem.asked
    assert "Missing 'Next' target: Settle" in problem.answer


def test_a_state_that_ends_in_another_way_is_a_problem(
    target: Target, template: Template, stubs: Stubs
) -> None:
    usual = stubs.answers["stepfunctions.TestState"]

    def forgetful(given: Mapping[str, Any]) -> Any:
        answer = usual(given)
        if answer["status"] == "CAUGHT_ERROR" and answer["nextState"] == "SettleKilled":
            return {"status": "FAILED", "error": answer["error"]}
        return answer

    stubs.answers["stepfunctions.TestState"] = forgetful

    found = [each for each in machine.tested(target, template) if each.level is Level.PROBLEM]

    assert [each.asked for each in found] == [
        f"RunUnderLease after {kill}" for kill in ("JobStalled", "JobCancelled", "LeaseLost")
    ]


def test_each_state_but_waits_and_ends_is_tried_and_nothing_is_called(
    target: Target, with_all: Template, stubs: Stubs
) -> None:
    list(machine.tested(target, with_all))

    tried = Counter(
        json.loads(each["definition"])["Type"] for each in stubs.named("stepfunctions.TestState")
    )
    assert tried.keys() == {"Choice", "Task", "Parallel", "Pass", "Fail"}
    for each in stubs.named("stepfunctions.TestState"):
        assert "roleArn" not in each
        calls = json.loads(each["definition"])["Type"] in ("Task", "Parallel")
        assert calls == ("mock" in each) == ("context" in each)


def test_a_pattern_without_a_result_is_not_asked(
    target: Target, template: Template, stubs: Stubs
) -> None:
    stubs.answers["events.TestEventPattern"] = lambda _: {}

    assert set(levels(list(patterns.tested(target, template)))) == {Level.SKIPPED}


def test_a_pattern_that_does_not_match_its_event_is_a_problem(
    target: Target, with_all: Template, stubs: Stubs
) -> None:
    stubs.answers["events.TestEventPattern"] = lambda given: {
        "Result": "wildcard" not in given["EventPattern"]
        and json.loads(given["Event"])["source"] != "aws.elsewhere"
    }

    problem = only_problem(list(patterns.tested(target, with_all)))

    assert problem.asked.startswith("rule Triggers")
    assert {"id", "account", "source", "time", "region", "resources", "detail-type"} <= {
        *json.loads(stubs.named("events.TestEventPattern")[0]["Event"])
    }


@pytest.mark.parametrize(
    ("settings", "operation", "answer", "level", "said"),
    [
        (
            {},
            "ecs.ListAccountSettings",
            {"settings": [{"name": "guardDutyActivate", "value": "on"}]},
            Level.WARNING,
            "container of GuardDuty's",
        ),
        ({}, "ecs.ListAccountSettings", {"settings": []}, Level.SKIPPED, "no such setting"),
        (
            {"emr_serverless": {}},
            "service-quotas.ListServiceQuotas",
            {"Quotas": []},
            Level.SKIPPED,
            "does not say",
        ),
        (
            {
                "network": {
                    "vpc_id": "vpc-01234567",
                    "subnet_ids": ["subnet-01234567"],
                }
            },
            "ec2.DescribeSubnets",
            {"Subnets": [{"AvailableIpAddressCount": 3}, {"AvailableIpAddressCount": 4}]},
            Level.WARNING,
            "7, and 10 slots need one each",
        ),
        (
            {},
            "lambda.GetAccountSettings",
            {"AccountLimit": {"UnreservedConcurrentExecutions": 10}},
            Level.WARNING,
            "10: all functions of the account share them",
        ),
        (
            {"emr_serverless": {"max_vcpu": 400}},
            "emr.ListReleaseLabels",
            {"ReleaseLabels": []},
            Level.WARNING,
            "not among those that EMR lists",
        ),
        (
            {"emr_serverless": {"max_vcpu": 400}},
            "emr.ListReleaseLabels",
            {"ReleaseLabels": []},
            Level.WARNING,
            "100, and the application may use 400",
        ),
    ],
)
def test_what_the_account_is_set_to_is_reported(
    target: Target,
    stubs: Stubs,
    settings: dict[str, Any],
    operation: str,
    answer: dict[str, Any],
    level: Level,
    said: str,
) -> None:
    stubs.answers[operation] = lambda _: answer

    found = [
        each
        for question in surroundings.questions(plan_of(target, **settings))
        for each in answers(question)
    ]

    assert any(said in each.answer and each.level is level for each in found), found


@pytest.mark.parametrize(
    ("group", "level"),
    [
        ({"allSupported": True}, Level.WARNING),
        ({"resourceTypes": ["AWS::EC2::NetworkInterface"]}, Level.WARNING),
        ({"resourceTypes": ["AWS::S3::Bucket"]}, Level.OK),
        (
            {
                "exclusionByResourceTypes": {"resourceTypes": ["AWS::EC2::NetworkInterface"]},
                "recordingStrategy": {"useOnly": "EXCLUSION_BY_RESOURCE_TYPES"},
            },
            Level.OK,
        ),
        (
            {
                "exclusionByResourceTypes": {"resourceTypes": ["AWS::S3::Bucket"]},
                "recordingStrategy": {"useOnly": "EXCLUSION_BY_RESOURCE_TYPES"},
            },
            Level.WARNING,
        ),
    ],
)
@pytest.mark.parametrize("recording", [True, False])
def test_configs_records_cost_where_they_have_network_interfaces(
    target: Target, stubs: Stubs, group: dict[str, Any], level: Level, *, recording: bool
) -> None:
    stubs.answers["config.DescribeConfigurationRecorders"] = lambda _: {
        "ConfigurationRecorders": [{"name": "default", "recordingGroup": group}]
    }
    stubs.answers["config.DescribeConfigurationRecorderStatus"] = lambda _: {
        "ConfigurationRecordersStatus": [{"name": "default", "recording": recording}]
    }

    (found,) = surroundings.config(target)

    assert found.level is (level if recording else Level.OK)


def test_an_account_that_never_used_emr_serverless_is_told_of_its_role(
    target: Target, stubs: Stubs
) -> None:
    def get_role(_: Mapping[str, Any]) -> Any:
        raise AwsError("NoSuchEntity", status=404)

    stubs.answers["iam.GetRole"] = get_role

    found = list(surroundings.emr_serverless(plan_of(target, emr_serverless={})))

    assert found[-1].level is Level.WARNING
    assert "iam:CreateServiceLinkedRole" in found[-1].do


def test_the_page_has_each_question_with_its_calls(target: Target, template: Template) -> None:
    page = (ROOT / "docs" / "rehearsal.md").read_text()
    rows = dict(re.findall(r"^\| ([a-z ]+) \| .+ \| (.+) \|$", page, re.MULTILINE))

    asked = all_questions(target, template, emr_serverless={})
    by_subnets = {"network": {"vpc_id": "vpc-01234567", "subnet_ids": ["subnet-01234567"]}}
    for question in (*asked, *all_questions(target, template, **by_subnets)):
        named = set(re.findall(r"`([^`]+)`", rows[question.name]))
        assert {*question.calls} <= named, question.name
    assert rows.keys() == {"check", "subnets", *(each.name for each in asked)}
