"""How good are predictions? Exact scores that are made of parts: each block of rows gives a state, and states merge."""
