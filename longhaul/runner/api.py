"""Where jobs imported from before `longhaul.job`: what was written then goes on running."""

from longhaul.job import Format, Job, Params, PermanentJobError

__all__ = ["Format", "Job", "Params", "PermanentJobError"]
