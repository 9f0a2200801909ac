"""boto3 for code that runs on hosts: clients of the fakes whose calls take time, fail, and are tried again as botocore's standard mode tries them."""

import copy
from collections.abc import Callable
from typing import Any

from botocore.config import Config
from botocore.exceptions import ClientError
from greenlet import GreenletExit

from tests.fakes.aws import FakeAws
from tests.fakes.service import Answer, Call, Proceed, Service
from tests.simulation.call_faults import error_of, is_retried
from tests.simulation.hosts import Host, here
from tests.simulation.injection import Injector
from tests.simulation.timeline import Timeline

_DEFAULT_TRIES = 5  # botocore's legacy mode: 5 in all
_MAX_BACKOFF_S = 20.0
_DEFAULT_TIMEOUT_S = 60.0

Saw = Callable[[Call, Host], None]
"""Hears of every call that took effect."""

Refused = Callable[[Call, Host, str], None]
"""Hears of every call that a service refused, with its words."""


def tries_of(config: Config | None) -> int:
    """How often botocore tries a call with this configuration, the first time included."""
    retries: Any = getattr(config, "retries", None) or {}
    if "total_max_attempts" in retries:
        return int(retries["total_max_attempts"])
    return 1 + int(retries["max_attempts"]) if "max_attempts" in retries else _DEFAULT_TRIES


def timeout_of(config: Config | None) -> float:
    """Seconds after which botocore gives up waiting for an answer."""
    return float(getattr(config, "read_timeout", None) or _DEFAULT_TIMEOUT_S)


class Sdk:
    def __init__(self, aws: FakeAws, timeline: Timeline, injector: Injector, saw: Saw, refused: Refused) -> None:
        self._aws = aws
        self.timeline = timeline
        self.injector = injector
        self.saw = saw
        self.refused = refused

    def client(self, service_name: str, *, config: Config | None = None, endpoint_url: str | None = None) -> Any:
        """In the place of `boto3.client`."""
        del endpoint_url
        service: Service = copy.copy(getattr(self._aws, service_name))
        service.gate = SdkGate(self, tries_of(config), timeout_of(config))  # type: ignore[assignment]  # a gate by its call
        return service


class SdkGate:
    def __init__(self, sdk: Sdk, tries: int, timeout_s: float) -> None:
        self._sdk = sdk
        self._tries = tries
        self._timeout_s = timeout_s

    def __call__(self, call: Call, proceed: Proceed) -> Answer:
        sdk = self._sdk
        host = here()
        kind = sdk.injector.of_call(host, call, host.rng.random())
        sdk.timeline.sleep(0.004 + 0.036 * host.rng.random())
        if kind is None:
            return self._through(call, proceed, host)
        return self._faulty(call, proceed, host, kind)

    def _faulty(self, call: Call, proceed: Proceed, host: Host, kind: str) -> Answer:
        sdk = self._sdk
        what, _, rest = kind.partition("/")
        when, _, times = rest.partition("/")
        if what == "slow":
            sdk.timeline.sleep(float(rest))
            return self._through(call, proceed, host)
        for tried in range(self._tries):
            if tried and times == "1":
                return self._through(call, proceed, host)
            if when == "after":
                self._through(call, proceed, host)  # may refuse, and then that is the answer
            if what in ("crash", "hang"):
                self._end(host, what)
            if what == "lost":
                sdk.timeline.sleep(self._timeout_s)
            if not is_retried(what) or tried == self._tries - 1:
                break
            sdk.timeline.sleep(host.rng.random() * min(2.0**tried, _MAX_BACKOFF_S))
        raise error_of(what, call)

    def _through(self, call: Call, proceed: Proceed, host: Host) -> Answer:
        try:
            answer = proceed()
        except ClientError as error:
            self._sdk.refused(call, host, error.response["Error"]["Message"])
            raise
        self._sdk.saw(call, host)
        return answer

    def _end(self, host: Host, what: str) -> None:
        host.kill()
        if what == "crash":
            host.crashed()
        raise GreenletExit
