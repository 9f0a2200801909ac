"""The errors of AWS, and our own, as sentences that say what to do."""

import errno
from collections.abc import Mapping

from botocore import exceptions as aws

from longhaul.cli.errors import CommandError, ExitStatus
from longhaul.config.errors import SettingsError
from longhaul.core.aws_errors import code_of, is_denied, is_throttle, message_of
from longhaul.operations.errors import (
    AmbiguousJobError,
    InvalidRequestError,
    LonghaulError,
    NoSuchJobError,
    NoSuchStackError,
    NoSuchStageError,
    NoSuchTableError,
    RetiredStageError,
    is_gone,
)

_CREDENTIALS = (
    "set AWS_PROFILE or give --profile, or run `aws login`, `aws sso login` or `aws configure`"
)
_SSO = "run `aws sso login`"
_WAYS_OUT: Mapping[type[Exception], str] = {
    aws.NoCredentialsError: _CREDENTIALS,
    aws.PartialCredentialsError: _CREDENTIALS,
    aws.ProfileNotFound: "`aws configure list-profiles` lists the profiles of this machine",
    aws.NoRegionError: "set AWS_REGION or the profile's region, or give --region",
    aws.SSOTokenLoadError: _SSO,
    aws.TokenRetrievalError: _SSO,
    aws.EndpointConnectionError: (
        "is the region right, and the network up? Where it is that of `longhaul up`: once that is "
        "started again it may have another port, so start this command again, and correct "
        "AWS_ENDPOINT_URL where it is set"
    ),
    aws.HTTPClientError: "the connection broke: try again",
}
_OR_EMBEDDED = (aws.NoCredentialsError, aws.PartialCredentialsError, aws.NoRegionError)
"""Errors for which an embedded AWS is a way out too."""

_CREDENTIALS_REFUSED = {
    "ExpiredToken",
    "ExpiredTokenException",
    "RequestExpired",
    "InvalidClientTokenId",
    "UnrecognizedClientException",
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "AuthFailure",
}
_BUSY = {"TooManyRequestsException", "SlowDown", "RequestLimitExceeded"}


def translated(error: Exception, *, on_aws: bool = False) -> CommandError:
    """An error of boto3 as a sentence: AWS's words, and a way out.

    `on_aws`: of a command for which an embedded AWS is none, such as a deployment.
    """
    if isinstance(error, aws.ClientError):
        return CommandError(_refused(error), ExitStatus.UNREACHABLE)
    ways = [text for kind, text in _WAYS_OUT.items() if isinstance(error, kind)]
    if isinstance(error, _OR_EMBEDDED) and not on_aws:
        ways.append(
            "or use the embedded AWS: `longhaul up`, and no profile, region or environment that has"
            " one"
        )
    return CommandError(
        "; ".join([f"AWS could not be asked: {error}", *ways]), ExitStatus.UNREACHABLE
    )


def _refused(error: aws.ClientError) -> str:
    code, text, what = code_of(error), message_of(error), error.operation_name
    if code in _CREDENTIALS_REFUSED:
        return f"AWS does not take these credentials ({code}): {_CREDENTIALS}"
    if is_denied(error):
        return f"not allowed: {what}: {text}; docs/reference/cli.md lists what the commands need"
    if is_gone(error):
        return (
            f"{what}: {text or 'it is not there'}: a part of the stack is missing; deploy it again"
        )
    if is_throttle(error) or code in _BUSY:
        return f"AWS is busy ({what}: {code}): try again in a minute"
    return f"AWS refused {what}: {code}: {text}"


_STATUSES: Mapping[type[LonghaulError], ExitStatus] = {
    AmbiguousJobError: ExitStatus.USAGE,
    InvalidRequestError: ExitStatus.USAGE,
    NoSuchJobError: ExitStatus.NOT_FOUND,
    NoSuchStackError: ExitStatus.NOT_FOUND,
    NoSuchTableError: ExitStatus.NOT_FOUND,
    NoSuchStageError: ExitStatus.USAGE,
    RetiredStageError: ExitStatus.USAGE,
}


def said(error: Exception) -> CommandError | None:
    """How an error ends a command; None if it is a defect."""
    match error:
        case aws.BotoCoreError() | aws.ClientError():
            # Before OSError: some of these are OSErrors too.
            return translated(error)
        case OSError():
            if error.errno == errno.EPIPE:  # the reader of our output has closed the pipe
                return None
            place = f"{error.filename}: " if error.filename else ""
            return CommandError(f"{place}{error.strerror or error}")
        case CommandError():
            return error
        case SettingsError():
            return CommandError(str(error), ExitStatus.USAGE)
        case LonghaulError() | RuntimeError():
            # RuntimeError: of the embedded AWS, such as a failed synth or a port that is taken.
            statuses = (status for kind, status in _STATUSES.items() if isinstance(error, kind))
            return CommandError(str(error), next(statuses, ExitStatus.FAILED))
    return None


OURS = (CommandError, LonghaulError)
AWS_OR_OURS = (aws.BotoCoreError, aws.ClientError, *OURS)
"""Errors that are shown as a sentence; any other is a defect, and shows its traceback."""


def sentence(error: Exception) -> str:
    """One of `AWS_OR_OURS` as a sentence."""
    return (
        str(translated(error))
        if isinstance(error, aws.BotoCoreError | aws.ClientError)
        else str(error)
    )
