import io
import re
from collections.abc import Sequence

import pytest
from rich.cells import cell_len
from rich.console import Console

from longhaul.cli.display.text import printable
from longhaul.cli.terminal.output import Output


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain, ünïcödé ✓ 日本", "plain, ünïcödé ✓ 日本"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("\x07\x08\x7f\x9b", "\\x07\\x08\\x7f\\x9b"),
        ("a\nb\tc\rd", "a\\nb\\tc\\rd"),
        ("\u202eevil\u2066\u200b\u2028", "\\u202eevil\\u2066\\u200b\\u2028"),
        ("\ud800 [red]markup[/red] :smile:", "\\ud800 [red]markup[/red] :smile:"),
    ],
)
def test_control_characters_are_shown_and_not_obeyed(raw: str, shown: str) -> None:
    assert printable(raw) == shown


def test_line_ends_can_be_kept() -> None:
    assert printable("a\n\tb\r\n", lines=True) == "a\n\tb\\r\n"


def test_colours_are_used_only_on_terminals_that_want_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def drawn() -> str:
        out, file = Output(), io.StringIO()
        out.data = Console(file=file, force_terminal=True, width=60, highlight=False)
        out.table(("job", "state"), [("[bold]a[/bold]", "DEAD")])
        return file.getvalue()

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[31m" in drawn()
    assert "[bold]a[/bold]" in drawn()
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[31m" not in drawn()


JOB = "year-2013/clean/38aab4616cf60bda61dd"
WHY = "permanent: params.query: [PARSE_SYNTAX_ERROR] Syntax error at or near 'SELEC'"
ROWS = [
    (JOB, "DEAD", "clean", "2", "6m26s", "", WHY),
    ("a", "RUNNING", "main", "1", "4s", "62% running", ""),
]


COLUMNS = ("job", "state", "stage", "attempt", "age", "progress", "why")


def listed(width: int, rows: Sequence[Sequence[str]] = ROWS) -> str:
    out, file = Output(), io.StringIO()
    out.data = Console(file=file, force_terminal=True, width=width, no_color=True, highlight=False)
    out.table(COLUMNS, rows)
    return re.sub(r"\x1b\[[0-9;]*m", "", file.getvalue())


def test_a_wide_terminal_shows_a_row_on_one_line() -> None:
    assert listed(160).splitlines() == [
        "job                                   state    stage  attempt  age    progress     why",
        f"{JOB}  DEAD     clean  2        6m26s               {WHY}",
        "a                                     RUNNING  main   1        4s     62% running",
    ]


def test_columns_that_do_not_fit_go_below_and_the_reason_folds_under_itself() -> None:
    assert listed(80).splitlines() == [
        "job                                   state    stage  attempt  age",
        "  progress     why",
        f"{JOB}  DEAD     clean  2        6m26s",
        "               permanent: params.query: [PARSE_SYNTAX_ERROR] Syntax error at or",
        "               near 'SELEC'",
        "a                                     RUNNING  main   1        4s",
        "  62% running",
    ]


@pytest.mark.parametrize("width", [8, 24, 40, 80, 119, 300])
@pytest.mark.parametrize("job", ["a", JOB, "y" * 128, "日本" * 30])
def test_a_narrow_terminal_cuts_nothing_off_and_no_line_is_too_wide(width: int, job: str) -> None:
    shown = listed(width, [(job, "SUCCEEDED", "main", "12", "3d4h", "100% done", WHY)])
    together = "".join(shown.split())
    for cell in (job, "SUCCEEDED", "main", "12", "3d4h", WHY):
        assert "".join(cell.split()) in together
    assert max(cell_len(line) for line in shown.splitlines()) <= width
