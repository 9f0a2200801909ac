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

CONTRAST = """() => {
  const light = (rgb) => {
    const linear = (c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    const [r, g, b] = rgb.map((c) => linear(c / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const back = (node) => {
    for (let each = node; each; each = each.parentElement) {
      const [r, g, b, a = 1] = parse(getComputedStyle(each).backgroundColor);
      if (a > 0) return [r, g, b];
    }
    return [255, 255, 255];
  };
  const found = [];
  for (const node of document.querySelectorAll("body *")) {
    const texts = [...node.childNodes].some((each) => each.nodeType === 3 && each.nodeValue.trim());
    if (!texts || node.closest("svg, .unseen, .tl-words, [hidden], dialog:not([open])")) continue;
    const front = light(parse(getComputedStyle(node).color));
    const [a, b] = [front, light(back(node))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) found.push(`${node.textContent.trim().slice(0, 30)}: ${ratio.toFixed(2)}`);
  }
  return found;
}"""
"""Finds the texts of a page that differ too little from what is behind them."""


@contextmanager
def chromium(*options: str) -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        # No sandbox: in a container the tests run as root, and the pages are our own.
        browser = started.chromium.launch(
            executable_path=_CHROMIUM, args=["--no-sandbox", *options]
        )
        yield browser
        browser.close()
