"""How long does a whole script take that trains n small models, with tenfold, with joblib and in a plain loop?

The scripts are those of the question "How can I use joblib.Parallel with CPUs and GPUs for training models across n
iterations?", in benchmarks/scripts/: TensorFlow, PyTorch, and NumPy in CuPy's place. Each is timed from the start of
a cold interpreter to its exit, with 2 workers. All must print the same losses. Memory is the peak of the sum over all
processes of a script (PSS), taken in a pass of its own that is not timed.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import launch
from contest import (
    TENFOLD,
    Goal,
    Options,
    Report,
    Table,
    at_least,
    at_most,
    medians,
    options,
    publish,
    say,
    spread,
    take_turns,
)

REPEATS = 3
LOOP, JOBLIB, ISOLATE, WARM = "plain loop", "joblib", "tenfold, isolate=True", "tenfold, warm nursery"
FRAMEWORKS = ("tensorflow", "torch", "numpy")
WARM_MINUTES = 10  # that a warm nursery waits for a script, should this benchmark be killed

AGAINST_JOBLIB = {"tensorflow": 2.0, "torch": 1.5}
WARM_AGAINST_JOBLIB = 2.3
SLOWER_THAN_LOOP = 0.5  # seconds

REAL_WORK = {"tensorflow": (20_000, 30), "torch": (100_000, 240), "numpy": (100_000, 270)}
"""Rows and epochs with which one iteration takes about 0.2 s on one core."""


@dataclass(frozen=True, slots=True)
class Work:
    """How much a script has to do, and who does it."""

    title: str
    """For people."""
    iterations: int
    """How many models."""
    sizes: dict[str, tuple[int, int]]
    """Rows and epochs of each framework's model."""
    contestants: tuple[str, ...]
    """Who takes part."""
    weighed: bool = False
    """Whether memory is measured too."""
    fewer: int = 0
    """Turns less than asked for, so that all is over in minutes; each table says how many there were."""

    def turns(self, repeats: int) -> int:
        return max(1, repeats - self.fewer)


@dataclass(frozen=True, slots=True)
class Measured:
    """What one framework's scripts took for one work."""

    framework: str
    """Which."""
    work: Work
    """What they did."""
    seconds: dict[str, list[float]]
    """Each contestant's turns."""
    memory: dict[str, int]
    """Each contestant's peak, where it was measured."""


def works(quick: bool) -> list[Work]:
    """What is measured: many small models, few small models, and models that take a while."""
    everybody = (TENFOLD, JOBLIB, LOOP, ISOLATE, WARM)
    small = dict.fromkeys(FRAMEWORKS, (1000, 5))
    many, few, long = (4, 2, 2) if quick else (60, 10, 12)
    real = small if quick else REAL_WORK
    return [
        Work(f"{many} iterations on 1,000 rows, 5 epochs", many, small, everybody, weighed=True),
        Work(f"{few} iterations on 1,000 rows, 5 epochs (as in the question)", few, small, (TENFOLD, LOOP), fewer=1),
        Work(f"{long} iterations of about 0.2 s each", long, real, (TENFOLD, JOBLIB, LOOP), fewer=2),
    ]


def main() -> None:
    chosen = options(__doc__, repeats=REPEATS)
    found = [measured for framework in FRAMEWORKS for measured in measure(framework, chosen)]
    tables = [table(work.title, [one for one in found if one.work == work]) for work in works(chosen.quick)]
    samples = {f"{one.framework}, {one.work.title}": {"seconds": one.seconds, "memory": one.memory} for one in found}
    publish(Report(__doc__ or "", tables, goals(found), samples), chosen)


# -- measuring --------------------------------------------------------------------------------------------------------


def measure(framework: str, chosen: Options) -> Iterator[Measured]:
    """All works of one framework, with a nursery that has imported it waiting for those who want one."""
    with launch.environment() as cold, warm_nursery(framework, cold) as (warm, nursery):
        for work in works(chosen.quick):
            yield measure_work(framework, work, chosen.repeats, cold, warm, nursery)


