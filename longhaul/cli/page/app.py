"""The pages, as a WSGI application: which address shows what."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from itertools import islice
from typing import Any

from werkzeug.datastructures import MultiDict
from werkzeug.exceptions import BadGateway, BadRequest, HTTPException, NotFound
from werkzeug.routing import Map, Rule, Submount
from werkzeug.utils import redirect
from werkzeug.wrappers import Request, Response

from longhaul.cli.page.actions import Actions, Notice
from longhaul.cli.page.filters import Filter, read_filter
from longhaul.cli.page.guard import Guard, refused, secured
from longhaul.cli.page.job import LINES, JobReader
from longhaul.cli.page.latest import Seen, Views
from longhaul.cli.page.listing import MAX_JOBS, WINDOWS, BoardReader, listing
from longhaul.cli.page.lists import ShortList, lineage_list, schedule_list, table_list
from longhaul.cli.page.rendering import Addresses, environment, static_files, still
from longhaul.cli.sentences import AWS_OR_OURS, OURS, sentence
from longhaul.cli.target import Target
from longhaul.core.settings import Stage
from longhaul.operations.dead_letters import Which
from longhaul.operations.errors import InvalidRequestError
from longhaul.operations.look import STATES, status_of
from longhaul.operations.named import checked_id, find_work
from longhaul.operations.rerun import possible
from longhaul.operations.view import name_of

MAX_LETTERS = 100
"""The most dead letters that are shown at once."""

MAX_VALUES = 1_000
"""The most values of a backfill that are shown."""

MAX_ACTS = 200
"""The most jobs of one question: their keys are in its address."""

MAX_EXPORTED = 500
"""The most jobs that a page in a file shows: a longer list is not read."""

LISTS = {"schedules": schedule_list, "tables": table_list}
"""What is listed, by its path."""

_MAX_BODY = 262_144  # the keys of as many jobs
_MAX_SAID = 2_000  # characters of what has happened
_MAX_FIND = 128  # characters that are looked for in a log
_DEFAULT_WINDOW = "6h"
_OF_STAGES = ("pause", "resume")


class _Request(Request):
    max_content_length = _MAX_BODY
    max_form_memory_size = _MAX_BODY
    max_form_parts = MAX_ACTS + 10


class Page:
    """The page about one target."""

    def __init__(self, target: Target, guard: Guard) -> None:
        self._target, self.guard = target, guard
        self._views = Views(target.parts.clock.now)
        actions = self._actions = Actions(target)
        self._acts: Mapping[str, Callable[[Sequence[str]], Notice]] = {
            "cancel": actions.cancel,
            "rerun": actions.rerun,
            "cancel-run": actions.cancel_run,
            "rerun-dead": actions.rerun_dead,
            "pause": actions.pause,
            "resume": actions.resume,
        }
        self._addresses = Addresses(guard.root)
        self._templates = environment(self._addresses)
        self._static = static_files()
        self._board_readers = {
            name: BoardReader(target, window) for name, window in WINDOWS.items()
        }
        acts = ", ".join(map(repr, self._acts))
        rules = [
            Rule("/", endpoint=self._runs, methods=["GET"]),
            Rule("/job", endpoint=self._job, methods=["GET"]),
            Rule("/find", endpoint=self._find, methods=["GET"]),
            Rule("/dead-letters", endpoint=self._letters, methods=["GET"]),
            Rule(f"/<any({', '.join(LISTS)}):name>", endpoint=self._list, methods=["GET"]),
            Rule("/lineage", endpoint=self._lineage, methods=["GET"]),
            Rule(f"/ask/<any({acts}):what>", endpoint=self._ask, methods=["GET"]),
            Rule(f"/do/<any({acts}):what>", endpoint=self._do, methods=["POST"]),
            Rule("/static/<name>", endpoint=self._file, methods=["GET"]),
        ]
        self._map = Map([Submount(guard.root, rules)])

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
        except (HTTPException, *AWS_OR_OURS) as error:
            why = error if isinstance(error, HTTPException) else BadGateway(sentence(error))
            what = {"name": why.name, "description": why.description}
            return refused(why, self._rendered("refused.html", what, request))
        return shown

    def _listing(self, window: str, wanted: Filter, page: int) -> Seen[Mapping[str, Any]]:
        """A page of what is seen through the window and the filter."""
        read = self._board_readers[window].read
        return self._views.get(
            ("jobs", window, wanted, page),
            lambda: listing(self._target, read(), wanted, page),
        )

    def _runs(self, request: Request) -> Response:
        window, wanted = _window(request.args), read_filter(request.args)
        page = max(1, request.args.get("page", 1, type=int))
        seen = self._listing(window, wanted, page)
        return self._html("runs.html", request, self._listed(seen, window, wanted))

    def _listed(
        self, seen: Seen[Mapping[str, Any]], window: str, wanted: Filter
    ) -> Mapping[str, Any]:
        acts: dict[str, list[str]] = {}
        for row in seen.value["board"].choose(wanted.wanted) if wanted and seen.value else ():
            what = possible(row)
            # Of what was sent again the row does not say so.
            if what and (row.key, row.run) not in self._actions.sent:
                acts.setdefault(what, []).append(row.key)
        return {
            "seen": seen,
            "windows": tuple(WINDOWS),
            "window": window,
            "most": MAX_JOBS,
            "filter": wanted,
            "states": STATES,
            "acts": acts,
            "most_acts": MAX_ACTS,
        }

    def export(self, window: str) -> str:
        """The first page as a file of its own, which loads nothing and can do nothing.

        It has the jobs that are open, and those that ended within the window.
        """
        wanted, board = Filter(), self._board_readers[window].read()
        shown = listing(self._target, board, wanted, 1, MAX_EXPORTED)
        values = self._listed(Seen(shown, board.now), window, wanted)
        return still(self._rendered("runs.html", values), self._static["page.css"][0].decode())

    def _job(self, request: Request) -> Response:
        key = self._key(request.args.get("stage"), request.args.get("id", ""))
        attempt = request.args.get("attempt", type=int)
        find = request.args.get("find", "").strip()[:_MAX_FIND]
        reader = JobReader(self._target, key, attempt, find)
        seen = self._views.get(("job", key, attempt, find), reader.read)
        if seen.value is not None and seen.value["backfill"]:
            return self._html("backfill.html", request, {"seen": seen, "most": MAX_VALUES})
        stage, _, job_id = key.partition("#")
        values = {
            "seen": seen,
            "key": key,
            "stage": stage,
            "job_id": job_id,
            "most": LINES,
            "attempt": attempt,
            "find": find,
        }
        # Nothing was found. With a problem, nothing is known yet.
        absent = seen.value is None and seen.problem is None
        return self._html("job.html", request, values, 404 if absent else 200)

    def _find(self, request: Request) -> Response:
        """The page of the job or backfill that is meant; the list where that is not one alone."""
        text = request.args.get("id", "").strip()
        try:
            found = find_work(self._target, text, None)
        except OURS:
            return redirect(self._addresses.of("/", window="7d", text=text), 303)
        return redirect(self._addresses.of_job(found.key), 303)

    def _letters(self, request: Request) -> Response:
        """Receives the letters: only when a person asks, and never by a refresh."""
        stage = self._stage(request.args.get("stage"))
        with closing(self._target.dead_letters.look(stage, Which())) as received:
            found = list(islice(received, MAX_LETTERS + 1))
        letters = found[:MAX_LETTERS]
        keys = [f"{stage.name}#{each.job_id}" for each in letters if each.job_id]
        rows = self._target.parts.leases.load_many(keys).values()
        values = {
            "stage": stage.name,
            "now": self._target.parts.clock.now(),
            "letters": letters,
            "rows": {row.job_id: (row, status_of(self._target, row)) for row in rows},
            "more": len(found) > MAX_LETTERS,
        }
        return self._html("letters.html", request, values)

    def _list(self, request: Request, name: str) -> Response:
        return self._short_list(request, LISTS[name](self._target))

    def _lineage(self, request: Request) -> Response:
        try:
            found = lineage_list(self._target, request.args.get("of", ""))
        except InvalidRequestError as error:
            raise NotFound(str(error)) from None
        return self._short_list(request, found)

    def _short_list(self, request: Request, found: ShortList) -> Response:
        now = self._target.parts.clock.now()
        return self._html("list.html", request, {"list": found, "now": now})

    def _ask(self, request: Request, what: str) -> Response:
        """Ask about exactly these jobs, or this stage: the answer is about them, whatever comes."""
        field, about = self._about(what, request.args)
        rows = self._target.parts.leases.load_many(about if field == "key" else ())
        names = [
            key.rpartition("#")[2] if row is None or row.is_open_mark else name_of(row)
            for key, row in ((key, rows.get(key)) for key in about)
        ]
        filtered = [each for each in request.args.items() if each[0] not in ("key", field)]
        values = {
            "what": what,
            "fields": [*filtered, *((field, each) for each in about)],
            "names": names,
            "back": self._back(request.args),
        }
        return self._html("ask.html", request, values)

    def _do(self, request: Request, what: str) -> Response:
        """Act, and show the result on the next page."""
        _, about = self._about(what, request.form)
        try:
            notice = self._acts[what](about)
        except AWS_OR_OURS as error:
            notice = Notice(sentence(error), good=False)
        self._views.outdate()
        told = {"said": notice.text[:_MAX_SAID], "good": "1" if notice.good else ""}
        return redirect(self._back(request.form, **told), 303)

    def _back(self, given: MultiDict[str, str], **query: str) -> str:
        """Where the question was asked: on the page of a job, or on the list with its filter."""
        keys = given.getlist("key")
        if "window" in given:
            filtered = {"window": _window(given), **read_filter(given).query}
            return self._addresses.of("/", **filtered, **query)
        if len(keys) == 1:
            return self._addresses.of_job(keys[0], **query)
        return self._addresses.of("/", **query)

    def _file(self, request: Request, name: str) -> Response:
        del request
        if name not in self._static:
            raise NotFound
        content, kind = self._static[name]
        return Response(content, mimetype=kind)

    def _stage(self, name: str | None) -> Stage:
        try:
            return self._target.stage(name or None)
        except OURS as error:
            raise NotFound(str(error)) from None

    def _about(self, what: str, given: MultiDict[str, str]) -> tuple[str, Sequence[str]]:
        """What a query or a form is about, and its field: a stage, or the keys of jobs."""
        if what in _OF_STAGES:
            return "stage", [self._stage(given.get("stage")).name]
        keys = given.getlist("key")[:MAX_ACTS]
        if not keys:
            raise NotFound("No job is named.")
        return "key", [self._key(*key.split("#", 1)) for key in keys]

    def _key(self, stage: str | None, job_id: str = "") -> str:
        try:
            return f"{self._target.stage(stage or None).name}#{checked_id(job_id)}"
        except OURS as error:
            raise NotFound(str(error)) from None

    def _html(
        self,
        template: str,
        request: Request,
        values: Mapping[str, Any],
        status: int = 200,
    ) -> Response:
        return Response(self._rendered(template, values, request), status, mimetype="text/html")

    def _rendered(
        self, template: str, values: Mapping[str, Any], request: Request | None = None
    ) -> str:
        common = {
            "where": str(self._target),
            "stages_known": [each.name for each in self._target.settings.stages],
            # As it stands in the address, which has the secret as any other.
            "notice": request.args if request and "said" in request.args else None,
        }
        return self._templates.get_template(template).render(**common, **values)


def _window(given: Mapping[str, str]) -> str:
    window = given.get("window", _DEFAULT_WINDOW)
    if window not in WINDOWS:
        raise BadRequest(f"window is one of {', '.join(WINDOWS)}")
    return window
