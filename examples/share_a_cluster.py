"""What each task needs, and who gets it: seats on the machines of a cluster, for steps of one workflow that differ.

`python share_a_cluster.py ray://auto`, or `dask://scheduler:8786`: a cluster that is there. Without an address, Dask
starts one here. What a node has is what its cluster says; a task never spans two nodes.
"""

import sys
import time

import tenfold


def work(item):
    here, began = tenfold.here(), time.time()
    time.sleep(0.2)  # stands for training
    return {"began": began, "ended": time.time(), "cpus": here.cpus, "device": here.device, "memory": here.memory}


def hungry(megabytes):
    return len(bytearray(megabytes * 1_000_000)) and time.sleep(1)


with tenfold.use(sys.argv[1] if sys.argv[1:] else "dask"):
    for needs in ({"cpus": 1}, {"cpus": 0.5}, {"cpus": 2}, {"cpus": 1, "memory": "300MB"}, {"cpus": 1, "workers": 1}):
        results = tenfold.map(work, range(4), progress=False, **needs)
        most = max(sum(a["began"] <= b["began"] < a["ended"] for a in results) for b in results)
        seat = f"cores={results[0]['cpus']}, device={results[0]['device']}, bytes={results[0]['memory'] or 'any'}"
        print(f"{needs}: {most} at once, each with {seat}")

    found = tenfold.map(hungry, [10, 2000], memory="300MB", on_error="collect", progress=False)
    print("a task that takes more than it has said is one failure:")
    for outcome in found.outcomes:
        print(f"  {outcome.item} MB: {'done' if outcome.ok else outcome.failure.summary}")
    assert [outcome.ok for outcome in found.outcomes] == [True, False]

    print("what no node has is refused before anything starts:")
    for needs in ({"cpus": 1000}, {"gpus": 1000}, {"memory": "900TB"}):
        try:
            tenfold.map(work, range(4), **needs)
        except tenfold.BadCall as error:
            print(f"  {error}")
