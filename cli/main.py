"""The `coevolve` command: signals, standard streams, and the one place that exits.

What a user may press or send comes first: nothing heavy is imported before the handlers are in
place, and whatever a library makes of an interruption (an ImportError, say), the process ends as
interrupted.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time

from coevolve.errors import WRITE_ERRORS, CoevolveError, Exit, PipeClosed

_INTERRUPTED = "interrupted; a rerun goes on where a journal or a checkpoint was kept"


class _Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP, raised so that `finally` blocks run. An event loop lets only this kind of
    exception through."""


class _Signals:
    """Turns signals into exceptions and remembers the first. A repeat within `PATIENCE` seconds
    does not disturb the clean-up."""

    KINDS = {
        signal.SIGINT: KeyboardInterrupt,
        signal.SIGTERM: _Terminated,
        signal.SIGHUP: _Terminated,
    }
    PATIENCE = 10.0

    def __init__(self) -> None:
        self.first: int | None = None
        self._raised = 0.0
        self._installed: list[int] = []

    def install(self) -> None:
        """Leaves alone what the parent had ignored (nohup, `&` of a script)."""
        for number in self.KINDS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._handle)
                self._installed.append(number)

    def release(self) -> None:
        """The work is over: the first signal ends the process at once, a repeat changes nothing."""
        for number in self._installed:
            signal.signal(number, signal.SIG_DFL if self.first is None else signal.SIG_IGN)

    def _handle(self, number: int, _: object) -> None:
        if self.first is not None and time.monotonic() - self._raised < self.PATIENCE:
            return
        self.first, self._raised = self.first or number, time.monotonic()
        if logging := sys.modules.get("logging"):
            logging.disable()  # what libraries say of tasks that were cut off is no news
        raise self.KINDS[signal.Signals(number)]

    def exit(self) -> Exit | None:
        if self.first is None:
            return None
        return Exit.INTERRUPTED if self.first == signal.SIGINT else Exit.TERMINATED


def run(argv: list[str]) -> int:
    """Runs one command and returns its exit code; every failure becomes one line on stderr."""
    signals = _Signals()
    try:
        signals.install()
        code, message = _run(argv)
    except KeyboardInterrupt:
        code, message = Exit.INTERRUPTED, _INTERRUPTED
    finally:
        signals.release()
    if stopped := signals.exit():
        code, message = stopped, _INTERRUPTED
    if message:
        _say(message)
    return code


def _run(argv: list[str]) -> tuple[int, str | None]:
    try:
        from coevolve_cli.commands import app

        result = app(args=argv, prog_name="coevolve", standalone_mode=False)
    except Exception as error:  # noqa: BLE001 - the boundary: what is no error of ours or of Typer's is a fault of ours
        if os.environ.get("COEVOLVE_DEBUG"):
            import traceback

            traceback.print_exc()
        return _explain(error)
    except SystemExit as error:
        # Typer's answer to a reader of the help that has gone.
        if isinstance(error.__context__, BrokenPipeError):
            return Exit.PIPE, None
        return Exit.FAILED, f"internal error: a library ended the process ({error})"
    if result == Exit.INTERRUPTED:  # how newer Typer hands on Ctrl-C
        return result, _INTERRUPTED
    return (result if isinstance(result, int) else Exit.OK), None


def _explain(error: Exception) -> tuple[int, str | None]:
    """Exit code and message of an exception that ended the command."""
    if isinstance(error, PipeClosed):
        return Exit.PIPE, None
    if isinstance(error, CoevolveError):
        return error.exit, str(error)
    if isinstance(error, OSError) and error.errno in WRITE_ERRORS:
        return Exit.WRITE_FAILED, f"cannot write {error.filename or 'output'}: {error.strerror}"
    if hasattr(error, "format_message"):
        context = getattr(error, "ctx", None)
        if type(error).__name__ == "NoArgsIsHelpError":
            return Exit.USAGE, context.get_help()
        hint = f" Try: {context.command_path} --help" if context else ""
        return Exit.USAGE, error.format_message() + hint
    fault = f"{type(error).__name__}: {error}"
    return Exit.FAILED, f"internal error: {fault} (COEVOLVE_DEBUG=1 shows where)"


def _say(message: str) -> None:
    line = message if message.startswith("Usage:") else f"coevolve: {message}"
    with contextlib.suppress(OSError):  # nobody reads stderr: the exit code still tells
        print(line, file=sys.stderr, flush=True)


def _fill_descriptors() -> None:
    """Keeps 0, 1 and 2 from going to the next file opened, where the parent closed them: reading
    and records fail, messages vanish."""
    for number, flags in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, flags)  # takes the lowest free number
            os.set_inheritable(number, True)
    sys.stdout = sys.stdout or open(1, "w", closefd=False)
    sys.stderr = sys.stderr or open(2, "w", closefd=False)


def main() -> None:
    _fill_descriptors()
    code = run(sys.argv[1:])
    if code == Exit.PIPE:  # die as any Unix filter does, so that the shell sees the signal
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGPIPE)
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is still buffered goes nowhere
        if not code:
            _say(f"cannot write output: {error.strerror}")
            code = Exit.WRITE_FAILED
    sys.exit(code)


if __name__ == "__main__":
    main()
