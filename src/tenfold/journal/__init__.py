"""WHAT HAPPENED: one SQLite file per run. An outcome is committed before it is counted; resume and reports read it."""
