"""Where to look next: what may be tried (`space`), who suggests it (`suggestions`, by Optuna), who goes on (`pruners`).

    course: which leg comes next  <── told what became of the last ones ── dispatch/course
      ├── suggestions ── space         new trials
      └── pruners, population          old ones that have earned more steps

In the caller and pure, but for `trying`, which calls the user's function in a worker.
"""
