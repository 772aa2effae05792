"""scikit-learn and the packages around it. Threads are the BLAS's and OpenMP's, random numbers NumPy's."""

from __future__ import annotations

from tenfold.frameworks import Framework


class Member(Framework):
    modules = ("sklearn", "sklearn.base", "sklearn.utils.validation")
    distributions = ("scikit-learn",)
    extra = "sklearn"
    import_variables = ("SKLEARN_", "SCIPY_")
