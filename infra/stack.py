"""The app with its stack, as the package has it: a checkout and a wheel deploy the same."""

from longhaul.cdk.app import build, main
from longhaul.cdk.stack import LonghaulStack

__all__ = ["LonghaulStack", "build", "main"]
