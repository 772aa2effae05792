"""Approximate ranking: scores are rounded to 12 binary digits, so that a state has a bounded number of different ones.

A histogram whose bins are as fine near 0 as near 1: 4096 for each factor of two, for any scores, probabilities or not.
Within a bin the order is lost, and what that can change is summed (areas.py): the bound is measured, not guessed.
"""

from __future__ import annotations

import numpy

from tenfold.metrics.port import Array

DIGITS = 12
"""Of 53. For a million probabilities spread evenly, the bound on ROC AUC is about 0.0001."""
_LOST = 52 - DIGITS


def rounded(scores: Array) -> Array:
    """The nearest numbers of so many binary digits. The order stays, but for those that become equal."""
    bits = scores.astype(numpy.float64).view(numpy.int64)
    half = numpy.int64(1 << (_LOST - 1))
    return ((bits + half) & ~numpy.int64((1 << _LOST) - 1)).view(numpy.float64)
