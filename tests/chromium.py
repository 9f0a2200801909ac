"""Debian's chromium, headless; without it, or without playwright, its tests are skipped."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

playwright = pytest.importorskip(
    "playwright.sync_api", reason="playwright is not installed: pip install -r requirements-dev.txt"
)
_CHROMIUM = shutil.which("chromium")
MARKS = [
    pytest.mark.slow,
    pytest.mark.skipif(_CHROMIUM is None, reason="there is no chromium: apt-get install chromium"),
]


@contextmanager
def chromium(*options: str) -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        # No sandbox: in a container the tests run as root, and the pages are our own.
        browser = started.chromium.launch(
            executable_path=_CHROMIUM, args=["--no-sandbox", *options]
        )
        yield browser
        browser.close()
