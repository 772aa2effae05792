"""Initial weights are drawn by NumPy, and are those that JAX draws."""

from __future__ import annotations

from pathlib import Path

import scripts

CHECKS = Path(__file__).with_name("jax_draws.py")


def test_draws_are_those_of_jax(tmp_path: Path) -> None:
    assert len(scripts.run(tmp_path, CHECKS.read_text()).out.split()) == 5
