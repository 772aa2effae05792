"""Properties are not timed: the machine that runs them may be busy."""

from hypothesis import settings

settings.register_profile("metrics", deadline=None, max_examples=40)
settings.load_profile("metrics")
