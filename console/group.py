"""Where the errors of all commands become a sentence on stderr and an exit code."""

import errno
from typing import Any, NoReturn

import typer
from botocore.exceptions import BotoCoreError, ClientError
from typer.core import TyperGroup

from console.errors import CommandError, ExitCode, translated
from console.output import Output
from longhaul.domain.errors import LonghaulError


class Commands(TyperGroup):
    """A user's error ends in a sentence; a traceback is a defect of ours."""

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - click's types, which Typer keeps to itself
        try:
            return super().invoke(ctx)
        except typer.Exit:
            raise
        except (KeyboardInterrupt, typer.Abort):
            raise typer.Exit(ExitCode.INTERRUPTED) from None
        except (BotoCoreError, ClientError) as error:
            # Before OSError, which some of them are.
            _end(translated(error))
        except OSError as error:
            if error.errno == errno.EPIPE:  # whoever read our output has seen enough
                raise
            place = f"{error.filename}: " if error.filename else ""
            _end(CommandError(f"{place}{error.strerror or error}"))
        except CommandError as error:
            _end(error)
        except (LonghaulError, RuntimeError) as error:  # of the embedded AWS: no synth, no deployment, no port
            _end(CommandError(str(error)))


def _end(error: CommandError) -> NoReturn:
    Output().problem(str(error))
    raise typer.Exit(error.code) from None
