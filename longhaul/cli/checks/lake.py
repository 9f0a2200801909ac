"""What governs the Glue catalog: its key, and Lake Formation."""

from collections.abc import Iterator
from typing import Any, Final

from longhaul.cli.checks.deploying import makes_database
from longhaul.cli.checks.finding import Finding, ok, problem, warning
from longhaul.cli.checks.plan import Plan
from longhaul.config.settings import database_name

# The group of all that IAM allows: what it holds, Lake Formation does not govern.
EVERYBODY: Final = "IAM_ALLOWED_PRINCIPALS"


def catalog(plan: Plan) -> Iterator[Finding]:
    """Whether the stack's roles may use the key with which the catalog is encrypted."""
    settings = plan.settings
    if not settings.databases:
        return
    found = plan.client("glue").get_data_catalog_encryption_settings()
    at_rest = found["DataCatalogEncryptionSettings"].get("EncryptionAtRest", {})
    # With a service role, that uses the key, and callers need no right to it.
    key = at_rest.get("SseAwsKmsKeyId") if at_rest.get("CatalogEncryptionMode") == "SSE-KMS" else ""
    # An id, an alias or an ARN; a key of AWS is open to all that use Glue.
    metadata = plan.client("kms").describe_key(KeyId=key)["KeyMetadata"] if key else {}
    arn = metadata.get("Arn")
    if metadata.get("KeyManager") == "CUSTOMER" and arn != settings.catalog_key:
        named = (
            f"catalog_key names {settings.catalog_key}"
            if settings.catalog_key
            else ("the settings name no catalog_key")
        )
        yield problem(
            f"catalog: the Glue catalog is encrypted with {arn}, and {named}: no job could read or "
            "write a table",
            f'set catalog_key to "{arn}"; the policy of the key must let in the account\'s roles',
        )
    else:
        yield ok(
            f"catalog: the roles may use its key {arn}"
            if arn == settings.catalog_key and arn
            else "catalog: it has no key of the customer's"
        )


def lake(plan: Plan) -> Iterator[Finding]:
    """Whether the lake is governed, and if so, whether the deployment may make what it makes."""
    settings = plan.settings
    if not settings.databases:
        return
    client = plan.client("lakeformation")
    known = client.get_data_lake_settings()["DataLakeSettings"]
    deployer = _deployer(plan)
    admins = {each["DataLakePrincipalIdentifier"] for each in known.get("DataLakeAdmins", ())}
    findings: list[Finding] = []
    if deployer not in admins:
        if settings.lake_formation:
            findings.append(
                problem(
                    f"lake: {deployer} is no administrator of the lake, so the grants that "
                    "lake_formation asks for would fail",
                    "make it one (Lake Formation, Administrative roles and tasks), or set "
                    "lake_formation to false and have an administrator grant what docs/outputs.md "
                    "lists",
                )
            )
        if makes_database(plan):
            findings += _creation(client, deployer, database_name(settings.stack_name))
    databases = list(_governed_databases(client, plan, known))
    if databases and not settings.lake_formation:
        findings.append(
            warning(
                f"lake: Lake Formation governs {', '.join(databases)}: a table could be used by "
                "the one role alone that made it",
                "set lake_formation to true, or have an administrator of the lake grant the "
                "stack's roles what docs/outputs.md lists",
            )
        )
    yield from findings or [
        ok(
            "lake: Lake Formation governs the databases, and grants are made"
            if databases
            else "lake: IAM alone says who may use the databases"
        )
    ]


def _creation(client: Any, deployer: str, database: str) -> Iterator[Finding]:  # noqa: ANN401 - one of boto3's clients
    """Whether CloudFormation may make a database. A caller sees the grants that it has itself."""
    grants = client.list_permissions(Resource={"Catalog": {}})["PrincipalResourcePermissions"]
    allowed = {
        each["Principal"]["DataLakePrincipalIdentifier"]
        for each in grants
        if {"ALL", "CREATE_DATABASE"} & {*each["Permissions"]}
    }
    if {deployer, EVERYBODY} & allowed:
        return
    way_out = (
        f"have an administrator of the lake grant it (`aws lakeformation grant-permissions "
        f"--principal DataLakePrincipalIdentifier={deployer} --permissions CREATE_DATABASE "
        "--resource '{\"Catalog\":{}}'`), or set own_database to false, and name a database that "
        "is there in table_databases"
    )
    if allowed:
        yield problem(
            f"lake: {deployer} may not make the database {database} in Lake Formation: the "
            "deployment would roll back",
            way_out,
        )
    else:
        yield warning(
            f"lake: these credentials do not see whether {deployer} may make the database "
            f"{database} in Lake Formation; if not, the deployment rolls back",
            way_out,
        )


def _governed_databases(client: Any, plan: Plan, known: dict[str, Any]) -> Iterator[str]:  # noqa: ANN401 - one of boto3's clients
    """The databases to which IAM alone does not open the way."""
    if makes_database(plan) and not all(
        any(_opens(each) for each in known.get(kind, ()))
        for kind in ("CreateDatabaseDefaultPermissions", "CreateTableDefaultPermissions")
    ):
        yield database_name(plan.settings.stack_name)
    for name in plan.settings.table_databases:
        resource = {"Database": {"Name": name}}
        grants = client.list_permissions(Resource=resource)["PrincipalResourcePermissions"]
        # None are seen without a right to see them.
        if grants and not any(_opens(each) for each in grants):
            yield name


def _opens(grant: dict[str, Any]) -> bool:
    who = grant["Principal"]["DataLakePrincipalIdentifier"]
    return who == EVERYBODY and "ALL" in grant["Permissions"]


def _deployer(plan: Plan) -> str:
    """The role of the CDK's bootstrap with which CloudFormation makes resources."""
    who = plan.target.identity
    partition, account = who["Arn"].split(":")[1], who["Account"]
    name = f"cdk-{plan.settings.bootstrap_qualifier}-cfn-exec-role-{account}-{plan.target.region}"
    return f"arn:{partition}:iam::{account}:role/{name}"
