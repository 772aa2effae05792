"""How good are predictions? Exact scores that are made of parts: each block of rows gives a state, and states merge."""

from tenfold.metrics.naming import metric as metric
from tenfold.metrics.naming import names as names
from tenfold.metrics.port import Metric as Metric
from tenfold.metrics.scores import Scores as Scores
from tenfold.metrics.scoring import Scoring as Scoring
