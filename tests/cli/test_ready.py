"""What `longhaul up` prints when it is ready."""

import io
import json
import sys

import pytest
from rich.console import Console

from longhaul.cli.local.ready import say_ready
from longhaul.cli.terminal.output import Output
from longhaul.core.settings import PathPolicy
from tests.builders import settings, stage

SETTINGS = settings(
    stages=(stage(slots=2),),
    paths=PathPolicy(data_bucket="data"),
    jobs=("flights", "sql"),
)
PLACE = {"endpoint": "http://127.0.0.1:4566", "region": "us-east-1"}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_program_gets_one_json_line(capsys: pytest.CaptureFixture[str]) -> None:
    say_ready(Output(), SETTINGS, **PLACE, outputs={"DataBucketName": "data"})
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line) == PLACE | {"outputs": {"DataBucketName": "data"}}


def test_a_person_gets_what_there_is_and_what_to_type_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    out = Output()
    out.data = Console(file=terminal, width=100, color_system=None, highlight=False)
    say_ready(out, SETTINGS, **PLACE, outputs={"DataBucketName": "data"})
    assert terminal.getvalue() == (
        "stages  main\n"
        "jobs    flights, sql\n"
        "bucket  data\n"
        "next, in another terminal:\n"
        "  longhaul submit --job sql --param 'query=SELECT 1 AS one'"
        " --output data:one/ --wait\n"
        "  longhaul status\n"
        "  longhaul logs JOB\n"
        "  longhaul console     (a page in the browser)\n"
    )
