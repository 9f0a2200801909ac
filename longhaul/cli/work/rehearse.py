"""What `longhaul rehearse` does."""

import json
import secrets
import tempfile
from collections.abc import Sequence
from pathlib import Path

import typer

from longhaul.adapters.clock import SystemClock
from longhaul.cli import preflight
from longhaul.cli.checks.deploying import Plan
from longhaul.cli.checks.finding import Level
from longhaul.cli.display.text import counted
from longhaul.cli.errors import CommandError, ExitStatus
from longhaul.cli.extras import require
from longhaul.cli.rehearsal.answer import Answer, Question
from longhaul.cli.rehearsal.rehearse import answers, questions, read
from longhaul.cli.rehearsal.report import VERDICTS, Report, record
from longhaul.cli.synth import synth
from longhaul.cli.terminal.output import Output
from longhaul.cli.terminal.signals import stop_signals
from longhaul.cli.work.deploy import checked_project
from longhaul.config.settings import Settings
from longhaul.config.version import version

_STYLES = {
    Level.OK: "green",
    Level.WARNING: "yellow",
    Level.PROBLEM: "red",
    Level.SKIPPED: "dim",
}


def rehearse(*, profile: str | None, context: list[str] | None, file: Path, as_json: bool) -> None:
    require("deploy")
    if not file.parent.is_dir():
        raise CommandError(f"there is no folder {file.parent}", ExitStatus.USAGE)
    out = Output(as_json=as_json)
    settings = preflight.given_settings(context or ())
    plan = _plan(settings, profile)
    with stop_signals(), tempfile.TemporaryDirectory(prefix="longhaul-rehearsal-") as folder:
        _synthesize(Path(folder), context or ())
        report = _asked(out, plan, Path(folder))
    file.write_text(report.html(), encoding="utf-8")
    beside = file.with_suffix(".json")
    beside.write_text(json.dumps(report.as_json(), indent=2) + "\n", encoding="utf-8")
    counts = report.counts
    out.note(
        f"{counted(counts[Level.PROBLEM], 'problem')}, {counts[Level.WARNING]} to look at, "
        f"{counts[Level.OK]} ok, {counts[Level.SKIPPED]} not asked"
    )
    out.note(f"page: {file}; JSON: {beside}")
    if counts[Level.PROBLEM]:
        raise typer.Exit(ExitStatus.FAILED)


def _plan(settings: Settings, profile: str | None) -> Plan:
    """Raises CommandError: the credentials, the region or the account are not right."""
    findings = preflight.place(settings, profile)
    problems = [each for each in findings if each.level is Level.PROBLEM]
    if problems:
        raise CommandError("; ".join(f"{each.what} → {each.do}" for each in problems))
    return Plan(preflight.target_of(settings, profile), settings)


def _synthesize(folder: Path, context: Sequence[str]) -> None:
    project = checked_project()
    given: dict[str, object] = {}
    for pair in context:
        key, _, value = pair.partition("=")
        given[key] = value
    synth(folder, profile=None, context=given, project=project.folder if project else None)


def _asked(out: Output, plan: Plan, folder: Path) -> Report:
    identity = plan.target.client("sts").get_caller_identity()
    assembly = read(folder, plan, identity)
    clock = SystemClock()
    begun_at = clock.now()
    out.say_where(plan.target)
    token = secrets.token_hex(3)
    asked = list(questions(plan, assembly, token=token, clock=clock, warn=out.problem))
    for each in asked:
        if each.passing:
            out.note(f"it makes, and removes again: {each.passing}", style="yellow")
    found: list[tuple[Question, Answer]] = []
    for question in asked:
        out.note(f"{question.name}: {', '.join(question.calls)}")
        for answer in answers(question):
            found.append((question, answer))
            _tell(out, question, answer)
    return Report(version(), plan.target.region, assembly.template.partition, begun_at, found)


def _tell(out: Output, question: Question, answer: Answer) -> None:
    if out.as_json:
        out.record(record(question, answer))
        return
    verdict = VERDICTS[answer.level]
    line = f"{verdict:<10}  {question.name}: {answer.asked}: {answer.answer}"
    out.line(line, style=_STYLES[answer.level])
    if answer.do:
        out.line(f"            → {answer.do}")
