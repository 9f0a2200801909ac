"""The page against the strict fakes, as the browser of its user sees it."""

import re
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Any

import pytest
from werkzeug.test import Client, TestResponse

from longhaul.cli.page.app import Page
from longhaul.cli.page.guard import Guard
from longhaul.cli.target import Target
from tests.cli.conftest import PLACE, World
from tests.cli.page.scenes import three_stages

PORT = 8700
HOME = f"http://127.0.0.1:{PORT}"
ROOT = "/the-secret"


class Elements(HTMLParser):
    """The elements that a browser finds in a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.found if name == tag]


def words(html: str) -> str:
    """The text of a page, without its markup, on one line."""
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def offered(html: str, what: str) -> str:
    """Where a list asks about all that it shows."""
    links = (str(each.get("href")) for each in Elements(html).of("a"))
    return next(each for each in links if f"/ask/{what}?window=" in each)


@dataclass
class Visitor:
    """A simple browser, which knows the secret: it sends the Origin of a form."""

    client: Client

    def get(self, path: str, **query: Any) -> TestResponse:
        return self.client.get(_below(path), query_string=query or None, base_url=HOME)

    def read(self, path: str, **query: Any) -> str:
        answer = self.get(path, **query)
        assert answer.status_code == 200, answer.text
        return answer.text

    def post(self, path: str, **form: Any) -> TestResponse:
        """Send a form as the page does."""
        return self.client.post(_below(path), data=form, base_url=HOME, headers={"Origin": HOME})

    def do(self, path: str, **form: Any) -> str:
        """Post, and read the page that follows."""
        done = self.post(path, **form)
        assert done.status_code == 303, done.text
        return self.read(done.headers["Location"])


def _below(path: str) -> str:
    """The path as the page has it; one that it gave us is that already."""
    return path if path.startswith(ROOT) else f"{ROOT}{path}"


def visitor_of(target: Target) -> Visitor:
    guard = Guard(PORT, ROOT.removeprefix("/"))
    return Visitor(Client(Page(target, guard)))


@pytest.fixture
def visitor(target: Target) -> Visitor:
    return visitor_of(target)


@pytest.fixture
def pipeline(world: World) -> Visitor:
    three_stages(world)
    return visitor_of(Target(PLACE, None))
