"""How workers train one model together, as projections see it: one file each, in closed form and as a simulation.

Each has `expected(step, conditions, workers)`, a `Split` with a number for each of the worker counts (and a row for
each replicate, where the step has several); and `simulated(step, conditions, workers, steps, random)`, the seconds of a
step in a run that is gone through event by event. Without chance, the two agree.
"""
