"""Images, by Pillow. A sample is an array of height x width x colours, or of height x width for grey.

Colours are uint8: three, or four where the image is transparent; palettes are looked up. Grey of 16 bits stays uint16.
An image is as it is stored: it is not turned by what its camera has noted.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tenfold.data import stacking
from tenfold.data.listed import Listed
from tenfold.data.source import Rows
from tenfold.errors import SampleUnreadable
from tenfold.machine.installed import imported

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm")

_AS_STORED = ("L", "RGB", "RGBA", "I;16", "I", "F")
_GUESS = 1 << 20  # bytes of an image where the first one cannot be opened


def library() -> Any:
    """Pillow's Image; a clear error where it is not installed."""
    return imported("PIL.Image", "Pillow, which images need,", "data")


class Images(Listed):
    """Image files below a folder."""

    _size: int | None = None

    @property
    def sample_bytes(self) -> int:
        if self._size is None:
            try:
                with library().open(self.place(0)) as image:
                    self._size = image.width * image.height * len(image.getbands())
            except Exception:  # corrupt; whoever reads it will hear of that
                self._size = _GUESS
        return self._size

    def read(self, start: int, stop: int) -> Rows:
        return stacking.stacked([opened(self.place(number)) for number in range(start, stop)])

    def describe(self) -> str:
        return f"{self.length} images in {self.root}"


def opened(path: str) -> np.ndarray[Any, Any]:
    """One image."""
    library()
    try:
        with library().open(path) as image:
            return np.array(image if image.mode in _AS_STORED else image.convert(_mode(image)))
    except Exception as error:  # Pillow raises nearly anything for a file that is not what it seems
        raise SampleUnreadable(f"{path}: cannot be read as an image: {error}") from error


def _mode(image: Any) -> str:
    if image.mode == "1":
        return "L"
    return "RGBA" if image.mode in ("LA", "La", "PA", "RGBa") or "transparency" in image.info else "RGB"
