"""What a command's end means, and every error that a user can cause as a sentence that says what to do."""

import errno
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any

import typer
from botocore import exceptions as aws
from pydantic import ValidationError
from typer.core import TyperGroup

from local.assembly import DeployError
from local.synth import SynthError
from longhaul.domain.errors import LonghaulError


class ExitCode(IntEnum):
    """Documented in `longhaul --help` and docs/cli.md: scripts rely on them."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    UNREACHABLE = 4
    INTERRUPTED = 130


class CommandError(Exception):
    """Ends a command. The message is for people, and says what to do."""

    def __init__(self, message: str, code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(message)
        self.code = code


class Commands(TyperGroup):
    """The commands, with one place where their errors become sentences and exit codes."""

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - click's types, which Typer keeps to itself
        try:
            return super().invoke(ctx)
        except typer.Exit:
            raise
        except (KeyboardInterrupt, typer.Abort):
            raise typer.Exit(ExitCode.INTERRUPTED) from None
        except (aws.BotoCoreError, aws.ClientError) as error:
            # Before OSError, which some of them are.
            _end(translated(error))
        except OSError as error:
            if error.errno == errno.EPIPE:  # whoever read our output has seen enough
                raise
            _end(CommandError(_of_file(error)))
        except (CommandError, LonghaulError, SynthError, DeployError, RuntimeError) as error:
            _end(error if isinstance(error, CommandError) else CommandError(str(error)))
        except ValidationError as error:
            raise AssertionError(
                "settings or rows that this version cannot read reach a command as CommandError"
            ) from error


def _end(error: CommandError) -> None:
    from console.output import Output  # noqa: PLC0415 - the output knows the errors too

    Output().problem(str(error))
    raise typer.Exit(error.code) from None


def translated(error: Exception) -> CommandError:
    """An error of boto3's as a sentence."""
    for kind, say in _SENTENCES.items():
        if isinstance(error, kind):
            return CommandError(say(error), ExitCode.UNREACHABLE)
    if isinstance(error, aws.ClientError):
        return _refused(error)
    return CommandError(f"AWS could not be asked: {error}", ExitCode.UNREACHABLE)


_CREDENTIALS = "set AWS_PROFILE or give --profile, or run `aws sso login` or `aws configure`; or start an embedded AWS with `longhaul up`"
_SENTENCES: Mapping[type[Exception], Callable[[Any], str]] = {
    aws.NoCredentialsError: lambda _: f"no AWS credentials, and no embedded AWS runs: {_CREDENTIALS}",
    aws.PartialCredentialsError: lambda error: f"the AWS credentials are incomplete ({error}): {_CREDENTIALS}",
    aws.ProfileNotFound: lambda error: f"{error}; `aws configure list-profiles` lists those that there are",
    aws.NoRegionError: lambda _: "no AWS region: give --region, or set AWS_REGION or the profile's region",
    aws.InvalidRegionError: lambda error: f"{error}: a region looks like eu-west-1",
    aws.SSOTokenLoadError: lambda error: f"the SSO session is not there ({error}): run `aws sso login`",
    aws.UnauthorizedSSOTokenError: lambda _: "the SSO session has expired: run `aws sso login`",
    aws.TokenRetrievalError: lambda error: f"the SSO session cannot be renewed ({error}): run `aws sso login`",
    aws.CredentialRetrievalError: lambda error: f"the credentials could not be had: {error}",
    aws.EndpointConnectionError: lambda error: (
        f"nobody answers at {error.kwargs.get('endpoint_url')}: is the region right, the network up, or, with AWS_ENDPOINT_URL, "
        "`longhaul up` still running?"
    ),
    aws.HTTPClientError: lambda error: f"the connection to AWS broke: {error}; try again",
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
_GONE = {
    "ResourceNotFoundException",
    "NonExistentQueue",
    "QueueDoesNotExist",
    "NoSuchBucket",
    "StateMachineDoesNotExist",
}


def _refused(error: aws.ClientError) -> CommandError:
    code = error.response["Error"]["Code"].rpartition(".")[2]
    text, what = error.response["Error"].get("Message", ""), error.operation_name
    if code in _EXPIRED:
        say = "the AWS credentials have expired: log in again (`aws sso login`), or renew them"
    elif code in _UNKNOWN:
        say = f"AWS does not know these credentials ({code}): {_CREDENTIALS}"
    elif code in _DENIED:
        say = f"not allowed: {what}: {text}; `longhaul doctor` says what the commands need"
    elif code in _GONE:
        say = f"{what}: {text or 'it is not there'}: a part of the stack is missing; `longhaul doctor` looks for it"
    elif "hrottl" in code or code in ("TooManyRequestsException", "SlowDown", "RequestLimitExceeded"):
        say = f"AWS is busy ({what}: {code}): try again in a minute"
    else:
        say = f"AWS refused {what}: {code}: {text}"
    return CommandError(say, ExitCode.UNREACHABLE)


def _of_file(error: OSError) -> str:
    place = f"{error.filename}: " if error.filename else ""
    return f"{place}{error.strerror or error}"
