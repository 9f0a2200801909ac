"""The requests that are let in, and those that are refused."""

import re
from http.cookies import SimpleCookie

import pytest

from console.page.guard import HEADERS, Guard
from tests.console.conftest import World
from tests.console.page.conftest import HOME, PORT, Visitor
from tests.console.page.scenes import dead

PATHS = (
    "/",
    "/job?id=x",
    "/find?id=x",
    "/dead-letters",
    "/ask/cancel?id=x",
    "/ask/redrive",
    "/static/page.js",
    "/nothing",
)


def test_the_link_lets_in_and_its_token_is_not_needed_again(stranger: Visitor) -> None:
    entered = stranger.enter()
    assert entered.status_code == 200
    assert 'http-equiv="refresh" content="0; url=/"' in entered.text
    assert stranger.guard.token not in entered.text
    cookie = next(iter(SimpleCookie(entered.headers["Set-Cookie"]).values()))
    assert (cookie["httponly"], cookie["samesite"], cookie["path"], cookie["domain"]) == (
        True,
        "Strict",
        "/",
        "",
    )
    assert stranger.guard.token not in cookie.value
    assert stranger.guard.token not in stranger.read("/")


def test_secrets_are_long_and_distinct_and_not_in_the_repr() -> None:
    one, two = Guard(PORT), Guard(PORT)
    secrets = {
        each for guard in (one, two) for each in (guard.token, guard.session, guard.form_token)
    }
    assert len(secrets) == 6
    assert min(map(len, secrets)) >= 43  # 256 bits in base64
    assert not any(secret in repr(one) for secret in secrets)
    assert re.fullmatch(rf"http://127\.0\.0\.1:{PORT}/\?token=[\w-]+", one.link)


@pytest.mark.parametrize("path", PATHS)
def test_without_the_token_nothing_is_shown(world: World, stranger: Visitor, path: str) -> None:
    dead(world, "secret-name", "why")
    world.aws.gate.counts.clear()
    answer = stranger.get(path)
    assert answer.status_code == 403
    assert "secret-name" not in answer.text
    assert not world.aws.gate.counts


@pytest.mark.parametrize("token", ["", "x", "tökén", "x" * 5000])
def test_a_wrong_token_does_not_let_in(stranger: Visitor, token: str) -> None:
    answer = stranger.get("/", token=token)
    assert (answer.status_code, "Set-Cookie" in answer.headers) == (403, False)
    assert stranger.get("/").status_code == 403


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8700",
        "127.0.0.1",
        "127.0.0.1:80",
        "127.0.0.1:8700.evil.example",
        "",
        "[::1]:8700",
    ],
)
def test_a_foreign_host_name_is_refused(visitor: Visitor, host: str) -> None:
    answer = visitor.client.get("/", base_url=HOME, headers={"Host": host})
    assert answer.status_code == 421
    entry = visitor.client.get(
        "/", query_string={"token": visitor.guard.token}, base_url=HOME, headers={"Host": host}
    )
    assert (entry.status_code, "Set-Cookie" in entry.headers) == (421, False)


def test_localhost_is_accepted(stranger: Visitor) -> None:
    there = f"http://localhost:{PORT}"
    stranger.client.get("/", query_string={"token": stranger.guard.token}, base_url=there)
    assert stranger.client.get("/", base_url=there).status_code == 200
    assert stranger.get("/").status_code == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_another_page_in_the_same_browser_is_refused(visitor: Visitor, site: str) -> None:
    answer = visitor.client.get("/dead-letters", base_url=HOME, headers={"Sec-Fetch-Site": site})
    assert answer.status_code == 403
    # A link from it may be followed.
    entry = {"query_string": {"token": visitor.guard.token}, "headers": {"Sec-Fetch-Site": site}}
    assert visitor.client.get("/", base_url=HOME, **entry).status_code == 200


@pytest.mark.parametrize(
    "origin",
    [None, "null", "http://127.0.0.1:9", "http://evil.example", f"https://127.0.0.1:{PORT}"],
)
def test_a_form_of_another_page_does_nothing(
    world: World, visitor: Visitor, origin: str | None
) -> None:
    world.claim("job")
    form = {"form_token": visitor.guard.form_token, "stage": "main", "id": "job"}
    headers = {"Origin": origin} if origin else {}
    assert (
        visitor.client.post("/do/cancel", data=form, base_url=HOME, headers=headers).status_code
        == 403
    )
    row = world.parts.leases.load("main#job")
    assert row is not None
    assert row.cancel_requested_at is None


@pytest.mark.parametrize("form_token", [None, "", "x", "ä"])
def test_a_form_without_its_token_does_nothing(
    world: World, visitor: Visitor, form_token: str | None
) -> None:
    world.claim("job")
    form = {"stage": "main", "id": "job"} | (
        {} if form_token is None else {"form_token": form_token}
    )
    assert (
        visitor.client.post(
            "/do/cancel", data=form, base_url=HOME, headers={"Origin": HOME}
        ).status_code
        == 403
    )
    row = world.parts.leases.load("main#job")
    assert row is not None
    assert row.cancel_requested_at is None


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/do/cancel", "POST"),
        ("GET", "/do/redrive", "POST"),
        ("POST", "/", "GET"),
        ("PUT", "/job", "GET"),
        ("OPTIONS", "/", "GET"),
    ],
)
def test_each_address_takes_one_method(
    visitor: Visitor, method: str, path: str, allowed: str
) -> None:
    form = {"data": {"form_token": visitor.guard.form_token}} if method != "GET" else {}
    answer = visitor.client.open(
        path, method=method, base_url=HOME, headers={"Origin": HOME}, **form
    )
    assert (answer.status_code, allowed in answer.headers["Allow"]) == (405, True)


def test_a_body_that_is_too_large_is_refused(visitor: Visitor) -> None:
    assert visitor.post("/do/cancel", stage="main", id="x" * 70_000).status_code == 413
    assert visitor.post("/do/redrive", letter=["x"] * 40_000).status_code == 413


@pytest.mark.parametrize(
    "path", ["/", "/static/page.js", "/nothing", "/ask/cancel?id=x", "/do/cancel"]
)
def test_every_response_has_the_security_headers(visitor: Visitor, path: str) -> None:
    headers = visitor.get(path).headers
    assert {name: headers[name] for name in HEADERS} == HEADERS
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert "*" not in policy
    assert headers["Cache-Control"] == "no-store"
