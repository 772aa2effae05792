"""A generator of many items through tenfold.map. Arguments: ITEMS [RUN FOLDER].

Prints JSON: seconds, and the memory of this process (RSS) at the first item, after each quarter of the items, and when
the call has returned and its results are still held.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator

import psutil

import tenfold

QUARTERS = 4


def same(item: int) -> int:
    return item


def counting(count: int, memory: list[int]) -> Iterator[int]:
    """0, 1, 2, ...; notes the memory of this process at the first item and after the first three quarters."""
    for item in range(count):
        if item % (count // QUARTERS) == 0 and len(memory) < QUARTERS:
            memory.append(psutil.Process().memory_info().rss)
        yield item


def main(count: int, folder: str | None) -> None:
    memory: list[int] = []
    began = time.perf_counter()
    results = tenfold.map(same, counting(count, memory), workers=2, run=folder, progress=False)
    seconds = time.perf_counter() - began
    memory.append(psutil.Process().memory_info().rss)
    if len(results) != count or results[count - 1] != count - 1:
        raise SystemExit(f"{len(results)} results, the last {results[-1]}; expected {count}")
    print(json.dumps({"seconds": seconds, "memory": memory}))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None)
