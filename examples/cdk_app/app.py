"""The app: `npx cdk deploy --app "python -m examples.cdk_app.app"`."""

import os

from examples.cdk_app.stack import ReportsStack

# isort: split
from aws_cdk import App  # after `longhaul.cdk`, which tells jsii where Node is


def main() -> None:
    app = App()
    # The CDK's CLI knows both from the credentials.
    account, region = os.environ["CDK_DEFAULT_ACCOUNT"], os.environ["CDK_DEFAULT_REGION"]
    ReportsStack(app, "Reports", account=account, region=region)
    app.synth()


if __name__ == "__main__":
    main()
