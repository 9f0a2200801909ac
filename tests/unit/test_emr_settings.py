"""The limits of EMR Serverless and the sizes of jobs."""

import pytest

from longhaul.config.errors import SettingsError
from longhaul.config.sizes import Sizes
from tests.projects import checked

LARGEST = max(Sizes().by_name().values(), key=lambda size: (size.cpu, size.memory_mib))
VCPU, GIB = 2 * LARGEST.cpu // 1024, 2 * LARGEST.memory_mib // 1024


def test_limits_that_just_hold_a_driver_and_an_executor_of_the_largest_size_are_taken() -> None:
    assert checked({"emr_serverless": {"max_vcpu": VCPU, "max_memory_gib": GIB}})


@pytest.mark.parametrize(("vcpu", "gib"), [(VCPU - 1, GIB), (VCPU, GIB - 1)])
def test_limits_below_them_are_refused_because_such_a_job_would_wait_for_ever(
    vcpu: int, gib: int
) -> None:
    with pytest.raises(SettingsError, match="hold a driver and an executor of size xlarge"):
        checked({"emr_serverless": {"max_vcpu": vcpu, "max_memory_gib": gib}})
