"""The errors of AWS, and our own, as sentences that say what to do."""

import errno
from collections.abc import Callable, Mapping
from typing import Any

from botocore import exceptions as aws

from longhaul.adapters.errors import code_of, is_throttle, message_of
from longhaul.cli.errors import CommandError, ExitStatus
from longhaul.cli.project import default_work_dir
from longhaul.config.errors import SettingsError
from longhaul.domain.errors import InvalidRequestError, LonghaulError
from longhaul.operations.errors import (
    AmbiguousJobError,
    NoSuchJobError,
    NoSuchStackError,
    NoSuchStageError,
    NoSuchTableError,
    RetiredStageError,
    is_gone,
)


def translated(error: Exception, *, on_aws: bool = False) -> CommandError:
    """An error of boto3 as a sentence.

    `on_aws`: of a command for which an embedded AWS is no way out, such as a deployment.
    """
    for kind, say in _SENTENCES.items():
        if isinstance(error, kind):
            return CommandError(say(error, on_aws), ExitStatus.UNREACHABLE)
    if isinstance(error, aws.ClientError):
        return _refused(error, on_aws=on_aws)
    return CommandError(f"AWS could not be asked: {error}", ExitStatus.UNREACHABLE)


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


_CREDENTIALS = (
    "set AWS_PROFILE or give --profile, or run `aws login`, `aws sso login` or `aws configure`"
)
_REGION = "set AWS_REGION or the profile's region, or give --region where a command takes it"


def _missing(what: str, way_out: str, *, on_aws: bool) -> str:
    if on_aws:
        return f"{what}: {way_out}"
    return f"{what}, and no embedded AWS runs in {default_work_dir()}: {_or_embedded(way_out)}"


def _or_embedded(way_out: str) -> str:
    return f"{way_out}; or start an embedded AWS with `longhaul up`"


def _credentials(*, on_aws: bool) -> str:
    return _CREDENTIALS if on_aws else _or_embedded(_CREDENTIALS)


def _no_answer(endpoint: str) -> str:
    if endpoint.startswith("https:"):  # AWS's own are
        return f"no answer from {endpoint}: is the region right, and is the network up?"
    return (
        f"no answer from {endpoint}: does `longhaul up` still run? Once it is started again it may "
        "have another port: then start this command again, and where AWS_ENDPOINT_URL is set, set "
        "it to the new one"
    )


_SENTENCES: Mapping[type[Exception], Callable[[Any, bool], str]] = {
    aws.NoCredentialsError: lambda _, on_aws: _missing(
        "no AWS credentials", _CREDENTIALS, on_aws=on_aws
    ),
    aws.PartialCredentialsError: lambda error, on_aws: (
        f"the AWS credentials are incomplete ({error}): {_credentials(on_aws=on_aws)}"
    ),
    aws.ProfileNotFound: lambda error, _: (
        f"{error}; `aws configure list-profiles` lists the profiles of this machine"
    ),
    aws.NoRegionError: lambda _, on_aws: _missing("no AWS region", _REGION, on_aws=on_aws),
    aws.InvalidRegionError: lambda error, _: f"{error}: a region looks like eu-west-1",
    aws.SSOTokenLoadError: lambda error, _: (
        f"the SSO session is not there ({error}): run `aws sso login`"
    ),
    aws.UnauthorizedSSOTokenError: lambda *_: "the SSO session has expired: run `aws sso login`",
    aws.TokenRetrievalError: lambda error, _: (
        f"the SSO session cannot be renewed ({error}): run `aws sso login`"
    ),
    aws.MissingDependencyException: lambda error, _: (
        "the profile's credentials are those of `aws login`, for which boto3 needs another "
        "package: pip install 'longhaul-jobs[deploy]', or 'botocore[crt]'"
        if "login" in str(error)
        else str(error)
    ),
    aws.CredentialRetrievalError: lambda error, _: f"the credentials could not be loaded: {error}",
    aws.EndpointConnectionError: lambda error, _: _no_answer(str(error.kwargs.get("endpoint_url"))),
    aws.HTTPClientError: lambda error, _: f"the connection to AWS broke: {error}; try again",
}

_EXPIRED = {"ExpiredToken", "ExpiredTokenException", "RequestExpired"}
_UNKNOWN = {
    "InvalidClientTokenId",
    "UnrecognizedClientException",
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "AuthFailure",
}
_DENIED = {"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "AuthorizationError"}
_BUSY = {"TooManyRequestsException", "SlowDown", "RequestLimitExceeded"}


def is_denied(error: aws.ClientError) -> bool:
    """Whether the caller lacks a right."""
    return _code(error) in _DENIED


def _code(error: aws.ClientError) -> str:
    return code_of(error).rpartition(".")[2]


def _refused(error: aws.ClientError, *, on_aws: bool) -> CommandError:
    code = _code(error)
    text, what = message_of(error), error.operation_name
    if code in _EXPIRED:
        say = "the AWS credentials have expired: log in again (`aws sso login`), or renew them"
    elif code in _UNKNOWN:
        way_out = _credentials(on_aws=on_aws)
        say = f"AWS does not know these credentials ({code}): {way_out}"
    elif code in _DENIED:
        say = f"not allowed: {what}: {text}; docs/reference/cli.md lists what the commands need"
    elif is_gone(error):
        say = (
            f"{what}: {text or 'it is not there'}: a part of the stack is missing; deploy it again"
        )
    elif is_throttle(error) or code in _BUSY:
        say = f"AWS is busy ({what}: {code}): try again in a minute"
    else:
        say = f"AWS refused {what}: {code}: {text}"
    return CommandError(say, ExitStatus.UNREACHABLE)
