"""Deploys a cloud assembly as `cdk deploy` does.

File assets go to their buckets first; then the stack is made from its template.
"""

import io
import json
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from longhaul.local.credentials import aws_client

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

# The parameter that CDK's bootstrap stack makes, and that every template checks.
BOOTSTRAP_VERSION_PARAMETER = "/cdk-bootstrap/hnb659fds/version"
BOOTSTRAP_VERSION = "30"


class DeployError(RuntimeError):
    """The stack could not be created; the message says why."""


class Deployer:
    def __init__(self, *, endpoint: str, region: str, account: str) -> None:
        self._endpoint = endpoint
        self._region = region
        self._account = account

    def deploy(self, assembly_dir: Path, stack_name: str) -> dict[str, str]:
        """Create the stack.

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
        self._upload_assets(assembly_dir, stack_name)
        self._client("ssm").put_parameter(
            Name=BOOTSTRAP_VERSION_PARAMETER, Value=BOOTSTRAP_VERSION, Type="String", Overwrite=True
        )
        cloudformation = self._client("cloudformation")
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

    def _upload_assets(self, assembly_dir: Path, stack_name: str) -> None:
        manifest = assembly_dir / f"{stack_name}.assets.json"
        if not manifest.exists():
            return
        s3: S3Client = self._client("s3")
        made = {bucket["Name"] for bucket in s3.list_buckets()["Buckets"]}
        # Docker images are left out: tasks run as processes here.
        for asset in json.loads(manifest.read_text()).get("files", {}).values():
            body = _packaged(assembly_dir / asset["source"]["path"], asset["source"]["packaging"])
            for destination in asset["destinations"].values():
                bucket = (
                    destination["bucketName"]
                    .replace("${AWS::AccountId}", self._account)
                    .replace("${AWS::Region}", self._region)
                )
                if bucket not in made:
                    s3.create_bucket(Bucket=bucket)
                    made.add(bucket)
                s3.put_object(Bucket=bucket, Key=destination["objectKey"], Body=body)

    def _client(self, service: str) -> Any:  # noqa: ANN401 - one of boto3's clients
        return aws_client(service, endpoint=self._endpoint, region=self._region)


def _packaged(source: Path, packaging: str) -> bytes:
    if packaging == "file":
        return source.read_bytes()
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w", zipfile.ZIP_STORED) as archive:
        for path in sorted(source.rglob("*")):
            if path.is_file():
                archive.write(path, path.relative_to(source))
    return body.getvalue()
