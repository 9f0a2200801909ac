"""The smallest worlds that once showed a defect; every invariant must hold in them."""

from collections.abc import Mapping

from simulation.worlds.plan import Act, Ending, Fault, Job, Mix, Plan

_SUBMIT = Act(1.0, "submit", "j0")

REGRESSIONS: Mapping[str, Plan] = {
    "an upload that S3 refused for a while was the job's failure": Plan(
        jobs=(Job("j0", work_s=9.0, files=1),),
        acts=(_SUBMIT,),
        faults=(Fault("task@j0-1.1", 10, "unavailable/before/all"),),
        max_attempts=1,
    ),
    "a task that never started was a job that ran too long": Plan(
        jobs=(Job("j0", endings=(Ending("never_starts"),), timeout_s=300),),
        acts=(_SUBMIT,),
        faults=(),
        max_attempts=1,
    ),
    "a progress report that was tried for minutes made a healthy job look stalled": Plan(
        jobs=(Job("j0", work_s=300.0, stall_timeout_s=120),),
        acts=(_SUBMIT,),
        faults=(Fault("task@j0-1.1", 6, "lost/before/all"),),
        max_attempts=1,
    ),
    "a stall while S3 kept an upload waiting was the job's": Plan(
        jobs=(Job("j0", work_s=9.0, stall_timeout_s=60, files=1),),
        acts=(_SUBMIT,),
        faults=(Fault("task@j0-1.1", 10, "lost/before/all"),),
        max_attempts=1,
    ),
    "a registration that DynamoDB kept waiting was a stalled job": Plan(
        jobs=(Job("j0", stall_timeout_s=120, files=1),),
        acts=(_SUBMIT,),
        faults=(Fault("task@j0-1.1", 1, "lost/after/all"),),
        max_attempts=1,
    ),
    "a stall at the publisher's first look at S3 was the job's": Plan(
        jobs=(Job("j0", work_s=9.0, stall_timeout_s=60, files=1),),
        acts=(_SUBMIT,),
        faults=(Fault("task@j0-1.1", 8, "lost/before/all"),),
        max_attempts=1,
    ),
    "a task that the platform had ended an hour before was a stalled job": Plan(
        jobs=(Job("j0", work_s=600.0, endings=(Ending("infrastructure", 200.0),)),),
        acts=(_SUBMIT,),
        faults=(Fault("told:j0-1", 1, "late"),),
        max_attempts=1,
    ),
    "a call that S3 did not answer until the job's time was up was the job's failure": Plan(
        seed=2002960,
        jobs=(
            Job(
                "j0",
                work_s=18.1,
                endings=(Ending("endless", 3.6), Ending("spot", 14.1)),
                timeout_s=627,
                files=1,
            ),
        ),
        acts=(Act(23.6, "submit", "j0"),),
        faults=(
            Fault("task@j0-3.1", 2, "lost/before/all"),
            Fault("task@j0-4.1", 10, "lost/before/all"),
        ),
        max_attempts=2,
    ),
    "a job whose reports DynamoDB did not take for minutes was a stalled one": Plan(
        jobs=(Job("j0", work_s=600.0, stall_timeout_s=120),),
        acts=(_SUBMIT, Act(300.0, "outage", for_s=143.0, service="dynamodb")),
        max_attempts=1,
    ),
    "a clock that was ahead let the next attempt begin beside a task that was being stopped": Plan(
        seed=2002784,
        jobs=(
            Job("j0", files=1),
            Job("j1", endings=(Ending("fails_silently", 580.2), Ending("hangs", 530.6)), files=1),
        ),
        acts=(Act(42.7, "submit", "j0"), Act(90.2, "submit", "j1")),
        mix=Mix(skew_s=120.0),
    ),
    "a clock that was ahead let the next attempt begin beside an invocation that went on": Plan(
        seed=88003901,
        jobs=(
            Job(
                "j0",
                work_s=19.2,
                endings=(Ending("hangs", 0.1), Ending("fails", 8.8), Ending("hangs", 10.7)),
                output="shared",
                size="tiny",
            ),
        ),
        acts=(
            Act(190.0, "submit", "j0"),
            Act(218.6, "stop_execution", "j0"),
            Act(241.6, "cancel", "j0"),
            Act(322.4, "correct", "j0", work=3),
        ),
        mix=Mix(
            calls=0.005,
            events=0.3,
            completes=0.6,
            skew_s=120.0,
            stale_handles="ignore",
            index_lag_s=20.0,
            reorder=True,
        ),
        faults=(Fault("dispatcher@m28#1", 1, "slow/6"),),
    ),
    "a row expired within minutes, while a batch with its job's message was delivered late": Plan(
        seed=88004282,
        jobs=(Job("j0", work_s=3.0, output="shared", stall_timeout_s=120, size="tiny"),),
        acts=(
            Act(1.0, "submit", "j0"),
            Act(1.0, "redeliver", "j0"),
            Act(157.3, "cancel", "j0"),
            Act(158.5, "resubmit", "j0", work=3),
            Act(218.0, "cancel", "j0"),
            Act(513.0, "purge"),
            Act(742.7, "expire", "j0"),
            Act(1202.5, "submit", "j0", work=3),
        ),
        mix=Mix(
            calls=0.02,
            launches=0.1,
            deliveries=0.05,
            counts=0.3,
            stale_handles="any",
            reorder=True,
        ),
        faults=(
            Fault("deliver:m1", 1, "late/900"),
            Fault("settle@j0-1#1", 4, "slow/40"),
            Fault("deliver:m3", 1, "late/100"),
            Fault("sweeper@t3#1", 1, "throttle/before/all"),
        ),
        slots=2,
        renew_receives=5,
        notify="sqs",
    ),
    "a hung JVM counted as cut off, because its task's clock was behind the heartbeat's": Plan(
        seed=88002106,
        jobs=(
            Job(
                "j0",
                work_s=11.5,
                endings=(Ending("jvm_hangs", 3.3), Ending("exits_with_0", 9.4)),
                mode="append",
                files=4,
            ),
        ),
        acts=(Act(138.2, "submit", "j0"),),
        mix=Mix(skew_s=120.0),
        slots=2,
        max_attempts=1,
    ),
    "a new run began beside the task of the one that was cancelled": Plan(
        seed=3001128,
        jobs=(Job("j0", endings=(Ending("hangs", 2.1),), files=1),),
        acts=(Act(105.1, "submit", "j0"), Act(227.8, "cancel", "j0"), Act(254.8, "submit", "j0")),
    ),
    "the first manifest of an output to which two jobs append was taken for another tool's": Plan(
        seed=8274,
        jobs=(Job("j0", work_s=72.2, named=False, mode="append"),),
        acts=(
            Act(113.9, "submit", "j0", work=1),
            Act(181.6, "submit", "j0"),
            Act(184.0, "stop_execution", "j0"),
        ),
        faults=(Fault("task@00000001-feed-4000-8000-000000000000-2.1", 28, "lost/after/1"),),
    ),
    "a member that was cancelled before it was claimed lost its place in the fan-out": Plan(
        jobs=(Job("j0", work_s=9.0, files=1, fan_out=2),),
        acts=(_SUBMIT, Act(180.0, "cancel", "j0.1"), Act(900.0, "correct", "j0.1", work=1)),
        faults=(),
        clean_slots=1,
    ),
    "settings that allowed less dead-lettered the messages of a running and of a waiting job": Plan(
        jobs=(
            Job("j0", work_s=900.0, files=1),
            Job("j1", work_s=90.0, endings=(Ending("fails", 9.0),), files=1),
        ),
        acts=(
            _SUBMIT,
            Act(1.0, "submit", "j1"),
            Act(60.0, "narrow", for_s=30_000.0),
            Act(300.0, "redeliver", "j0"),
        ),
        faults=(),
    ),
    "uploads of an attempt stayed pending when runner and settle were throttled": Plan(
        seed=168,
        jobs=(Job("j0", work_s=112.1, files=1),),
        acts=(Act(123.5, "submit", "j0"),),
        faults=(
            Fault("launch:j0-1", 1, "RESOURCE:ENI"),
            Fault("task@j0-2.1", 35, "throttle/before/all"),
            Fault("settle@j0-2#1", 4, "throttle/before/all"),
        ),
    ),
    "attributes that only resembled ours kept a dead letter from being sent": Plan(
        jobs=(Job("j0", work_s=9.0, endings=(Ending("permanent", 2.0),)),),
        acts=(Act(1.0, "submit_hostile", "j0"),),
        faults=(),
    ),
    "a lineage without a root was refused by the table at each receive": Plan(
        jobs=(Job("j0", work_s=9.0),),
        acts=(Act(1.0, "submit_hostile", "j0", work=1),),
        faults=(),
    ),
    "a dead letter whose request was deleted was owed for ever": Plan(
        jobs=(Job("j0", work_s=90.0, endings=(Ending("fails", 60.0),)),),
        acts=(_SUBMIT, Act(60.0, "lose", "j0")),
        faults=(),
        max_attempts=1,
    ),
    "a job that had committed died of a newer version's pending list": Plan(
        jobs=(Job("j0", work_s=9.0, endings=(Ending("dies_after_commit"),)),),
        acts=(_SUBMIT, Act(74.0, "roll_back", "j0")),
        faults=(),
    ),
    "a cancel after a commit was forgotten when the commit turned out to be void": Plan(
        seed=5173,
        jobs=(Job("j1", endings=(Ending("uploads_end", 11.9),), mode="append", files=1),),
        acts=(Act(1.0, "submit", "j1"), Act(77.3, "cancel", "j1")),
        faults=(),
    ),
    "a batch that was delivered late replaced a newer receive": Plan(
        seed=319,
        jobs=(Job("j0", files=1),),
        acts=(_SUBMIT, Act(57.3, "stop_execution", "j0")),
        faults=(
            Fault("event:j0-1", 1, "late"),
            Fault("dispatcher@m2#1", 2, "crash/before"),
            Fault("deliver:m3", 1, "late/900"),
            Fault("task@j0-2.1", 18, "lost/after/all"),
            Fault("deliver:m6", 1, "late/130"),
        ),
    ),
    "what waited in a stage that was taken out was never ended": Plan(
        jobs=(Job("j0", work_s=9.0, endings=(Ending("fails", 2.0),), files=1),),
        acts=(_SUBMIT, Act(80.0, "retire", work=1, for_s=60.0, service="main")),
        faults=(),
    ),
    "a task that was cut off until its time was up had run too long": Plan(
        jobs=(
            Job(
                "j0",
                work_s=900.0,
                endings=(Ending("partitioned", 300.0),),
                files=1,
                timeout_s=1_200,
                stall_timeout_s=1_800,
            ),
        ),
        acts=(_SUBMIT,),
        faults=(),
        max_attempts=1,
    ),
    "a task that began when its stage had been taken out did not know the stage": Plan(
        jobs=(Job("j0", work_s=9.0, files=1),),
        acts=(_SUBMIT, Act(20.0, "retire", service="main")),
        faults=(),
    ),
    "a place that was not emitted was taken for a member, and started the join": Plan(
        jobs=(Job("j0", work_s=9.0, files=1, fan_out=2), Job("j0.0", work_s=600.0)),
        acts=(_SUBMIT, Act(200.0, "submit_forged", "j0")),
        faults=(),
        clean_slots=10,
    ),
    "a join could be started before its members, with inputs of a sender's choice": Plan(
        jobs=(Job("j0", work_s=9.0, files=1, fan_out=2), Job("j0.0", work_s=600.0)),
        acts=(_SUBMIT, Act(200.0, "submit_forged", "j0", work=2)),
        faults=(),
        clean_slots=10,
    ),
    "a table's overwrite that another had overtaken left its uploads pending": Plan(
        seed=1082,
        jobs=(Job("j0", work_s=5.7, named=False, files=1, table="events_j0"),),
        acts=(
            Act(104.6, "pause", "j0", for_s=6549.0),
            Act(234.3, "submit", "j0"),
            Act(234.3, "submit_twice", "j0"),
        ),
        faults=(Fault("task@00000001-feed-4000-8000-000000000000-1.1", 24, "lost/before/all"),),
        notify="sns",
    ),
    "a worn-out message was adopted before it was renewed, and came back too late": Plan(
        jobs=(Job("j0", work_s=144_000.0, timeout_s=604_800, files=1),),
        acts=(_SUBMIT,),
        # The extension after the hand-over; the copy was not sent then.
        faults=(Fault("dispatcher@m152#1", 5, "unavailable/before/all"),),
        retention_s=82_800,
    ),
    "a message was claimed when it was too old to be there at the next hand-over": Plan(
        jobs=(
            Job(
                "j0",
                work_s=144_000.0,
                endings=(Ending("dies_before_commit", 49_320.0),),
                timeout_s=604_800,
                files=1,
            ),
        ),
        acts=(_SUBMIT,),
        faults=(),
        retention_s=90_000,
    ),
    "what a job had emitted was not sent into a stage that was retired since": Plan(
        seed=3,
        clean_slots=2,
        jobs=(Job("j0", work_s=900.0, fan_out=3),),
        acts=(
            Act(at_s=0.0, kind="submit", job="j0"),
            Act(at_s=600.0, kind="retire", work=0, for_s=1_800.0, service="clean"),
        ),
    ),
    "a job that waited for a slot for a week died of a lack of room": Plan(
        jobs=(Job("j0", work_s=9.0, files=1),),
        acts=(_SUBMIT, Act(3.0, "pause", for_s=8 * 86_400.0)),
        faults=(Fault("launch:j0-1", 1, "RESOURCE:ENI"), Fault("launch:j0-2", 1, "RESOURCE:ENI")),
    ),
    "what a job had emitted for a stage that was taken out since is a dead letter": Plan(
        clean_slots=2,
        jobs=(Job("j0", work_s=900.0, files=1, fan_out=3),),
        acts=(_SUBMIT, Act(600.0, "retire", work=1, for_s=60.0, service="clean")),
        faults=(),
    ),
    "what followed from a success was called forged in a stage that was retired since": Plan(
        jobs=(Job("j0", work_s=9.0, files=1, fan_out=1), Job("j0.0", work_s=9.0, files=1)),
        acts=(_SUBMIT, Act(137.4, "retire", work=1, for_s=1800.0, service="clean")),
        faults=(Fault("deliver:clean.m1", 1, "late/900"),),
        clean_slots=10,
    ),
    "a job that was sent after a cancel was the duplicate of a commit that turned out void": Plan(
        jobs=(Job("j0", endings=(Ending("uploads_end", 51.9),), files=1),),
        acts=(_SUBMIT, Act(1168.9, "cancel", "j0"), Act(1726.5, "submit", "j0")),
        faults=(),
    ),
    "a look at a table that Glue kept waiting was the job's stall": Plan(
        jobs=(Job("j0", work_s=9.0, mode="append", stall_timeout_s=120, files=1, table="events"),),
        acts=(_SUBMIT,),
        faults=(Fault("task@j0-1.1", 8, "lost/before/all"),),
        max_attempts=1,
    ),
    "a notice was lost at its first try, when a publication had been owed for a day": Plan(
        jobs=(Job("j0", work_s=9.0, files=1, endings=(Ending("dies_after_commit"),)),),
        acts=(
            _SUBMIT,
            Act(74.0, "outage", for_s=88_000.0, service="s3"),
            Act(75.0, "outage", for_s=89_000.0, service="sns"),
        ),
        faults=(),
        notify="sns",
    ),
    "a cancelled message that SQS did not delete for hours was owed without an alarm": Plan(
        jobs=(Job("j0", work_s=9_000.0, files=1), Job("j1", work_s=9.0, files=1)),
        acts=(
            _SUBMIT,
            Act(30.0, "submit", "j1"),
            Act(60.0, "cancel", "j1"),
            Act(100.0, "outage", for_s=8_000.0, service="sqs"),
        ),
        faults=(Fault("deliver:m2", 1, "late/900"),),
        slots=1,
    ),
    "a driver whose role might not fetch the code was the job's failure": Plan(
        seed=1,
        jobs=(Job("j0", work_s=9.0, files=1, engine="emr-serverless"),),
        acts=(_SUBMIT, Act(0.5, "outage", for_s=14_400.0, service="rights")),
        faults=(),
        max_attempts=1,
    ),
    "a cancel whose answer was lost took back the time of a later one": Plan(
        jobs=(Job("j0", work_s=300.0, files=1),),
        acts=(_SUBMIT, Act(40.0, "cancel", "j0"), Act(41.5, "cancel", "j0")),
        faults=(Fault("cancel.1", 2, "lost/after/1"),),
    ),
    "a correction without the label of a job that died beside it had no dead letter": Plan(
        jobs=(Job("j0", endings=(Ending("infrastructure", 2.2),), poison=True, files=1),),
        acts=(_SUBMIT, Act(160.0, "resubmit", "j0")),
        faults=(),
    ),
    "after a rollback a member's end could not be noted in its root, and was owed for ever": Plan(
        jobs=(
            Job("j0", work_s=9.0, files=1, fan_out=2),
            Job("j0.1", work_s=9.0, files=1, endings=(Ending("fails", 2.0),)),
        ),
        acts=(_SUBMIT, Act(1_200.0, "roll_back", "j0"), Act(1_300.0, "retry_tree", "j0")),
        faults=(),
        clean_slots=10,
        max_attempts=1,
        notify="sns",
        trees=True,
    ),
    # Months went by for the job alone: a sweeper had told the end, and died before it noted that.
    "a backfill's end had the sequence of the one before, because a job's row expired": Plan(
        seed=96000677,
        jobs=(
            Job(
                "days/0",
                work_s=432.6,
                endings=(Ending("cut_off", 254.6),),
                output="shared",
                files=1,
            ),
            Job("days/1", work_s=9.0, files=1),
        ),
        acts=(
            Act(0.0, "lose_released"),
            Act(1.0, "backfill", "days"),
            Act(2.5, "retry_backfill", "days"),
            Act(3.8, "redeliver", "days/0", work=2),
            Act(1_079.6, "expire", "days/0"),
            Act(1_358.7, "submit", "days/0", work=3),
            Act(2_347.4, "retry_backfill", "days"),
        ),
        mix=Mix(
            kinds=("hang/before", "unavailable/after/1"),
            events=0.3,
            completes=0.1,
            timeout_stops_task=False,
        ),
        faults=(
            Fault("sweeper@t4#1", 18, "crash/after"),
            Fault("dispatcher@m9#1", 1, "crash/after"),
            Fault("dispatcher@m10#1", 1, "crash/after"),
            Fault("dispatcher@m11#1", 1, "crash/after"),
        ),
        notify="sqs",
        trees=True,
    ),
    "an upload that was begun half a day before its end stayed, beside the one in its place": Plan(
        jobs=(Job("j0", work_s=60_000.0, timeout_s=100_000, files=1, beside=True),),
        acts=(_SUBMIT,),
        faults=(),
    ),
    "rows that an append replaces were tried again once a compaction had mixed them": Plan(
        seed=12,
        jobs=(
            Job("j0", mode="append", files=1, fan_out=1, table="events"),
            Job("j0.0", mode="append", files=1, table="events", parts=4),
        ),
        acts=(
            Act(759.5, "resubmit", "j0", work=3),
            Act(783.4, "cancel", "j0"),
            Act(2_793.9, "retry_tree", "j0"),
            Act(5_020.5, "rerun_tree", "j0", work=5),
            Act(6_660.1, "rerun_tree", "j0", work=4),
        ),
        faults=(Fault("catalog:task@j0-4.1", 6, "compacts"),),
        clean_slots=10,
        notify="sqs",
        trees=True,
        kept_s=7_200,
    ),
}
