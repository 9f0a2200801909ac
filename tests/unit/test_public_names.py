"""What jobs, their tests and producers may import. A change here is one that they notice."""

from types import ModuleType

import pytest

import longhaul.client
import longhaul.job
import longhaul.testing
from tests.public_names import members, undocumented

NAMES = {
    longhaul.job: {
        "ArrowStream": "",
        "Format": "",
        "Input": "path extensions types",
        "Job": (
            "params inputs parents input read write checkpoint folder state save on_stop"
            " is_stopping id run attempt key deadline files progress quiet metric emit"
        ),
        "Params": "",
        "Parent": "id stage run attempt result rows metrics",
        "PermanentJobError": "",
        "Request": "",
    },
    longhaul.testing: {
        "Emitted": "",
        "KeptResult": "",
        "MakeJob": "",
        "Metrics": "",
        "Written": "",
        "emitted": "",
        "kept_result": "",
        "make_job": "",
        "metrics": "",
        "spark": "",
        "written": "",
    },
    longhaul.client: {
        "AmbiguousJobError": "",
        "Client": "submit submit_many status wait result cancel rerun",
        "ForeignStackError": "",
        "FurtherOutput": "output files",
        "InvalidRequestError": "",
        "JobCancelledError": "",
        "JobDeadError": "",
        "JobIdConflictError": "",
        "JobResult": "status output files value rows metrics outputs",
        "JobStatus": (
            "job_id stage state name label tags job sent_at sender root parent run attempt "
            "failures max_attempts interruptions run_began attempt_began seconds size engine "
            "timeout_s progress progress_at beats lease_expires_at kind error settled_at "
            "retry_at waits_for waits_until cancel_requested_at "
            "owed saved_at saved_bytes saved_by output outputs "
            "published_at result result_problem rows metrics "
            "message_id receive_count execution_arn log_group log_stream "
            "is_finished key is_open is_running was_accepted moment fraction phase results"
        ),
        "LonghaulError": "",
        "NoSuchJobError": "",
        "NoSuchStackError": "",
        "NoSuchStageError": "",
        "NotRetriableError": "",
        "NotSentError": "",
        "OtherVersionError": "",
        "OutputFile": "url size dataset",
        "RetiredStageError": "",
        "SubmittedJob": "job_id stage message_id awaited",
        "UnsentRequest": "request reason",
        "WaitTimeoutError": "",
    },
}


@pytest.mark.parametrize("module", NAMES, ids=lambda module: module.__name__)
def test_every_public_name_is_meant_and_documented(module: ModuleType) -> None:
    assert members(module) == NAMES[module]
    assert module.__doc__
    assert undocumented(module) == []
