"""Runs notebook cells in this process, as a kernel would, and keeps what they show.

An IPython shell without a kernel: magics, display, figures, `await` and Jupyter's outputs, but no
history file, thread, socket, terminal or program. Both sides use it: the examiner for the source's
cells, the learner process for the learner's. It is made before a fork and used in the child.
"""

from __future__ import annotations

import builtins
import codeop
import contextlib
import getpass
import importlib.util
import io
import sys
import traceback
import types
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

from IPython.core import magics
from IPython.core.compilerop import CachingCompiler
from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.error import StdinNotImplementedError, UsageError
from IPython.core.history import HistoryManager
from IPython.core.interactiveshell import InteractiveShell

OUTPUT_LIMIT = 2 * 2**20
"""Bytes that one cell or call may show."""

# What an output weighs beside its text, so that many small ones reach the limit too.
_OUTPUT_OVERHEAD = 256
_ERROR_TEXT = 10_000
_TRACEBACK_FRAMES = 8
_TRACEBACK_LINES = 60


@dataclass(frozen=True)
class CellOutcome:
    """What became of a cell.

    Args:
        outputs: as in a notebook file of format 4.
        error: the exception that ended it.
        value: the value of its last line if that was shown (not silenced by a semicolon), or None.
        execution_count: its number, or None for an empty cell.
    """

    outputs: list[dict[str, Any]]
    error: BaseException | None
    value: Any
    execution_count: int | None


class Record:
    """The outputs of one cell or call, up to `OUTPUT_LIMIT` bytes."""

    def __init__(self) -> None:
        self.outputs: list[dict[str, Any]] = []
        self._left = OUTPUT_LIMIT
        self._display_ids: dict[str, list[dict[str, Any]]] = {}
        self._clear_first = False

    def write(self, stream: str, text: str) -> None:
        """Add printed text, to the last output if that is the same stream's."""
        if not self._start():
            return
        last = self.outputs[-1] if self.outputs else {}
        if last.get("name") != stream:
            if not self._spend(_OUTPUT_OVERHEAD):
                return
            last = {"output_type": "stream", "name": stream, "text": []}
            self.outputs.append(last)
        text = plain_text(text[: self._left])
        last["text"].append(text)
        self._spend(len(text.encode()))

    def show(
        self, data: dict[str, Any], metadata: dict[str, Any], display_id: str | None, update: bool
    ) -> None:
        """Add what `display` shows, or show it in place of what had the same id."""
        shown = self._display_ids.get(display_id or "", [])
        output = {"output_type": "display_data", **_bundle(data, metadata)}
        if not self._start(output):
            return
        if update:
            for earlier in shown:
                earlier.update(data=output["data"], metadata=output["metadata"])
            return
        self.outputs.append(output)
        if display_id:
            self._display_ids[display_id] = [*shown, output]

    def result(self, data: dict[str, Any], metadata: dict[str, Any], count: int) -> None:
        """Add the value of a cell's last line."""
        output = {"output_type": "execute_result", **_bundle(data, metadata)}
        if self._start(output):
            self.outputs.append({**output, "execution_count": count})

    def error(self, name: str, text: str, lines: list[str]) -> None:
        """Add an exception; the first one even where there is no more room."""
        output = {
            "output_type": "error",
            "ename": name,
            "evalue": text,
            "traceback": list(map(plain_text, lines)),
        }
        if self._start(output) or not self.has_error():
            self.outputs.append(output)

    def has_error(self) -> bool:
        """Whether an exception is among the outputs."""
        return any(output["output_type"] == "error" for output in self.outputs)

    def clear(self, wait: bool) -> None:
        """Forget the outputs: now, or as the next one comes."""
        self._clear_first = wait
        if not wait:
            self.outputs.clear()
            self._display_ids.clear()

    def printed(self, stream: str) -> str:
        """The text of a stream."""
        return "".join("".join(o["text"]) for o in self.outputs if o.get("name") == stream)

    def finish(self) -> list[dict[str, Any]]:
        """The outputs, with the text of streams joined."""
        for output in self.outputs:
            if output["output_type"] == "stream":
                output["text"] = "".join(output["text"])
        return self.outputs

    def _start(self, output: dict[str, Any] | None = None) -> bool:
        """Make ready for more output; returns whether there is room for it."""
        if self._clear_first:
            self.clear(wait=False)
        if self._left <= 0:
            return False
        return output is None or self._spend(_OUTPUT_OVERHEAD + len(repr(output)))

    def _spend(self, size: int) -> bool:
        self._left -= size
        if self._left > 0:
            return True
        note = f"\n[output cut: more than {OUTPUT_LIMIT // 1024} kB]\n"
        self.outputs.append({"output_type": "stream", "name": "stderr", "text": [note]})
        return False


