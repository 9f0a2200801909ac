"""What `longhaul pause`, `longhaul resume` and `longhaul slots` do."""

from longhaul.cli.display.slots import slots_of
from longhaul.cli.errors import CommandError, ExitStatus
from longhaul.cli.target import Target
from longhaul.cli.terminal.output import Output
from longhaul.settings import MAX_SLOTS


def pause(target: Target, *, stage: str, drain: bool) -> None:
    out, which = Output(), target.stage(stage)
    out.say_where(target)
    target.drainer(out.note).pause(which, wait=drain)
    _tell(out, target, stage)


def resume(target: Target, *, stage: str) -> None:
    out, which = Output(), target.stage(stage)
    out.say_where(target)
    target.parts.slots.resume(which, target.parts.clock.now())
    _tell(out, target, stage)


def slots(target: Target, *, stage: str, count: int) -> None:
    if count > MAX_SLOTS:
        raise CommandError(f"a stage has at most {MAX_SLOTS:,} slots", ExitStatus.USAGE)
    out, which = Output(), target.stage(stage)
    out.say_where(target)
    target.parts.slots.set_slots(which, count)
    _tell(out, target, stage)


def _tell(out: Output, target: Target, name: str) -> None:
    stage = target.stage(name)
    out.line(f"{stage.name}: {slots_of(target.parts.slots.use(stage), stage)}")
