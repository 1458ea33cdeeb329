"""What all commands share: store, output and error handling."""

from __future__ import annotations

import inspect
import os
import re
import socket
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from enum import IntEnum
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any, Concatenate, ParamSpec, TypeVar
from urllib.parse import unquote

import typer

from stanchion.app import Stanchion
from stanchion.core import environment
from stanchion.core.text.printable import safe
from stanchion.errors import InvalidInput, NotPermitted, StanchionError, StoreUnavailable, UnknownTask
from stanchion.ops.audit import AuditLog, Entry
from stanchion.ops.cli.console.given import account
from stanchion.ops.cli.console.human import one_line
from stanchion.ops.cli.console.output import Output
from stanchion.pipelines import Pipeline
from stanchion.service import loading
from stanchion.stores.protocol import Store

P = ParamSpec("P")
T = TypeVar("T")


class Exit(IntEnum):
    """Exit codes."""

    OK = 0
    FAILED = 1
    """No match was found, or some of the work failed."""
    BAD_INPUT = 2
    UNFINISHED = 3
    """Running jobs must finish first; then run the same command again."""
    INTERRUPTED = 130


class Session:
    """One run of a command: its store, its output."""

    def __init__(
        self,
        url: str | None = None,
        app_path: str | None = None,
        as_json: bool = False,
        debug: bool = False,
        *,
        makes_store: bool = True,
    ) -> None:
        self.url, self.app_path, self.debug = url, app_path, debug
        self._audited: tuple[Store, Entry] | None = None
        self._makes_store = makes_store
        self.out = Output(as_json)

    @cached_property
    def app(self) -> Stanchion:
        """The app of --app, or a bare one for --url."""
        if self.url and self.app_path:
            raise InvalidInput("give --url or --app, not both: the app names its own store")
        app = load_app(self.app_path) if self.app_path else Stanchion(self._given_url())
        if not self._makes_store:
            refuse_missing_file(app)
        return app

    def _given_url(self) -> str:
        url = self.url or os.environ.get(environment.URL)
        if not url:
            raise InvalidInput(
                "no store: give --url sqlite:///jobs.db, set STANCHION_URL, or name your app with --app module:app"
            )
        return url

    def fail(self, error: BaseException) -> Exit:
        """Print the error in one line; return its exit code."""
        if self.debug:
            sys.stderr.write(safe("".join(traceback.format_exception(error))))
        known = isinstance(error, StanchionError)
        text = str(error) if known else f"{type(error).__name__}: {error} (--debug shows the traceback)"
        self.out.say(f"error: {self._without_password(text)}")
        if self._audited is not None and known and not isinstance(error, StoreUnavailable):
            log, entry = self._audited
            with suppress(StanchionError):
                refused = entry._replace(act=f"{entry.act}: refused", number=0, note=self._without_password(text))
                AuditLog(lambda: log).add(refused)
        return Exit.BAD_INPUT if isinstance(error, (InvalidInput, UnknownTask)) else Exit.FAILED

    def _without_password(self, text: str) -> str:
        """Hide credentials, as drivers may quote the URL."""
        text = re.sub(r"(://[^:/@\s]*):[^@\s]*@", r"\1:***@", text)
        text = re.sub(r"(?i)((?:password|token)=)\S+", r"\1***", text)
        url = self.url or os.environ.get(environment.URL) or ""
        password = re.search(r"://[^:/@]*:([^@]+)@", url)
        if password:
            for form in (password[1], unquote(password[1])):
                text = re.sub(rf"(?<!\w){re.escape(form)}(?!\w)", "***", text)
        return text

    def audit(self, act: str, subject: str, number: int = 0, note: str = "", store: Store | None = None) -> None:
        """Record the coming action in the audit log, as the page does.

        `number`: of jobs. `store`: if it differs from the app's. If a manager's token may act but not write the log,
        print a note and act.
        """
        log = self.app.store if store is None else store
        who = f"{account()}@{socket.gethostname()}"
        entry = Entry(log.now(), who, act, subject, number, note, "shell")
        self._audited = log, entry
        try:
            AuditLog(lambda: log).add(entry)
        except NotPermitted:
            self.out.say("this is not in the audit log: the token of the manager may not write it")

    def close(self) -> None:
        """Release the store, if it was used."""
        if "app" in self.__dict__:
            self.app.close()


