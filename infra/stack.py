"""The stack of the app."""

from longhaul.cdk.stack import LonghaulStack

__all__ = ["LonghaulStack"]
