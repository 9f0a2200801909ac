"""boto3 for code that runs on hosts.

Its clients are the fakes. Calls take time, fail, and are retried as in botocore's standard mode.
"""

from collections import Counter
from collections.abc import Callable
from email.utils import format_datetime
from typing import Any

from botocore.config import Config
from botocore.exceptions import ClientError, NoRegionError
from greenlet import GreenletExit

from simulation.aws.cloud import FakeAws, attribute_of
from simulation.aws.platform.hosts import Host, current_host, here, wait_for_good
from simulation.aws.platform.timeline import Timeline
from simulation.aws.service import Answer, Call, Proceed, Service
from simulation.worlds.faults import DENIALS, error_of, is_retried
from simulation.worlds.injection import Injector

_DEFAULT_TRIES = 5  # botocore's legacy mode: 5 in all
_MAX_BACKOFF_S = 20.0
_DEFAULT_TIMEOUT_S = 60.0
_SERVER_ERROR = 500

Saw = Callable[[Call, Host], None]
"""Called for each call that took effect."""

Refused = Callable[[Call, Host, str], None]
"""Called for each call that a service refused, with the message."""


def tries_of(config: Config | None) -> int:
    """How often botocore tries a call with this configuration, first try included."""
    retries: Any = getattr(config, "retries", None) or {}
    if "total_max_attempts" in retries:
        return int(retries["total_max_attempts"])
    return 1 + int(retries["max_attempts"]) if "max_attempts" in retries else _DEFAULT_TRIES


def timeout_of(config: Config | None) -> float:
    """Seconds after which botocore gives up waiting for an answer."""
    return float(getattr(config, "read_timeout", None) or _DEFAULT_TIMEOUT_S)


class Sdk:
    def __init__(
        self, aws: FakeAws, timeline: Timeline, injector: Injector, saw: Saw, refused: Refused
    ) -> None:
        self._aws = aws
        self.timeline = timeline
        self.injector = injector
        self.saw = saw
        self.refused = refused
        self.counts: Counter[str] = Counter()
        """Answered and refused calls, by `service.Operation`."""

    def client(self, service_name: str, *, config: Config | None = None, **_: str | None) -> Any:
        """Stands in for `boto3.client`; there is one endpoint, of one region.

        Raises:
            NoRegionError: nothing names the region to the calling process.
        """
        host = current_host()
        if host is not None and not host.has_region:
            raise NoRegionError
        fake: Service = getattr(self._aws, attribute_of(service_name))
        service = object.__new__(type(fake))  # as `copy.copy`, which takes ten times as long
        service.__dict__.update(fake.__dict__)
        service.gate = SdkGate(self, tries_of(config), timeout_of(config))  # type: ignore[assignment]  # a gate by its call
        return service

    def dated(self) -> Answer:
        """What botocore adds to an answer: AWS's time, in whole seconds."""
        date = format_datetime(self.timeline.clock.now(), usegmt=True)
        return {"ResponseMetadata": {"HTTPHeaders": {"date": date}}}


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
            return self._repeated(call, proceed, host)
        return self._faulty(call, proceed, host, kind)

    def _repeated(self, call: Call, proceed: Proceed, host: Host) -> Answer:
        """Try again after a 5xx of the service's own, as that of a slow completion."""
        for tried in range(self._tries):
            try:
                return self._through(call, proceed, host)
            except ClientError as error:
                status = error.response["ResponseMetadata"]["HTTPStatusCode"]
                if status < _SERVER_ERROR or tried == self._tries - 1:
                    raise
            self._back_off(host, tried)
        raise AssertionError("no try was made")

    def _back_off(self, host: Host, tried: int) -> None:
        self._sdk.timeline.sleep(host.rng.random() * min(2.0**tried, _MAX_BACKOFF_S))

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
                self._through(call, proceed, host)  # a refusal is raised from here
            if what == "crash":
                host.kill()
                host.crashed()
                raise GreenletExit
            if what == "hang":
                wait_for_good()
            if what == "lost":
                sdk.timeline.sleep(self._timeout_s)
            if what in DENIALS:
                host.facts.setdefault("denied", []).append(call)
            if not is_retried(what) or tried == self._tries - 1:
                break
            self._back_off(host, tried)
        raise error_of(what, call)

    def _through(self, call: Call, proceed: Proceed, host: Host) -> Answer:
        here()  # a process that was left behind tries nothing again
        self._sdk.counts[f"{call.service}.{call.operation}"] += 1
        try:
            answer = proceed()
        except ClientError as error:
            if call.operation == "GetSecretValue":
                host.facts.setdefault("denied", []).append(call)  # it is not there
            self._sdk.refused(call, host, error.response["Error"]["Message"])
            raise
        self._sdk.saw(call, host)
        return {**answer, **self._sdk.dated()}
