"""tenfold's workers for everything that uses joblib: `import tenfold.joblib` registers the backend "tenfold".

    import tenfold.joblib
    from joblib import parallel_config

    with parallel_config(backend="tenfold", n_jobs=-1):
        GridSearchCV(SVC(), grid).fit(x, y)

It does what loky does, with workers that start in milliseconds, seats with GPUs (`gpus=0.5`), and calls that are run
again when their worker dies. `tenfold.engines.joblib` is the other direction: tenfold's tasks on joblib's workers.
"""

from __future__ import annotations

try:
    from joblib import register_parallel_backend
except ImportError as error:
    from tenfold.machine.installed import missing

    raise missing("joblib", "joblib") from error

from tenfold.joblib import ahead
from tenfold.joblib.backend import TenfoldBackend
from tenfold.joblib.pools import shutdown

__all__ = ["TenfoldBackend", "shutdown"]

register_parallel_backend("tenfold", TenfoldBackend)
ahead.begin()
