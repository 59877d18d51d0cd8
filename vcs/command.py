"""How command lines end: one sentence and an exit code, no traceback of a mistake or of Ctrl-C."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType

from vcs.errors import VcsError

OWN = ("vcs", "bench", "conformance", "tests")
INTERRUPTED = 130


def guarded(command: Callable[[], object], name: str, *, last: bool = True) -> None:
    """Run a command line; a mistake or an interruption ends the process with one sentence on standard error.

    Exit codes, besides those that `command` itself ends with: 2 for a VcsError, a package that is not
    installed or too little memory, 130 for Ctrl-C. name: what the sentence begins with. last: nothing but
    the end of the process follows, so Ctrl-C while Python cleans up ends it at once.
    """
    try:
        command()
    except VcsError as error:
        _end(f"{name}: {error}", 2)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] in OWN:
            raise
        _end(
            f"{name}: this command needs the package {error.name}, which is not installed: "
            "pip install 'glassvcs[all]'",
            2,
        )
    except MemoryError as error:
        _end(f"{name}: {str(error) or 'there is not enough memory: ask for less at a time'}", 2)
    except KeyboardInterrupt:
        _end(f"{name}: interrupted", INTERRUPTED)
    except SystemExit as end:
        # typer makes an exit code of Ctrl-C, without a word
        if end.__context__ is None or not isinstance(end.__context__.__cause__, KeyboardInterrupt):
            raise
        _end(f"{name}: interrupted", INTERRUPTED)
    finally:
        main = threading.current_thread() is threading.main_thread()
        if last and main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, signal.SIG_DFL)


def _end(sentence: str, code: int) -> None:
    print(sentence, file=sys.stderr)
    sys.exit(code)


def quiet(package: str) -> None:
    """Let Ctrl-C while `python -m PACKAGE.MODULE` still imports end it with one sentence as well.

    For the package's `__init__`: it runs before the module, whose name Python has not put into sys.argv yet.
    """
    if sys.argv[:1] == ["-m"]:
        before = sys.excepthook

        def hook(
            kind: type[BaseException], value: BaseException, traceback: TracebackType | None
        ) -> None:
            if issubclass(kind, KeyboardInterrupt):
                print(f"{package}: interrupted", file=sys.stderr)
            else:
                before(kind, value, traceback)

        sys.excepthook = hook


@contextmanager
def deaf() -> Iterator[None]:
    """Processes started meanwhile ignore Ctrl-C: the driver ends them, without a traceback of each."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
