"""WHAT HAPPENED: one SQLite file per run. Resume and every report read it; an outcome is committed before it is counted."""
