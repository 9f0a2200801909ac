"""What `longhaul drain` does."""

from longhaul.cli.checks.finding import Level
from longhaul.cli.checks.teardown import queues
from longhaul.cli.errors import CommandError, ExitStatus
from longhaul.cli.insight.storage import stored
from longhaul.cli.target import Target
from longhaul.cli.terminal.output import Output


def drain(target: Target, *, stop: bool, undo: bool) -> None:
    out = Output()
    if stop and undo:
        raise CommandError("give --stop or --undo, not both", ExitStatus.USAGE)
    out.say_where(target)
    drainer = target.drainer(out.note)
    try:
        if undo:
            drainer.undo()
            out.line("awake: jobs start again")
            return
        drainer.drain(stop=stop)
    except KeyboardInterrupt:
        out.note(
            "interrupted: `longhaul drain` goes on, `longhaul drain --undo` lets jobs start again",
            style="yellow",
        )
        raise
    out.line("drained: nothing runs, and nothing starts")
    for each in queues(drainer):
        if each.level is not Level.OK:
            out.line(each.what)
    out.line("`longhaul destroy` takes the stack down; what stays then:")
    for remnant in stored(target.settings, target.client("dynamodb"), target.client("s3")):
        out.line(f"  {remnant}")
    out.line("`longhaul drain --undo` goes back")
