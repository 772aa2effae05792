"""What a caller has set in all of a framework, and what building and training a model depends on.

A script that begins with `torch.set_default_dtype(torch.float64)` means its models. A `Fit` remembers such settings
where it is made; who trains it, mostly in another process, has them for as long as that takes. Only what differs from
how a framework comes counts, and only of frameworks that the caller has imported.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class _Setting:
    module: str
    """Which has to be imported."""
    usual: Any
    """How it comes."""
    read: Callable[[Any], Any]
    """Its value, given the module; as something that can be compared and pickled."""
    write: Callable[[Any, Any], object]
    """Set it."""


def _policy(keras: Any) -> Any:
    """The name of the dtype policy; None where it is what Keras would take, which it notes at the first layer."""
    name = getattr(_global_state().get_global_attribute("dtype_policy"), "name", None)
    return None if name == keras.config.floatx() else name


def _set_policy(keras: Any, name: Any) -> None:
    if name is None:
        _global_state().set_global_attribute("dtype_policy", None)
    else:
        keras.config.set_dtype_policy(name)


def _global_state() -> Any:
    return importlib.import_module("keras.src.backend.common.global_state")


_SETTINGS = {
    "jax.jax_enable_x64": _Setting(
        "jax", False, lambda jax: bool(jax.config.jax_enable_x64), lambda jax, v: jax.config.update("jax_enable_x64", v)
    ),
    "keras.floatx": _Setting(
        "keras", "float32", lambda keras: keras.config.floatx(), lambda keras, v: keras.config.set_floatx(v)
    ),
    "keras.epsilon": _Setting(
        "keras", 1e-7, lambda keras: keras.config.epsilon(), lambda keras, v: keras.config.set_epsilon(v)
    ),
    "keras.image_data_format": _Setting(
        "keras",
        "channels_last",
        lambda keras: keras.config.image_data_format(),
        lambda keras, v: keras.config.set_image_data_format(v),
    ),
    "keras.dtype_policy": _Setting("keras", None, _policy, _set_policy),
    "torch.default_dtype": _Setting(
        "torch",
        "float32",
        lambda torch: str(torch.get_default_dtype()).rpartition(".")[2],
        lambda torch, v: torch.set_default_dtype(getattr(torch, v)),
    ),
}


def chosen() -> dict[str, Any]:
    """What has been set in this process."""
    found = {}
    for name, setting in _SETTINGS.items():
        module = sys.modules.get(setting.module)
        with contextlib.suppress(AttributeError, ImportError):  # it is being imported just now, or is an old one
            if module is not None and (value := setting.read(module)) != setting.usual:
                found[name] = value
    return found


@contextlib.contextmanager
def applied(settings: Mapping[str, Any]) -> Iterator[None]:
    """Have these in this process for a while."""
    with contextlib.ExitStack() as stack:
        for name, value in settings.items():
            setting = _SETTINGS[name]
            module = importlib.import_module(setting.module)
            stack.callback(setting.write, module, setting.read(module))
            setting.write(module, value)
        yield
