"""How a call is going, for a person: a live line on a terminal or in a notebook, plain lines in a log, or nothing."""

from __future__ import annotations

import contextlib
import html
import sys
import time
from typing import Any, TextIO

from tenfold.work.outcome import Report
from tenfold.work.times import duration

FIRST_LINE_AFTER = 0.5  # a call that is over sooner needs no line
LOG_EVERY = 10.0  # seconds between lines in a log, doubled each time up to ten minutes
LOG_AT_MOST = 600.0
NOTEBOOK_EVERY = 0.2


class Watch:
    """Counts, and shows nothing. The others show what it counts."""

    def __init__(self, total: int | None, already: int) -> None:
        self.total = total
        self.already = already  # done by an earlier call
        self.done = 0
        self.failed = 0
        self.running = 0
        self.metrics: dict[str, float] = {}
        self.headline = ""  # what else a verb has to say
        self.began = time.monotonic()

    def add(self, *, done: int = 0, failed: int = 0) -> None:
        self.done += done
        self.failed += failed

    def report(self, report: Report) -> None:
        self.metrics = {"step": report.step, **report.values}

    def update(self, *, running: int) -> None:
        self.running = running

    def print(self, text: str, stream: str) -> None:
        """Pass on what tasks print, to the caller's own stdout or stderr."""
        target = getattr(sys, stream)
        with contextlib.suppress(ValueError, OSError):  # it was closed
            target.write(text)
            target.flush()

    def close(self) -> None:
        """The call is over."""

    # -- words --------------------------------------------------------------------------------------------------

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    def line(self) -> str:
        """done/failed/running, rate, time left, latest metrics."""
        finished = self.done + self.failed + self.already
        words = [f"{finished}/{self.total}" if self.total is not None else f"{finished}", "done"]
        words += [f"{self.failed} failed"] if self.failed else []
        words += [f"{self.running} running"] if self.running else []
        rate = (self.done + self.failed) / self.seconds if self.seconds > 0 else 0.0
        if rate > 0:
            words.append(f"{rate:.3g}/s" if rate >= 0.1 else f"{60 * rate:.3g}/min")
            if self.total is not None and finished < self.total:
                words.append(f"{duration((self.total - finished) / rate)} left")
        if self.headline:
            words.append(self.headline)
        else:
            words += [f"{name} {value:.4g}" for name, value in self.metrics.items()]
        return ", ".join([" ".join(words[:2]), *words[2:]])


class Lines(Watch):
    """Plain lines, further and further apart: for log files."""

    def __init__(self, total: int | None, already: int, stream: TextIO) -> None:
        super().__init__(total, already)
        self._stream = stream
        self._next = LOG_EVERY
        self._gap = LOG_EVERY
        self._wrote = False

    def update(self, *, running: int) -> None:
        super().update(running=running)
        if self.seconds >= self._next:
            self._gap = min(2 * self._gap, LOG_AT_MOST)
            self._next = self.seconds + self._gap
            self._write()

    def close(self) -> None:
        if self._wrote:
            self._write()

    def _write(self) -> None:
        self._wrote = True
        with contextlib.suppress(ValueError, OSError):
            self._stream.write(f"tenfold: {self.line()} after {duration(self.seconds)}\n")
            self._stream.flush()


class Notebook(Watch):
    """One output that is replaced over and over; rich would need ipywidgets for that."""

    def __init__(self, total: int | None, already: int) -> None:
        super().__init__(total, already)
        self._shown: Any = None
        self._next = FIRST_LINE_AFTER

    def update(self, *, running: int) -> None:
        super().update(running=running)
        if self.seconds >= self._next:
            self._next = self.seconds + NOTEBOOK_EVERY
            self._show()

    def close(self) -> None:
        if self._shown is not None:
            self._show()

    def _show(self) -> None:
        from IPython.display import HTML, display

        finished = self.done + self.failed + self.already
        bar = f'<progress max="{self.total}" value="{finished}"></progress> ' if self.total else ""
        picture = HTML(f"{bar}{html.escape(self.line())}")
        if self._shown is None:
            self._shown = display(picture, display_id=True)
        else:
            self._shown.update(picture)


class Live(Watch):
    """A line that is written over and over, with rich: on a terminal."""

    def __init__(self, total: int | None, already: int) -> None:
        super().__init__(total, already)
        self._live: Any = None

    def update(self, *, running: int) -> None:
        super().update(running=running)
        if self._live is None and self.seconds >= FIRST_LINE_AFTER:
            self._start()
        if self._live is not None:
            self._live.update(self._picture())

    def _start(self) -> None:
        from rich.console import Console
        from rich.live import Live as RichLive

        console = Console(stderr=True)
        self._live = RichLive(self._picture(), console=console, refresh_per_second=8, redirect_stderr=False)
        self._live.start()

    def _picture(self) -> Any:
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        finished = self.done + self.failed + self.already
        line = Table.grid(padding=(0, 1))
        line.add_column(width=20)
        line.add_column(no_wrap=True, overflow="ellipsis")
        line.add_row(ProgressBar(total=self.total or 1, completed=finished if self.total else 0, width=20), self.line())
        return line

    def print(self, text: str, stream: str) -> None:
        if self._live is None or not getattr(sys, stream).isatty():
            super().print(text, stream)
        else:
            self._live.console.out(text, end="")

    def close(self) -> None:
        if self._live is not None:
            self._live.update(self._picture())
            self._live.stop()


def watch(progress: bool | None, total: int | None, already: int) -> Watch:
    """What fits where the caller is: `progress=True` and None show, False does not."""
    if progress is False:
        return Watch(total, already)
    if _in_notebook():
        return Notebook(total, already)
    if sys.stderr.isatty():
        return Live(total, already)
    return Lines(total, already, sys.stderr)


def _in_notebook() -> bool:
    shell = sys.modules.get("IPython")
    current = shell.get_ipython() if shell is not None and hasattr(shell, "get_ipython") else None
    return current is not None and type(current).__name__ == "ZMQInteractiveShell"
