"""Whether the stack's roles may use the key with which the account's Glue catalog is encrypted."""

from collections.abc import Iterator

from longhaul.cli.checks.deploying import Plan
from longhaul.cli.checks.finding import Finding, ok, problem


def encryption(plan: Plan) -> Iterator[Finding]:
    settings = plan.settings
    if not settings.databases:
        return
    found = plan.target.client("glue").get_data_catalog_encryption_settings()
    at_rest = found["DataCatalogEncryptionSettings"].get("EncryptionAtRest", {})
    # With a service role, that uses the key, and callers need no right to it.
    key = at_rest.get("SseAwsKmsKeyId") if at_rest.get("CatalogEncryptionMode") == "SSE-KMS" else ""
    # An id, an alias or an ARN; a key of AWS is open to all that use Glue.
    metadata = plan.target.client("kms").describe_key(KeyId=key)["KeyMetadata"] if key else {}
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
