"""Properties are not timed: the machine that runs them may be busy."""

from hypothesis import settings

settings.register_profile("untimed", deadline=None, max_examples=60)
settings.load_profile("untimed")
