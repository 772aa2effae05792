"""WHO GETS WHAT: pure functions from a machine and needs to a plan that can be printed, tested and refused.

Nothing here starts a process, opens a file or looks at the machine; everything is given.
"""
