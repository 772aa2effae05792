"""The group: what it lists, how fast, and how errors end."""

from __future__ import annotations

import resource
import subprocess
import sys
import warnings
from importlib import import_module, metadata
from pathlib import Path

import calls
import pytest
from calls import Run

import tenfold
from tenfold import errors
from tenfold.cli import commands

FOLDER = Path(commands.__file__).parent


@pytest.mark.parametrize("name", commands.COMMANDS)
def test_every_command_says_of_itself_what_the_list_says(name: str) -> None:
    command = import_module(f"tenfold.cli.{name}").command
    assert command.help.splitlines()[0] == commands.COMMANDS[name]
    assert any("--json" in option.opts for option in command.params)


def test_every_file_with_a_command_is_in_the_list() -> None:
    files = {path.stem for path in FOLDER.glob("*.py") if "def command(" in path.read_text()}
    assert files == set(commands.COMMANDS)


@pytest.mark.parametrize("words", [(), ("--help",), ("-h",)])
def test_help_lists_every_command(run: Run, words: tuple[str, ...]) -> None:
    result = run(*words)
    assert result.exit_code == 0
    assert all(f"  {name} " in result.stdout for name in commands.COMMANDS)


def test_version(run: Run) -> None:
    assert run("--version").stdout == f"tenfold {tenfold.__version__}\n"


def test_help_imports_neither_a_framework_nor_numpy_and_takes_no_time(tmp_path: Path) -> None:
    code = "import sys; sys.argv = ['tenfold', '--help']; import atexit; from tenfold.cli import main; "
    code += "atexit.register(lambda: print('|', *sys.modules)); main()"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    imported = set(done.stdout.rpartition("|")[2].split())
    assert "tenfold.cli.commands" in imported
    assert not imported & {"numpy", "rich", "sqlite3", "cloudpickle", "tensorflow", "torch", "jax", "keras", "sklearn"}
    # Time of this process's own work: the clock on the wall also tells what others do on the machine.
    assert (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime) < 0.3


def test_the_installed_script_is_this_group() -> None:
    (script,) = [entry for entry in metadata.entry_points(group="console_scripts") if entry.name == "tenfold"]
    assert script.load() is import_module("tenfold.cli").main


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("maps",), "no such command: 'maps'; did you mean map? (see tenfold --help)"),
        (("zzz",), f"no such command: 'zzz'; there are {', '.join(commands.COMMANDS)} (see tenfold --help)"),
        (("runs", "--nix"), "No such option '--nix' (see tenfold runs --help)"),
        (("runs", "nowhere"), "'nowhere' does not exist"),
        (("map",), "(see tenfold map --help)"),
    ],
)
def test_a_bad_call_is_one_line_on_stderr_and_status_2(run: Run, words: tuple[str, ...], told: str) -> None:
    result = run(*words)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert told in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.BadCall("x"), 2),
        (errors.DoesNotFit("x"), 2),
        (errors.MissingPackage("x"), 2),
        (errors.RunUnusable("x"), 2),
        (errors.WorkersUnavailable("x"), 1),
        (errors.TaskDied("x"), 1),
        (errors.TasksFailed("x"), 1),
    ],
)
def test_the_status_says_whose_fault_it_was(error: Exception, status: int) -> None:
    assert commands.status_of(error) == status
    assert commands.text_of(error) == "x"


def test_failed_tasks_are_told_without_words_for_programmers() -> None:
    failures = [errors.TaskRaised("task 1 failed: ValueError"), errors.TaskRaised("task 2 failed")]
    results = type("Results", (list,), {"failures": failures})([1, 2, 3])
    error = errors.TasksFailed("... in this error's .results", results)
    assert commands.text_of(error) == "2 of 3 tasks failed\n\ntask 1 failed: ValueError"


def test_a_run_that_differs_names_the_options_of_the_command_line() -> None:
    assert commands.text_of(errors.RunDiffers("differs")) == "differs (here: --run, --fresh)"


def test_ctrl_c_says_how_to_continue(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        interrupt = KeyboardInterrupt()
        interrupt.add_note("3/10 done; the same call continues the run in 'x'")
        raise interrupt

    monkeypatch.setattr("tenfold.journal.records.find", interrupted)
    result = run("runs")
    assert result.exit_code == 130
    assert "interrupted\n3/10 done; the same call continues the run in 'x'\n" in result.stderr


def test_our_warnings_are_for_people_and_others_stay(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def warn(*_: object) -> list[Path]:
        warnings.simplefilter("always")
        warnings.warn_explicit("torch is slow", UserWarning, str(FOLDER / "x.py"), 1)
        warnings.warn_explicit("yours", UserWarning, "train.py", 7)
        return []

    monkeypatch.setattr("tenfold.journal.records.find", warn)
    with pytest.warns(UserWarning, match="yours"):  # pytest stands where Python's own printing would be
        told = run("runs").stderr
    assert "warning: torch is slow\n" in told
    assert "yours" not in told


def test_a_reader_that_stops_reading_is_no_error(tmp_path: Path) -> None:
    text = " ".join([*calls.COMMAND, "--help", "|", "true"])
    done = subprocess.run(text, shell=True, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert "Traceback" not in done.stderr
