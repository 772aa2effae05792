"""Scripts of this folder with Keras on each backend, each in a process of its own, all of them at once."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import scripts

VARIABLES = scripts.HASTY | {"JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3"}
_SCRIPT = """
    import sys
    sys.path.insert(0, {folder!r})
    import {module}
    {module}.main(".")
"""


def answers(module: str, backends: Sequence[str], folders: pytest.TempPathFactory) -> dict[str, Any]:
    """What `main` of a module has printed last, as JSON, by backend."""
    text = _SCRIPT.format(folder=str(Path(__file__).parent), module=module)
    with contextlib.ExitStack() as stack:
        running = {}
        for backend in backends:
            folder, variables = folders.mktemp(backend), VARIABLES | {"KERAS_BACKEND": backend}
            running[backend] = stack.enter_context(scripts.started(folder, text, variables))
        ended = {backend: script.end(200) for backend, script in running.items()}
    for backend, one in ended.items():
        assert one.status == 0, f"{backend}:\n{one.err}"
    return {backend: json.loads(one.out.splitlines()[-1]) for backend, one in ended.items()}
