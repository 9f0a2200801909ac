"""The app with its stack, as the package has it: a checkout and a wheel deploy the same."""

from longhaul.cdk.app import LonghaulStack, build, main

__all__ = ["LonghaulStack", "build", "main"]