def measure_work(
    framework: str, work: Work, repeats: int, cold: dict[str, str], warm: dict[str, str], nursery: int
) -> Measured:
    """Weigh each contestant where that is wanted, then time them in turns; compare what they print all the time."""
    say(f"{framework}: {work.title}")
    check = launch.Agreement()
    runs: dict[str, Callable[[], float]] = {}
    memory = {}
    for name in work.contestants:
        words, variables = start(name, framework, work), warm if name == WARM else cold
        if work.weighed:
            memory[name], printed = launch.weigh(words, variables, also=[nursery] if name == WARM else [])
            check(printed)
        runs[name] = partial(_time, words, variables, check)
    return Measured(framework, work, take_turns(runs, work.turns(repeats)), memory)


def start(contestant: str, framework: str, work: Work) -> list[str]:
    """The command line of a contestant's script."""
    peer = {LOOP: "loop", JOBLIB: "joblib"}.get(contestant, "tenfold")
    words = launch.command(f"{framework}_{peer}", work.iterations, *work.sizes[framework])
    return [*words, "isolate"] if contestant == ISOLATE else words


def _time(words: list[str], variables: dict[str, str], check: launch.Agreement) -> float:
    seconds, printed = launch.run(words, variables)
    check(printed)
    return seconds


@contextlib.contextmanager
def warm_nursery(framework: str, cold: dict[str, str]) -> Iterator[tuple[dict[str, str], int]]:
    """What `tenfold warm` does: the environment of a script that finds the nursery, and the nursery's process id."""
    with tempfile.TemporaryDirectory(prefix="warm-") as folder:
        variables = cold | {"XDG_RUNTIME_DIR": folder}
        code = "import json; from tenfold.nursery import warming; from tenfold.verbs.warm import modules; "
        begin = code + f"print(json.dumps(warming.start(modules(({framework!r},)), {WARM_MINUTES})))"
        state = json.loads(subprocess.check_output([sys.executable, "-c", begin], env=variables))
        try:
            yield variables, int(state["pid"])
        finally:
            subprocess.check_call([sys.executable, "-c", code + "warming.stop()"], env=variables)


# -- reporting --------------------------------------------------------------------------------------------------------


def table(title: str, found: list[Measured]) -> Table:
    rows = [row for one in found for row in _rows(one)]
    head = ("framework", "contestant", "median s", "turns", "s / tenfold's s", "peak memory")
    turns = len(found[0].seconds[TENFOLD])
    return Table(f"{title} (turns: {turns})", head, rows, words=2)


def _rows(one: Measured) -> Iterator[tuple[str, ...]]:
    middle = medians(one.seconds)
    for name, seconds in middle.items():
        ratio = f"{seconds / middle[TENFOLD]:.2f}"
        memory = f"{one.memory[name] / 1e6:.0f} MB" if name in one.memory else ""
        yield one.framework, name, f"{seconds:.2f}", spread(one.seconds[name]), ratio, memory


def goals(found: list[Measured]) -> list[Goal]:
    return [goal for one in found for goal in (*_against_joblib(one), _against_loop(one))]


def _against_joblib(one: Measured) -> Iterator[Goal]:
    if ISOLATE not in one.work.contestants:
        return
    middle = medians(one.seconds)
    if one.framework in AGAINST_JOBLIB:
        limit = AGAINST_JOBLIB[one.framework]
        yield at_least(f"{one.framework}: faster than joblib", middle[JOBLIB] / middle[TENFOLD], limit)
        gain = middle[JOBLIB] / middle[WARM]
        yield at_least(f"{one.framework}: with a warm nursery faster than joblib", gain, WARM_AGAINST_JOBLIB)
    gain = middle[JOBLIB] / middle[ISOLATE]
    yield at_least(f"{one.framework}: a process for each task no slower than joblib's reused workers", gain, 1)


def _against_loop(one: Measured) -> Goal:
    middle = medians(one.seconds)
    text = f"{one.framework}, {one.work.title}: slower than the plain loop by"
    return at_most(text, middle[TENFOLD] - middle[LOOP], SLOWER_THAN_LOOP, "s")


if __name__ == "__main__":
    main()
