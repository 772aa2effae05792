"""Python scripts in processes of their own: what a user would write in a file and start."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import leftovers
import waiting

TESTS = Path(__file__).parent
HASTY = {
    "XLA_FLAGS": "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
    " --xla_cpu_use_fusion_emitters=false"
}
"""Variables for scripts with JAX: it compiles in less than half the time. How fast programs run is no question here."""


@dataclass(frozen=True, slots=True)
class Ended:
    """What a script did."""

    status: int
    """Its exit status."""
    out: str
    """What it printed."""
    err: str
    """What it wrote to stderr."""


class Script:
    """A running script, in a process group of its own."""

    def __init__(
        self, folder: Path, text: str, variables: Mapping[str, str] | None = None, name: str = "script"
    ) -> None:
        self._path = folder / f"{name}.py"
        self._path.write_text(textwrap.dedent(text))
        self._out, self._err = folder / f"{name}.out", folder / f"{name}.err"
        path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")]).strip(os.pathsep)
        with open(self._out, "wb") as out, open(self._err, "wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, str(self._path)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=folder,
                env={**leftovers.variables(), "PYTHONPATH": path, **(variables or {})},
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def out(self) -> str:
        return self._out.read_text()

    @property
    def err(self) -> str:
        return self._err.read_text()

    def interrupt(self) -> None:
        """Ctrl-C: the terminal sends SIGINT to the whole group."""
        os.killpg(self.pid, signal.SIGINT)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def end(self, seconds: float = 60.0) -> Ended:
        """Wait for its end."""
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the script did not end within {seconds:g} s\n{self.out}\n{self.err}") from None
        return Ended(status, self.out, self.err)


@contextlib.contextmanager
def started(
    folder: Path, text: str, variables: Mapping[str, str] | None = None, name: str = "script"
) -> Iterator[Script]:
    script = Script(folder, text, variables, name)
    try:
        yield script
    finally:
        if script.process.poll() is None:
            script.kill()


def run(folder: Path, text: str, variables: Mapping[str, str] | None = None, seconds: float = 120.0) -> Ended:
    """Run a script to its end; fails the test with everything it wrote where it does not end well."""
    with started(folder, text, variables) as script:
        ended = script.end(seconds)
    assert ended.status == 0, f"the script ended with status {ended.status}\n{ended.out}\n{ended.err}"
    return ended


def doctor(folder: Path, engine: str, variables: Mapping[str, str] | None = None) -> str:
    """What `tenfold doctor --engine` says, on a wide screen."""
    text = f"import sys; sys.argv = ['tenfold', 'doctor', '--engine', {engine!r}]; from tenfold.cli import main; main()"
    return run(folder, text, {"COLUMNS": "250", **(variables or {})}).out


def descendants(pid: int) -> list[int]:
    """Every living process below `pid`."""
    import psutil

    try:
        found = [child.pid for child in psutil.Process(pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        return []
    return [child for child in found if waiting.lives(child)]
