"""Every test runs without an AWS account: the credentials are fake, and nothing outside this machine is named."""

import os

os.environ.update(
    AWS_ACCESS_KEY_ID="testing",
    AWS_SECRET_ACCESS_KEY="testing",
    AWS_DEFAULT_REGION="us-east-1",
    AWS_EC2_METADATA_DISABLED="true",
    POWERTOOLS_TRACE_DISABLED="1",
    POWERTOOLS_SERVICE_NAME="longhaul",
)
os.environ.pop("AWS_PROFILE", None)
