"""What becomes of the secrets of stages."""

import json
from typing import TYPE_CHECKING

from simulation.seen.invariants.table import invariant

if TYPE_CHECKING:
    from simulation.aws.platform.job_process import JobProcess
    from simulation.seen.record import Seen
    from simulation.seen.sightings import DeadLetter
    from simulation.seen.trace import Row


@invariant("S21", "row written", "no row has the value of a secret")
def rows_show_no_secret(seen: "Seen", written: "tuple[Row | None, Row]") -> str | None:
    return _shown(seen, json.dumps(written[1]), written[1]["key"]["S"])


@invariant("S21", "dead letter", "no dead letter has the value of a secret")
def letters_show_no_secret(seen: "Seen", letter: "DeadLetter") -> str | None:
    return _shown(seen, f"{letter.body}{letter.reason}", f"the letter of {letter.job_id}")


@invariant("S21", "container over", "an attempt has the secret that was there when it began")
def secrets_are_read_by_each_attempt(seen: "Seen", container: "JobProcess") -> str | None:
    if container.secret is None:
        return None
    before = [value for at, value in seen.world.secrets if at <= container.began_at]
    since = [value for at, value in seen.world.secrets if at > container.began_at]
    if container.secret in (*before[-1:], *since):
        return None
    return f"{container.host.name} has {container.secret!r}, and there was {before[-1:] + since}"


def _shown(seen: "Seen", text: str, where: str) -> str | None:
    shown = any(value and value in text for _, value in seen.world.secrets)
    return f"{where} shows a secret" if shown else None
