"""Deploys a cloud assembly as `cdk deploy` does.

File assets go to their buckets first; then the stack is made from its template.
"""
# ruff: noqa: ANN401 - boto3's clients

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

# The parameter that CDK's bootstrap stack makes, and that every template checks.
BOOTSTRAP_VERSION_PARAMETER = "/cdk-bootstrap/hnb659fds/version"
BOOTSTRAP_VERSION = "30"


class DeployError(RuntimeError):
    """The stack could not be created; the message says why."""


def deploy(
    client: Callable[[str], Any], assembly_dir: Path, stack_name: str, *, account: str, region: str
) -> dict[str, str]:
    """Create a stack, with clients of its account.

    Returns:
        the stack's outputs.

    Raises:
        DeployError: the assembly has no such stack, or the stack could not be created.
    """
    template = assembly_dir / f"{stack_name}.template.json"
    if not template.exists():
        stacks = ", ".join(
            sorted(
                path.name.removesuffix(".template.json")
                for path in assembly_dir.glob("*.template.json")
            )
        )
        raise DeployError(
            f"no stack {stack_name!r} in {assembly_dir}; it holds: {stacks or 'none'}"
        )
    _upload_assets(client("s3"), assembly_dir, stack_name, account, region)
    client("ssm").put_parameter(
        Name=BOOTSTRAP_VERSION_PARAMETER, Value=BOOTSTRAP_VERSION, Type="String", Overwrite=True
    )
    cloudformation = client("cloudformation")
    try:
        cloudformation.create_stack(
            StackName=stack_name,
            TemplateBody=template.read_text(),
            Capabilities=["CAPABILITY_IAM", "CAPABILITY_NAMED_IAM"],
        )
        stack = cloudformation.describe_stacks(StackName=stack_name)["Stacks"][0]
    except ClientError as error:
        raise DeployError(f"stack {stack_name} was not created: {error}") from error
    if stack["StackStatus"] != "CREATE_COMPLETE":
        raise DeployError(
            f"stack {stack_name} was not created: "
            f"{stack['StackStatus']} {stack.get('StackStatusReason', '')}"
        )
    return {output["OutputKey"]: output["OutputValue"] for output in stack.get("Outputs", [])}


def _upload_assets(s3: Any, assembly_dir: Path, stack_name: str, account: str, region: str) -> None:
    manifest = assembly_dir / f"{stack_name}.assets.json"
    if not manifest.exists():
        return
    made = {bucket["Name"] for bucket in s3.list_buckets()["Buckets"]}
    # Docker images are left out: tasks run as processes here.
    for asset in json.loads(manifest.read_text()).get("files", {}).values():
        body = _packaged(assembly_dir / asset["source"]["path"], asset["source"]["packaging"])
        for destination in asset["destinations"].values():
            bucket = (
                destination["bucketName"]
                .replace("${AWS::AccountId}", account)
                .replace("${AWS::Region}", region)
            )
            if bucket not in made:
                s3.create_bucket(Bucket=bucket)
                made.add(bucket)
            s3.put_object(Bucket=bucket, Key=destination["objectKey"], Body=body)


def _packaged(source: Path, packaging: str) -> bytes:
    if packaging == "file":
        return source.read_bytes()
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w", zipfile.ZIP_STORED) as archive:
        for path in sorted(source.rglob("*")):
            if path.is_file():
                archive.write(path, path.relative_to(source))
    return body.getvalue()
