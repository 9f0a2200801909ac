"""What a platform team may ask for: a key of its own, versions, logs, and names of roles."""

from tests.cdk.synthesis import Synthesis


def test_every_role_has_the_boundary_and_the_path(guarded: Synthesis) -> None:
    roles = guarded.resources("AWS::IAM::Role").values()

    assert {(role["PermissionsBoundary"], role["Path"]) for role in roles} == {
        ("arn:aws:iam::123456789012:policy/platform/workloads", "/workloads/spark/")
    }


def test_the_stack_is_deployed_with_the_bootstrap_of_that_qualifier(guarded: Synthesis) -> None:
    text = guarded.template_file.read_text()
    assert "/cdk-bootstrap/acme/version" in text
    assert "hnb659fds" not in text


def test_without_a_database_of_its_own_the_stack_makes_none_and_opens_those_that_are_named(
    with_all: Synthesis,
) -> None:
    (tables,) = (
        each for each in with_all.statements("SparkTaskRole") if each.get("Sid") == "WriteTables"
    )

    assert with_all.resources("AWS::Glue::Database") == {}
    assert [each.rpartition(":")[2] for each in tables["Resource"]] == [
        "catalog",
        "database/their_lake",
        "table/their_lake/*",
    ]