class _Stream(io.TextIOBase):
    """`sys.stdout` or `sys.stderr` of the cell that runs."""

    encoding = "utf-8"

    def __init__(self, shell: _QuietShell, name: str) -> None:
        self._shell = shell
        self.name = f"<{name}>"
        self._stream = name

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        self._shell.record.write(self._stream, text)
        return len(text)


class _Compiler(CachingCompiler):
    """Names cells in tracebacks as Jupyter does, and compiles the same cell only once."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._trees: dict[tuple[str, str, str], Any] = {}
        self._nodes: set[int] = set()  # the identities of their statements
        self._code: dict[tuple[int, str], types.CodeType] = {}

    def get_code_name(self, raw_code: str, transformed_code: str, number: int) -> str:
        return f"Cell In[{number}]"

    def ast_parse(self, source: str, filename: str = "<unknown>", symbol: str = "exec") -> Any:
        key = source, filename, symbol
        if key not in self._trees:
            self._trees[key] = tree = super().ast_parse(source, filename, symbol)
            self._nodes.update(map(id, getattr(tree, "body", ())))
        return self._trees[key]

    def __call__(self, source: Any, filename: str, symbol: str, **kwargs: Any) -> Any:
        # IPython compiles each statement of a tree by itself.
        statements: list[Any] = getattr(source, "body", [])
        if len(statements) != 1 or id(statements[0]) not in self._nodes:
            return codeop.Compile.__call__(self, source, filename, symbol, **kwargs)
        key = id(statements[0]), symbol
        if key not in self._code:
            code = codeop.Compile.__call__(self, source, filename, symbol, **kwargs)
            self._code[key] = code
        return self._code[key]


class _DisplayHook(DisplayHook):
    """Records the value of a cell's last line."""

    shell: Any

    def write_output_prompt(self) -> None:
        pass

    def write_format_data(
        self, format_dict: dict[str, Any], md_dict: dict[str, Any] | None = None
    ) -> None:
        self.shell.record.result(format_dict, md_dict or {}, self.prompt_count)

    def log_output(self, format_dict: dict[str, Any]) -> None:
        pass

    def finish_displayhook(self) -> None:
        self._is_active = False


class _DisplayPublisher(DisplayPublisher):
    """Records what `display` shows."""

    def publish(  # type: ignore[no-untyped-def, override]
        self, data, metadata=None, *, transient=None, update=False, **_
    ) -> None:
        self.shell.record.show(data, metadata or {}, (transient or {}).get("display_id"), update)

    def clear_output(self, wait: bool = False) -> None:
        self.shell.record.clear(wait)


class _QuietShell(InteractiveShell):
    """IPython's own methods, made quiet."""

    compiler_class = _Compiler
    displayhook_class = _DisplayHook
    display_pub_class = _DisplayPublisher

    def __init__(self, **kwargs: Any) -> None:
        self.record = Record()
        self._transformed: dict[str, str] = {}
        self._rehearsing = False
        super().__init__(colors="nocolor", **kwargs)  # type: ignore[no-untyped-call]

    def showtraceback(self, exc_tuple: Any = None, *_: Any, **__: Any) -> None:
        error = exc_tuple[1] if exc_tuple else sys.exc_info()[1]
        if error is not None:
            name = type(error).__name__
            self.record.error(name, exception_text(error), self._traceback_lines(error))

    def showsyntaxerror(self, *_: Any, **__: Any) -> None:
        self.showtraceback()

    def _traceback_lines(self, error: BaseException) -> list[str]:
        short = f"{type(error).__name__}: {exception_text(error)}"
        if isinstance(error, UsageError):
            return [short]
        try:
            if render := getattr(error, "_render_traceback_", None):
                return [str(line)[:_ERROR_TEXT] for line in render()][-_TRACEBACK_LINES:]
            return self._format_traceback(error)[-_TRACEBACK_LINES:]
        except BaseException:
            # The learner's class may do anything when asked for its text.
            return [short]

    def _format_traceback(self, error: BaseException) -> list[str]:
        trace = error.__traceback__
        # What is above the cell is ours; a cell that did not compile has nothing of its own.
        while trace and trace.tb_frame.f_code.co_filename not in self.compile._filename_map:
            trace = trace.tb_next
        formatted = traceback.TracebackException(
            type(error), error, trace, limit=-_TRACEBACK_FRAMES, compact=True
        ).format()
        return "".join(part[:_ERROR_TEXT] for part in formatted).splitlines()

    def transform_cell(self, raw_cell: str) -> str:
        if raw_cell not in self._transformed:
            self._transformed[raw_cell] = super().transform_cell(raw_cell)  # type: ignore[no-untyped-call]
        return self._transformed[raw_cell]

    def should_run_async(self, raw_cell: str, **options: Any) -> bool:
        # IPython compiles every cell to find out.
        may_be = "await" in raw_cell or "async" in raw_cell
        return may_be and super().should_run_async(raw_cell, **options)

    async def run_code(self, code_obj: Any, result: Any = None, *, async_: bool = False) -> bool:
        if self._rehearsing:
            return False  # no exception, so that the next statement's turn comes
        return await super().run_code(code_obj, result, async_=async_)  # type: ignore[no-untyped-call]

    def _tee(self, channel: str) -> Any:
        # IPython would keep a second copy of everything printed.
        return contextlib.nullcontext()

    def _format_exception_for_storage(self, *_: Any, **__: Any) -> dict[str, Any]:
        # Its history of exceptions would take longer to write than most cells to run.
        return {}

    def init_ipython_dir(self, ipython_dir: Any) -> None:
        pass

    def init_profile_dir(self, profile_dir: Any) -> None:
        pass

    def init_history(self) -> None:
        self.history_manager = HistoryManager(
            shell=self, parent=self, enabled=False, hist_file=":memory:"
        )

    def init_io(self) -> None:
        builtins.input = _no_input
        getpass.getpass = _no_input
        sys.breakpointhook = _no_input

    def init_magics(self) -> None:
        super().init_magics()  # type: ignore[no-untyped-call]
        names = magics.configured_script_magics(self.config)  # type: ignore[attr-defined]
        for name in ("script", *names):
            self.magics_manager.register_function(_no_program, "cell", name)

    def system(self, cmd: str) -> None:
        _no_program()

    def getoutput(self, cmd: str, *_: Any, **__: Any) -> NoReturn:
        _no_program()

    def enable_gui(self, gui: str | None = None) -> None:
        pass

    def ask_exit(self) -> NoReturn:
        raise SystemExit