def load_app(path: str, imports: Sequence[str] = ()) -> Stanchion:
    """Return the app of `module:app`; the current folder is searched too. `imports`: further modules of tasks."""
    return _loaded(partial(loading.load, imports=imports), path)


def load_pipeline(path: str) -> Pipeline:
    """Return the pipeline of `module:pipeline`; the current folder is searched too."""
    return _loaded(loading.load_pipeline, path)


def _loaded(load: Callable[[str], T], path: str) -> T:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return load(path)
    except StanchionError:
        raise
    except Exception as error:
        module = path.partition(":")[0]
        raise InvalidInput(
            f"importing {module!r} failed: {one_line(f'{type(error).__name__}: {error}')}; fix the module "
            f"(--debug shows the traceback)"
        ) from error


def refuse_missing_file(app: Stanchion) -> None:
    """Refuse a missing SQLite file instead of creating an empty one."""
    try:
        url = app.url
    except InvalidInput:  # a store that was given as an object
        return
    if not url.startswith("sqlite"):
        return
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        file = make_url(url).database
    except (ArgumentError, ValueError):
        return
    if file and file != ":memory:" and not file.startswith("file:") and not Path(file).exists():
        raise InvalidInput(
            f"there is no file {Path(file).absolute()}; correct the URL, or create the store with `stanchion setup`"
        )


Url = Annotated[
    str | None,
    typer.Option("--url", help="The store, such as sqlite:///jobs.db (or set STANCHION_URL).", metavar="URL"),
]
AppPath = Annotated[
    str | None,
    typer.Option("--app", help="Your app, for its store, keys and tasks.", metavar="MODULE:APP"),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Debug = Annotated[
    bool,
    typer.Option(
        "--debug",
        help="Show the traceback of an error (or set STANCHION_DEBUG).",
        envvar=environment.DEBUG,
        show_envvar=False,
    ),
]


def shared(url: Url = None, app: AppPath = None, as_json: AsJson = False, debug: Debug = False) -> dict[str, Any]:
    """Return the options of every command, as the arguments of a Session."""
    return {"url": url, "app_path": app, "as_json": as_json, "debug": debug}


def command(
    cli: typer.Typer,
    name: str | None = None,
    *,
    panel: str | None = None,
    makes_store: bool = False,
    group: bool = False,
    options: Iterable[inspect.Parameter] = (),
) -> Callable[[Callable[Concatenate[Session, P], Exit | None]], Callable[Concatenate[Session, P], Exit | None]]:
    """Register a function as a command, with its own options and the shared ones.

    The function gets a session and returns an exit code, None for success. An error is printed as one line on
    stderr. Options before the command's name count too. `makes_store`: the command may create a SQLite file.
    `group`: it runs if `cli` is called without a subcommand. `options`: further ones, for its `**` parameter.
    """

    more = list(options)

    def register(
        function: Callable[Concatenate[Session, P], Exit | None],
    ) -> Callable[Concatenate[Session, P], Exit | None]:
        common = inspect.signature(shared, eval_str=True).parameters
        named = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
        own = [one for one in named if one.kind is not inspect.Parameter.VAR_KEYWORD] + more

        def run(ctx: typer.Context, **values: Any) -> None:
            given = shared(**{option: values.pop(option) for option in common})
            above = ctx.obj or {}
            given = {option: value or above.get(option) for option, value in given.items()}
            if ctx.invoked_subcommand:
                ctx.obj = given
                return
            session = Session(**given, makes_store=makes_store)
            work: Callable[..., Exit | None] = function
            raise typer.Exit(_run(session, partial(work, session, **values)))

        context = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
        parameters = [
            parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in (context, *own, *common.values())
        ]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined] # any function may have one
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        run.__doc__ = function.__doc__
        if group:
            cli.callback(invoke_without_command=True)(run)
        else:
            cli.command(name, rich_help_panel=panel)(run)
        return function

    return register


def _run(session: Session, call: Callable[[], Exit | None]) -> Exit:
    try:
        return call() or Exit.OK
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:  # the reader of our output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK
    except Exception as error:
        return session.fail(error)
    finally:
        session.close()
