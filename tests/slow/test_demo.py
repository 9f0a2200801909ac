"""The demo as a user runs it, with its output in a pipe."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.layers import ROOT

pytestmark = pytest.mark.slow


def test_the_demo_passes_its_own_checks(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "longhaul.cli.cli", "demo", "--work-dir", str(tmp_path)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = (
        "ok  336,776 rows in = ",
        "SIGKILL sent to the process group of clean ",
        "SIGKILL sent to the process group of delays",
        "ok  12 months ran on Lambda; what was killed went on with small",
        "ok  one submission became 12 months and 1 join",
        "ok  the join was killed in its middle; its next attempt took over ",
        "all checks passed",
        f"report: {tmp_path / 'report.html'}",
    )
    assert [line for line in lines if line not in done.stdout] == []
    report = (tmp_path / "report.html").read_text()
    assert "interrupted" in report or "failed" in report
    # Year, 12 months, bad rows, join, invalid body.
    assert len({*re.findall(r'data-key="(\w+#[^"]+)"', report)}) == 16
    assert "\x1b[" not in done.stdout
