"""The command line: one file per command, each loaded when it is called.

    commands.py   the list of commands, and how errors end the process
    doctor.py     what is here                             examine.py   finds it out
                                                           clusters.py  finds out what an engine has
    map.py        a function of a file over items          load.py      FILE.py:NAME -> function
                                                           given.py     --items, --set
    launch.py     a function of a file in several processes at once
    prepare.py    a function of a file over a data set     objects.py   what was typed -> data, models, metrics
    predict.py    a model over a data set                  sets.py      what prepare and predict share
    evaluate.py   scores of a model
    runs.py       runs below a folder
    show.py       one run                                  story.py     what there is to tell of it
    report.py     a page about one run
    warm.py       a nursery for the next scripts
    demo.py       trains small Keras models                digits.py    one of them, in a worker
    say.py        tables, notes and JSON

Nothing here is imported by the rest of tenfold. stdout holds the result and nothing else; progress, notes and errors
go to stderr. This file imports nothing, because a worker that runs `digits.train` imports it.
"""

from __future__ import annotations


def main() -> None:
    """The entry point `tenfold`."""
    from tenfold.cli.commands import commands

    commands(prog_name="tenfold")