class Shell(_QuietShell):
    """IPython without a kernel. Make it with `make_shell`; `user_ns` holds the notebook's names."""

    def run(self, source: str) -> CellOutcome:
        """Run a cell. Whatever it raises, SystemExit too, is its outcome."""
        with self.capture() as record:
            result = self.run_cell(source, store_history=True)  # type: ignore[no-untyped-call]
            error = result.error_before_exec or result.error_in_exec
            if error is not None and not record.has_error():
                self.showtraceback((type(error), error))
        return CellOutcome(record.finish(), error, result.result, result.execution_count)

    def rehearse(self, sources: Iterable[str]) -> None:
        """Do all but run these cells, so that forks of this process find them compiled.

        They must be the ones that such a fork runs, in that order.
        """
        count = self.execution_count
        self._rehearsing = True
        try:
            for source in sources:
                self.run(source)
        finally:
            self._rehearsing = False
            self.execution_count = count

    @contextlib.contextmanager
    def capture(self) -> Iterator[Record]:
        """Collect what is printed and displayed inside the block."""
        self.record = Record()
        streams = _Stream(self, "stdout"), _Stream(self, "stderr")
        with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
            yield self.record

    def cell_of(self, filename: str) -> int | None:
        """The execution count of the cell that code with this file name comes from."""
        return self.compile._filename_map.get(filename)


def make_shell() -> Shell:
    """The shell of this process, warm: what is slow the first time has been done once.

    Figures of matplotlib, where it is installed, are shown in the outputs.
    """
    if Shell.initialized():
        return Shell.instance()
    shell = Shell.instance()
    if importlib.util.find_spec("matplotlib"):
        shell.enable_matplotlib("inline")  # type: ignore[no-untyped-call]
    for source in ("%time 1", "def f(): 1 / 0\nf()", "(", "display([1.5])"):
        shell.run(source)
    shell.reset()  # type: ignore[no-untyped-call]
    return shell


def exception_text(error: BaseException) -> str:
    """An exception as text of bounded length, whatever its class does when asked."""
    try:
        return plain_text(str.__str__(str(error))[:_ERROR_TEXT])
    except BaseException:
        return "<text of the exception failed>"


def leading_blank_lines(source: str) -> int:
    """Return how many lines IPython takes off a cell before it counts."""
    lines = source.splitlines()
    return next((number for number, line in enumerate(lines) if line.strip()), 0)


def plain_text(text: str) -> str:
    """The text without lone surrogates, which cannot be written to a file."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def _bundle(data: dict[str, Any], metadata: dict[str, Any]) -> dict[str, Any]:
    return {"data": {mime: _content(item) for mime, item in data.items()}, "metadata": metadata}


def _content(item: Any) -> Any:
    return plain_text(item) if isinstance(item, str) else item


def _no_input(*_: Any, **__: Any) -> NoReturn:
    raise StdinNotImplementedError("input() is not available while grading.")


def _no_program(*_: Any) -> NoReturn:
    raise UsageError("Other programs (!command, %%bash, %pip) are not available while grading.")
