"""What CDK apps may import. A change here is one that they notice."""

import longhaul.cdk
from tests.public_names import members, undocumented


def test_every_public_name_is_documented() -> None:
    assert longhaul.cdk.__doc__
    assert undocumented(longhaul.cdk) == []


def test_what_a_cdk_app_imports() -> None:
    assert members(longhaul.cdk) == {
        "AdvancedStageDeployment": "",
        "EmrSettings": "",
        "FollowOnSettings": "",
        "LeaseSettings": "",
        "Longhaul": (
            "data_bucket leases_table state_machine alarms_topic name job_roles job_role queue "
            "dead_letter_queue grant_submit grant_client metric add_outputs"
        ),
        "NetworkSettings": "",
        "RequestLimits": "",
        "Schedule": "",
        "Settings": "",
        "SettingsError": "",
        "Size": "",
        "Sizes": "",
        "StageDeployment": "",
        "TinySize": "",
        "Trigger": "",
    }
