import json
from pathlib import Path

import pytest

from longhaul.cli.synth import WrongSettingsError, synth


def test_error_of_the_app_is_in_the_message(tmp_path: Path) -> None:
    profile = tmp_path / "profile.json"
    profile.write_text(json.dumps({"longhaul": {"no_such_setting": 1}}))

    with pytest.raises(WrongSettingsError, match=r"^longhaul\.no_such_setting: "):
        synth(tmp_path / "cdk.out", profile=profile)
