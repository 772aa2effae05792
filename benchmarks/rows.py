"""Files of random numbers for benchmarks, written block by block as most programs write: larger than memory may be."""

from __future__ import annotations

from pathlib import Path

import numpy

BLOCK = 64 << 20  # bytes


def write(path: Path, count: int, shape: tuple[int, ...]) -> None:
    """A `.npy` file of so many float32 rows.

    Not through a map: the kernel keeps what is written through one page by page, and reads it back half as fast.
    """
    size = 4 * int(numpy.prod(shape, dtype=numpy.int64))
    step = max(1, BLOCK // size)
    generator = numpy.random.default_rng(0)
    with path.open("wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": (count, *shape)}
        numpy.lib.format.write_array_header_1_0(file, header)
        for start in range(0, count, step):
            generator.random((min(step, count - start), *shape), numpy.float32).tofile(file)
