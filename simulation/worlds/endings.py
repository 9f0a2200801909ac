"""How an attempt can end, and whether that is the job's fault or the platform's.

Settle decides what follows; invariants ask only for the fault.
"""

OWN_FAULTS = frozenset(
    {
        "fails",  # the job raises: recorded, exit 1
        "fails_silently",  # exit 1, nothing recorded
        "crashes",  # exit 139, nothing recorded
        "permanent",  # the job raises that it cannot succeed: exit 65
        "no_output",  # the job writes nothing
        "exits_with_0",  # the JVM died, and Python did not notice
        "oom_killed",  # by the kernel: 137 and a reason
        "oom_in_jvm",  # recorded by the runner, exit 137
        "jvm_hangs",  # no progress; the runner lives, and reports it
        "hangs",  # the whole process hangs, also on SIGTERM
        "endless",  # progress, but no end
        "dies_before_commit",  # exit 137, with all uploads pending
    }
)
LAMBDA_FAULTS = frozenset(
    {
        "frozen",  # all stands still, for minutes or until it is given up
    }
)
"""On Fargate they are nothing."""
EMR_FAULTS = frozenset(
    {
        "loses_executors",  # all of them; others come after a while, or not in this attempt
    }
)
"""On one machine they are nothing."""
PLATFORM_FAULTS = frozenset(
    {
        "never_starts",  # the task stays in its first state
        "fails_to_start",  # TaskFailedToStart: no container, no exit code
        "spot",  # SIGTERM two minutes before
        "maintenance",  # TerminationNotice: SIGTERM, SIGKILL after the stop timeout
        "infrastructure",  # gone without a signal
        "partitioned",  # it works, and none of its calls reaches AWS any more
        "cut_off",  # reported as stopped, but it still works: the fence must hold
    }
)
KINDS = (
    frozenset({"done", "slow_start", "disk_full", "dies_after_commit", "uploads_end"})
    | OWN_FAULTS
    | PLATFORM_FAULTS
    | LAMBDA_FAULTS
    | EMR_FAULTS
)
"""`disk_full`: another size helps, so it counts as nobody's fault.

`dies_after_commit`: SIGKILL between commit and publish.

`uploads_end`: the same, and the bucket's lifecycle rule ends the uploads before they are published.
"""
