"""The demo's own tests of its jobs, in the session that the others have warmed.

`longhaul test` runs them as a user does, which is slow (`test_project_tests.py`).
"""

import sys

import pytest

from tests.layers import DEMO_JOBS

pytestmark = pytest.mark.usefixtures("spark")

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(DEMO_JOBS)
    from examples.demo.tests.test_daily_delays import *  # noqa: F403 - each of its tests
    from examples.demo.tests.test_flights_clean import *  # noqa: F403 - and their fixture
# As after the fixture `demo_jobs`: other tests find these modules by themselves.
for file in DEMO_JOBS.glob("*.py"):
    sys.modules.pop(file.stem, None)
