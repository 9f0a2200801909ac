import io

import pytest
from rich.console import Console

from console.output import Output, printable


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
def test_what_came_from_outside_is_shown_and_not_obeyed(raw: str, shown: str) -> None:
    assert printable(raw) == shown


def test_lines_may_be_kept() -> None:
    assert printable("a\n\tb\r\n", lines=True) == "a\n\tb\\r\n"


def test_colours_are_for_terminals_that_want_them(monkeypatch: pytest.MonkeyPatch) -> None:
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
