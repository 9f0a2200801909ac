"""The pages, as a WSGI application: which address shows what."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from itertools import count, islice
from typing import Any, TypeVar

from werkzeug.exceptions import BadGateway, BadRequest, HTTPException, NotFound
from werkzeug.routing import Map, Rule, Submount
from werkzeug.utils import redirect
from werkzeug.wrappers import Request, Response

from longhaul.cli.display.job import name_of, page_of
from longhaul.cli.errors import CommandError
from longhaul.cli.insight.letter_groups import grouped
from longhaul.cli.page.actions import Actions, Notice
from longhaul.cli.page.board import MAX_JOBS, WINDOWS, Board, BoardReader
from longhaul.cli.page.filters import STATES, Filter, cancellable, read_filter, retriable
from longhaul.cli.page.guard import Guard, refused, secured
from longhaul.cli.page.job import LINES, MAX_VALUES, BackfillView, JobReader
from longhaul.cli.page.latest import Seen, Views
from longhaul.cli.page.listing import Listing, ListingReader
from longhaul.cli.page.rendering import Addresses, environment, static_files, still
from longhaul.cli.page.successes import LOOKED_AT, MOST
from longhaul.cli.sentences import AWS_OR_OURS, is_elsewhere, sentence
from longhaul.cli.target import Target
from longhaul.cli.terminal.selection import job_id as checked_id
from longhaul.domain.backfill import Backfill
from longhaul.domain.lease import Lease, job_key
from longhaul.operations.dead_letters import Which
from longhaul.operations.errors import NoSuchStageError
from longhaul.settings import Stage

T = TypeVar("T")

MAX_LETTERS = 100
"""The most dead letters that are shown at once."""

MAX_ACTS = 500
"""The most jobs that one answer cancels or reruns: their keys are in its form."""

MAX_EXPORTED = 500
"""The most jobs that a page in a file shows: a longer list is not read."""

_MAX_BODY = 262_144  # the keys of as many jobs
_NOTICES = 50  # results of the latest actions
_MAX_FIND = 128  # characters that are looked for in a log
_DEFAULT_WINDOW = "6h"
_OF_A_JOB = "cancel, rerun, 'cancel-tree', 'rerun-tree'"


class _Request(Request):
    max_content_length = _MAX_BODY
    max_form_memory_size = _MAX_BODY
    max_form_parts = MAX_ACTS + 10


class Page:
    """The page about one target.

    `is_lost`: AWS has said that the target is no longer where it was found.
    """

    def __init__(self, target: Target, guard: Guard, views: Views | None = None) -> None:
        self._target, self.guard = target, guard
        self.is_lost = False
        # Made in this thread: boto3 cannot make clients in several threads at once.
        _ = (
            target.jobs,
            target.dead_letters,
            target.logs,
            target.canceller,
            target.parts.executions,
            target.stage_counter,
            target.trees,
            target.tree_canceller,
            target.rerunner,
        )
        self._views = views or Views(target.parts.clock.now)
        self._actions = Actions(target)
        self._url = Addresses(guard.root).of
        self._templates = environment(Addresses(guard.root))
        self._static = static_files()
        self._notices: OrderedDict[str, Notice] = OrderedDict()
        self._numbers = count(1)
        self._board_readers = {
            name: BoardReader(target, window) for name, window in WINDOWS.items()
        }
        rules = [
            Rule("/", endpoint=self._jobs, methods=["GET"]),
            Rule("/job", endpoint=self._job, methods=["GET"]),
            Rule("/find", endpoint=self._find, methods=["GET"]),
            Rule("/dead-letters", endpoint=self._letters, methods=["GET"]),
            Rule(f"/ask/<any({_OF_A_JOB}):what>", endpoint=self._ask, methods=["GET"]),
            Rule("/ask/<any(pause, resume):what>", endpoint=self._ask_stage, methods=["GET"]),
            Rule("/ask/<any(cancel, rerun):what>-all", endpoint=self._ask_all, methods=["GET"]),
            Rule("/ask/redrive", endpoint=self._ask_redrive, methods=["GET"]),
            Rule(f"/do/<any({_OF_A_JOB}):what>", endpoint=self._do, methods=["POST"]),
            Rule("/do/<any(pause, resume):what>", endpoint=self._do_stage, methods=["POST"]),
            Rule("/do/<any(cancel, rerun):what>-all", endpoint=self._do_all, methods=["POST"]),
            Rule("/do/redrive", endpoint=self._redrive, methods=["POST"]),
            Rule("/static/<name>", endpoint=self._file, methods=["GET"]),
        ]
        self._map = Map([Submount(guard.root, rules)])

    def again(self) -> "Page":
        """The page about the same stack, looked up anew.

        Raises:
            CommandError, BotoCoreError or ClientError: it is not there.
        """
        return Page(self._target.again(), self.guard)

    def __call__(self, environ: Any, start_response: Any) -> Iterable[bytes]:  # noqa: ANN401 - WSGI
        request = _Request(environ)
        try:
            self.guard.check(request)
        except HTTPException as error:
            # Not as a page: its links have the secret.
            response = refused(error)
        else:
            response = self._respond(request)
        return secured(response)(environ, start_response)

    def _respond(self, request: Request) -> Response:
        try:
            show, given = self._map.bind_to_environ(request.environ).match()
            shown: Response = show(request, **given)
        except HTTPException as error:
            what = {"name": error.name, "description": error.description}
            return refused(error, self._rendered("refused.html", request, what))
        return shown

    def _board(self, window: str) -> Seen[Board]:
        return self._views.get(("board", window), self._noting(self._board_readers[window].read))

    def _listing(self, window: str, wanted: Filter, page: int) -> Seen[Listing | None]:
        """A page of what is seen through the window and the filter."""
        board = self._board(window)
        if board.value is None:
            return Seen(None, None, board.problem)
        reader = ListingReader(
            lambda: self._board(window).value, self._target.parts.leases, wanted, page
        )
        seen = self._views.get(("jobs", window, wanted, page), self._noting(reader.read))
        return replace(seen, at=board.at, problem=board.problem or seen.problem)

    def _jobs(self, request: Request) -> Response:
        window, wanted = _window(request.args), read_filter(request.args)
        seen = self._listing(window, wanted, _page(request.args))
        return self._html("runs.html", request, self._listed(seen, window, wanted))

    def _listed(self, seen: Seen[Listing | None], window: str, wanted: Filter) -> Mapping[str, Any]:
        acts = ("cancel", "rerun")
        return {
            "seen": seen,
            "windows": tuple(WINDOWS),
            "window": window,
            "most": MAX_JOBS,
            "filter": wanted,
            "states": STATES,
            "acts": {
                what: len(self._concerned(what, seen.value.board, wanted)) if seen.value else 0
                for what in acts
            },
            "most_acts": MAX_ACTS,
        }

    def export(self, window: str) -> str:
        """The first page as a file of its own, which loads nothing and can do nothing.

        It has the jobs that are open, and those that ended within the window.
        """
        wanted = read_filter({})
        board = self._board_readers[window].read()
        reader = ListingReader(
            lambda: board, self._target.parts.leases, wanted, page=1, per_page=MAX_EXPORTED
        )
        seen: Seen[Listing | None] = Seen(reader.read(), board.now, None)
        values = self._listed(seen, window, wanted)
        return still(self._filled("runs.html", None, values), self._static["page.css"][0].decode())

    def _concerned(self, what: str, board: Board, wanted: Filter) -> list[Lease]:
        """The jobs that a filter lets through and that can be cancelled, or did not end well."""
        rows = wanted.choose(board.jobs) if wanted else []
        if what == "cancel":
            return cancellable(rows)
        return [row for row in retriable(rows) if not self._actions.has_sent(row)]

    def _job(self, request: Request) -> Response:
        stage, job_id = self._job_in(request.args)
        attempt = request.args.get("attempt", type=int)
        find = request.args.get("find", "").strip()[:_MAX_FIND]
        what = ("job", stage.name, job_id, attempt, find)
        reader = JobReader(self._target, stage.name, job_id, attempt, find)
        view = self._views.get(what, self._noting(reader.read))
        if isinstance(view.value, BackfillView):
            return self._html("backfill.html", request, {"seen": view, "most": MAX_VALUES})
        facts: Sequence[tuple[str, str]] = ()
        if view.value is not None:
            group = self._target.settings.job_log_group
            row, now, asked = view.value.row, view.value.now, view.value.asked
            waits = view.value.waits
            facts = page_of(row, now, self._target.parts.executions, group, asked, waits=waits)
        values = {
            "stage": stage.name,
            "job_id": job_id,
            "facts": facts,
            "most": LINES,
            "most_runs": MOST,
            "looked_at": LOOKED_AT,
            "attempt": attempt,
            "find": find,
        }
        # Nothing was found. With a problem, nothing is known yet.
        absent = view.value is None and view.problem is None
        return self._html("job.html", request, values | {"seen": view}, 404 if absent else 200)

    def _find(self, request: Request) -> Response:
        """Find a job by its id alone, or a backfill by its name."""
        try:
            name = checked_id(request.args.get("id", "").strip())
        except CommandError as error:
            raise BadRequest(str(error)) from None
        names = [each.name for each in self._target.settings.stages]
        with self._aws_errors_shown():
            rows = self._target.jobs.find(names, name)
            is_job = any(not row.is_open_mark for row in rows)
            found = {} if is_job else self._backfills(names, name)
        known = [each.stage for each in found.values()] or [row.stage for row in rows]
        stages = known or names
        if len(stages) == 1:
            return redirect(self._url("/job", stage=stages[0], id=name), 303)
        return self._html(
            "find.html", request, {"stages": stages, "job_id": name, "known": bool(known)}
        )

    def _backfills(self, stages: Iterable[str], name: str) -> Mapping[str, Backfill]:
        """The backfills of that name in these stages, by key."""
        keys = (job_key(each, name) for each in stages)
        return self._target.parts.backfills.find_backfills(keys)

    def _letters(self, request: Request) -> Response:
        """Receives the letters: only when a person asks, and never by a refresh."""
        stage = self._stage(request.args.get("stage"))
        with (
            self._aws_errors_shown(),
            closing(self._target.dead_letters.look(stage, Which())) as letters,
        ):
            matches = list(islice(letters, MAX_LETTERS + 1))
        values = {
            "stage": stage.name,
            "now": self._target.parts.clock.now(),
            "letters": matches[:MAX_LETTERS],
            "groups": grouped(matches[:MAX_LETTERS]),
            "more": len(matches) > MAX_LETTERS,
        }
        return self._html("letters.html", request, values)

    def _ask(self, request: Request, what: str) -> Response:
        stage, job_id = self._job_in(request.args)
        with self._aws_errors_shown():
            found = self._actions.find(stage.name, job_id)
        row = found if isinstance(found, Lease) else None
        if found is not None and what.endswith("-tree"):
            problem = None
        elif what == "cancel":
            problem = "It has ended already." if row and row.state.is_terminal else None
        else:
            problem = self._why_no_rerun(row) if row else "Nothing is known of it."
        return self._question(
            request,
            what,
            [("stage", stage.name), ("id", job_id)],
            [name_of(row) if row and not row.is_open_mark else job_id],
            self._url("/job", stage=stage.name, id=job_id),
            problem,
            row=row,
            is_backfill=isinstance(found, Backfill),
        )

    def _why_no_rerun(self, row: Lease) -> str | None:
        """Why this job cannot be run again; None when it can."""
        try:
            self._target.open_stage(row.stage)
            self._noting(lambda: self._target.rerunner.plan(row, params={}))()
        except AWS_OR_OURS as error:
            return sentence(error)
        return None

    def _ask_stage(self, request: Request, what: str) -> Response:
        stage = self._stage(request.args.get("stage"))
        return self._question(
            request, what, [("stage", stage.name)], [stage.name], self._url("/"), None
        )

    def _ask_all(self, request: Request, what: str) -> Response:
        """Ask about the jobs that a filter shows: the answer is about these, whatever comes."""
        window, wanted = _window(request.args), read_filter(request.args)
        seen = self._board(window)
        rows = self._concerned(what, seen.value, wanted) if seen.value else []
        rows, more = rows[:MAX_ACTS], len(rows[MAX_ACTS:])
        query = {"window": window, **wanted.query}
        return self._question(
            request,
            f"{what}-all",
            [*query.items(), *(("key", row.key) for row in rows)],
            [name_of(row) for row in rows],
            self._url("/", **query),
            None if rows else (seen.problem or "No job is concerned."),
            more=more,
        )

    def _ask_redrive(self, request: Request) -> Response:
        stage = self._stage(request.args.get("stage"))
        letters = request.args.getlist("letter")[:MAX_LETTERS]
        return self._question(
            request,
            "redrive",
            [("stage", stage.name), *(("letter", each) for each in letters)],
            letters,
            self._url("/dead-letters", stage=stage.name),
            None if letters else "No letter is chosen: tick those to send back.",
            stage=stage.name,
        )

    def _question(
        self,
        request: Request,
        what: str,
        fields: Sequence[tuple[str, str]],
        names: Sequence[str],
        back: str,
        problem: str | None,
        **more: Any,  # noqa: ANN401 - of one kind of question
    ) -> Response:
        """Ask before something is done to what these fields say.

        `problem`: why it cannot be done.
        """
        values = {"what": what, "fields": fields, "names": names, "back": back, "problem": problem}
        return self._html("ask.html", request, values | more)

    def _do(self, request: Request, what: str) -> Response:
        stage, job_id = self._job_in(request.form)
        acts = {
            "cancel": self._actions.cancel,
            "rerun": self._actions.rerun,
            "cancel-tree": self._actions.cancel_tree,
            "rerun-tree": self._actions.rerun_tree,
        }
        act = acts[what]
        return self._act_and_redirect(
            lambda: act(stage.name, job_id), "/job", stage=stage.name, id=job_id
        )

    def _do_stage(self, request: Request, what: str) -> Response:
        stage = self._stage(request.form.get("stage"))
        act = self._actions.pause if what == "pause" else self._actions.resume
        return self._act_and_redirect(lambda: act(stage.name), "/")

    def _do_all(self, request: Request, what: str) -> Response:
        keys = [self._key(each) for each in request.form.getlist("key")[:MAX_ACTS]]
        act = self._actions.cancel_all if what == "cancel" else self._actions.rerun_all
        back = {"window": _window(request.form), **read_filter(request.form).query}
        return self._act_and_redirect(lambda: act(keys), "/", **back)

    def _key(self, given: str) -> str:
        """The key of a job, as a form has it."""
        stage, _, job_id = given.partition("#")
        found, name = self._job_in({"stage": stage, "id": job_id})
        return job_key(found.name, name)

    def _redrive(self, request: Request) -> Response:
        stage = self._stage(request.form.get("stage"))
        letters = request.form.getlist("letter")[:MAX_LETTERS]
        return self._act_and_redirect(
            lambda: self._actions.redrive(stage.name, letters), "/dead-letters", stage=stage.name
        )

    def _act_and_redirect(self, act: Callable[[], Notice], path: str, **query: str) -> Response:
        """Act, and show the result on the next page."""
        number = str(next(self._numbers))
        try:
            self._notices[number] = self._noting(act)()
        except AWS_OR_OURS as error:
            self._notices[number] = Notice(sentence(error), good=False)
        while len(self._notices) > _NOTICES:
            self._notices.popitem(last=False)
        self._views.outdate()
        return redirect(self._url(path, **query, did=number), 303)

    def _file(self, request: Request, name: str) -> Response:
        del request
        if name not in self._static:
            raise NotFound
        content, kind = self._static[name]
        return Response(content, mimetype=kind)

    def _stage(self, name: str | None) -> Stage:
        try:
            return self._target.stage(name or None)
        except NoSuchStageError as error:
            raise NotFound(str(error)) from None

    def _job_in(self, given: Mapping[str, str]) -> tuple[Stage, str]:
        """The job that a query or a form names."""
        try:
            return self._stage(given.get("stage")), checked_id(given.get("id", ""))
        except CommandError as error:
            raise NotFound(str(error)) from None

    def _html(
        self,
        template: str,
        request: Request,
        values: Mapping[str, Any],
        status: int = 200,
    ) -> Response:
        return Response(self._rendered(template, request, values), status, mimetype="text/html")

    def _noting(self, ask: Callable[[], T]) -> Callable[[], T]:
        """The same, which notes an error that says that the stack is elsewhere."""

        def asked() -> T:
            try:
                return ask()
            except AWS_OR_OURS as error:
                self.is_lost = self.is_lost or is_elsewhere(error)
                raise

        return asked

    @contextmanager
    def _aws_errors_shown(self) -> Iterator[None]:
        """Show an error of AWS as a page."""
        try:
            yield
        except AWS_OR_OURS as error:
            self.is_lost = self.is_lost or is_elsewhere(error)
            raise BadGateway(sentence(error)) from error

    def _rendered(self, template: str, request: Request, values: Mapping[str, Any]) -> str:
        return self._filled(template, self._notices.get(request.args.get("did", "")), values)

    def _filled(self, template: str, notice: Notice | None, values: Mapping[str, Any]) -> str:
        common = {
            "where": str(self._target),
            "stages_known": [each.name for each in self._target.settings.stages],
            "notice": notice,
        }
        return self._templates.get_template(template).render(**common, **values)


def _window(given: Mapping[str, str]) -> str:
    window = given.get("window", _DEFAULT_WINDOW)
    if window not in WINDOWS:
        raise BadRequest(f"window is one of {', '.join(WINDOWS)}")
    return window


def _page(given: Mapping[str, str]) -> int:
    page = given.get("page", "1")
    # More digits than any page has; those of other scripts are no digits here.
    if not (page.isascii() and page.isdecimal() and len(page) <= 6 and int(page)):  # noqa: PLR2004
        raise BadRequest("page is a number from 1")
    return int(page)
