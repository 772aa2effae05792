"""Runs the tests in two sessions at once: what `make test` calls. Most tests wait for processes, not for a core.

The first half is what needs clusters, the second is the rest; the sessions share nothing (tests/conftest.py gives each
a temporary folder of its own). Arguments go to both: `python tests/halves.py -k seeds`.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
FIRST = ("clusters", "engines", "faults")
NO_TESTS = 5  # what pytest ends with where -k leaves none


def main() -> int:
    rest = sorted(path.name for path in HERE.iterdir() if path.is_dir() and any(path.glob("test_*.py")))
    halves = [list(FIRST), [name for name in rest if name not in FIRST]]
    began = time.monotonic()
    with tempfile.TemporaryFile() as kept:
        others = _start(halves[1], kept.fileno())
        try:
            first = _start(halves[0], None)
            code = first.wait()
            while others.poll() is None:
                time.sleep(0.2)
        except KeyboardInterrupt:
            others.send_signal(signal.SIGINT)
            others.wait()
            raise
        kept.seek(0)
        sys.stdout.write(kept.read().decode(errors="replace"))
    sys.stdout.write(f"both halves in {(time.monotonic() - began) / 60:.1f} min\n")
    return max(0 if one == NO_TESTS else one for one in (code, others.returncode))


def _start(folders: list[str], output: int | None) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "pytest", *sys.argv[1:], *(str(HERE / name) for name in folders)]
    return subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT if output is not None else None)


if __name__ == "__main__":
    raise SystemExit(main())
