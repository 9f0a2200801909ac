from collections.abc import Iterator

import pytest

from longhaul.cli.local.aws import roles_judge
from longhaul.local.iam.judge import Judge


@pytest.fixture(scope="session")
def judge() -> Iterator[Judge]:
    judge = Judge(roles_judge())
    yield judge
    judge.close()
