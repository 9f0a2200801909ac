"""`longhaul doctor`."""

from longhaul.cli.terminal.declaring import on_target
from longhaul.cli.terminal.options import AsJson


@on_target
def doctor(*, as_json: AsJson = False) -> None:
    """Check that everything works, and say what to do about each problem.

    It checks credentials, permissions (by simulation), quotas, the stack and its outputs,
    functions, mappings, slots (a paused stage is named) and rules, the sweeper, stuck jobs, dead
    letters and alarms, whether the stack is the one that would be deployed from here, whether
    stack, project and tool are of one version, and what the next deployment needs: the CDK's
    bootstrap, the role of ECS, and Docker for the image's architecture. It says what the jobs of
    each stage may do, and whether its secrets are there and may be read. It changes nothing; dead
    letters are invisible to others while they are counted. The exit code is 1 if there is a
    problem.

    Example: longhaul doctor --profile production
    """
