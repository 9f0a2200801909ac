"""The judge's engine, and what need not ask it."""

import json
from threading import Event, Thread
from typing import Any

import pytest

from longhaul.local.iam.judge import Access, Judge, Policies, Verdict
from tests.local.support import ACCOUNT
from tests.patience import DEADLINE_S

WHO = f"arn:aws:sts::{ACCOUNT}:assumed-role/job/one"
STATEMENT = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::data/*"}
POLICIES = Policies((json.dumps({"Version": "2012-10-17", "Statement": [STATEMENT]}),))


def decide(judge: Judge, key: str) -> Verdict:
    return judge.decide(WHO, ACCOUNT, Access("s3:GetObject", f"arn:aws:s3:::data/{key}"), POLICIES)


def test_a_decision_that_is_known_does_not_wait_for_the_engine(
    judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert decide(judge, "known").allowed
    asked, goes_on = Event(), Event()
    stock = judge._ask

    def ask(request: str) -> dict[str, Any]:
        asked.set()
        assert goes_on.wait(DEADLINE_S)
        return stock(request)

    monkeypatch.setattr(judge, "_ask", ask)
    waiting = Thread(target=decide, args=(judge, "new"))
    waiting.start()
    assert asked.wait(DEADLINE_S)
    known: list[Verdict] = []
    quick = Thread(target=lambda: known.append(decide(judge, "known")))
    quick.start()
    quick.join(DEADLINE_S)
    is_known = known[:]
    goes_on.set()
    waiting.join(DEADLINE_S)
    quick.join(DEADLINE_S)
    assert is_known == [Verdict(allowed=True)]
