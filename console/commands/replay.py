"""`longhaul replay`: a handler on an event, on this machine, with services in memory."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from console.errors import CommandError, ExitCode
from console.output import Output, printable
from local.credentials import child_environment
from local.running import REGION
from local.synth import REPOSITORY

FUNCTIONS = ("dispatcher", "heartbeat", "settle", "sweeper")
_LIMIT_S = 120
_KEPT = ("PATH", "HOME", "LANG", "TMPDIR")


def replay(
    event_file: Annotated[
        Path, typer.Argument(help="The event as JSON, such as a file of events/. `-`: stdin.", allow_dash=True)
    ],
    function: Annotated[
        str | None, typer.Option("--function", help=f"{', '.join(FUNCTIONS)}.", show_default="the file's folder")
    ] = None,
) -> None:
    """Run a handler of this checkout on an event.

    Prints the handler's answer as JSON; its log, and what it left behind (leases, dead letters), go to stderr. All services are in memory and made for this one run:
    no account is touched, whatever credentials there are, and neither is a running embedded AWS. For an event that names an attempt there is a running lease, and each
    message of a batch is really held. The exit code is 1 if the handler raises.

    Example: longhaul replay events/settle/out-of-memory.json
    """
    out = Output()
    name = function or event_file.resolve().parent.name
    if name not in FUNCTIONS:
        raise CommandError(f"which function? name it with --function: {', '.join(FUNCTIONS)}", ExitCode.USAGE)
    outcome = _outcome(name, _event(event_file))
    for lease in outcome["leases"]:
        why = f" ({lease['class']}: {lease['error']})" if lease["class"] else ""
        owes = f", owes {', '.join(lease['owed'])}" if lease["owed"] else ""
        out.note(
            f"lease {lease['key']}: {lease['state']}, attempt {lease['attempt']}, failures {lease['failures']}{owes}{why}"
        )
    for letter in outcome["dead_letters"]:
        out.note(f"dead letter: {letter.get('class')}: {letter.get('reason')}")
    if outcome["error"] is not None:
        raise CommandError(f"the handler raised {outcome['error']}")
    out.record(outcome["answer"])


def _event(file: Path) -> str:
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text()
        event = json.loads(text)
    except UnicodeDecodeError:
        raise CommandError(f"{file}: is not UTF-8", ExitCode.USAGE) from None
    except (ValueError, RecursionError) as error:
        raise CommandError(f"{file}: is not valid JSON: {error}", ExitCode.USAGE) from None
    if not isinstance(event, dict):
        raise CommandError(f"{file}: an event is a JSON object", ExitCode.USAGE)
    return text


def _outcome(function: str, event: str) -> dict[str, Any]:
    # A process of its own, which knows of no account: neither credentials nor an endpoint get in.
    environment = {name: os.environ[name] for name in _KEPT if name in os.environ} | child_environment("", REGION)
    del environment["AWS_ENDPOINT_URL"]
    environment |= {"POWERTOOLS_SERVICE_NAME": function, "POWERTOOLS_TRACE_DISABLED": "1"}
    try:
        done = subprocess.run(
            [sys.executable, "-m", "local.replay", function],
            input=event,
            capture_output=True,
            cwd=REPOSITORY,
            env=environment,
            timeout=_LIMIT_S,
            text=True,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise CommandError(f"the handler was not done after {_LIMIT_S} s") from error
    sys.stderr.write(printable(done.stderr, lines=True))
    if done.returncode != 0:
        raise CommandError("the replay itself failed: the reason is above")
    found: dict[str, Any] = json.loads(done.stdout)
    return found
