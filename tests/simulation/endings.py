"""How attempts can go, and whose fault it then is. What settle makes of it is settle's to say; invariants only ask whose fault it was."""

OWN_FAULTS = frozenset(
    {
        "fails",  # the job raises: recorded, exit 1
        "fails_silently",  # exit 1, nothing recorded
        "crashes",  # exit 139, nothing recorded
        "permanent",  # the job says that it cannot succeed: exit 65
        "no_output",  # the job writes nothing
        "exits_with_0",  # the JVM died, and Python did not notice
        "oom_killed",  # by the kernel: 137 and a reason
        "oom_in_jvm",  # recorded by the runner, exit 137
        "jvm_hangs",  # no progress; the runner lives, and says so
        "hangs",  # the whole process, deaf to SIGTERM
        "endless",  # progress without end
        "dies_before_commit",  # exit 137, with all its uploads pending
    }
)
PLATFORM_FAULTS = frozenset(
    {
        "never_starts",  # the task stays where it is
        "fails_to_start",  # TaskFailedToStart: no container, no exit code
        "spot",  # SIGTERM two minutes before
        "maintenance",  # TerminationNotice: SIGTERM, SIGKILL after the stop timeout
        "infrastructure",  # gone without a word
        "cut_off",  # called stopped, while in truth it works on: what the fence is for
    }
)
KINDS = frozenset({"done", "slow_start", "dies_after_commit", "uploads_end"}) | OWN_FAULTS | PLATFORM_FAULTS
"""`dies_after_commit`: SIGKILL between commit and publish. `uploads_end`: the same, and the bucket's rule ends the uploads before anybody publishes."""
