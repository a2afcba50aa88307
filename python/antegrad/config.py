"""Defaults of the options of antegrad.compile and of the torch.compile backend.

    antegrad.config.audit = "off"                              # for functions compiled from here on
    with antegrad.config.patch(partition="min_cut"):           # for this thread and this block; also a decorator
        step = antegrad.compile(function)

docs/options.md and `antegrad options` list names, values, and the environment variables that set the initial values.
"""

import contextlib
import sys
import types

from antegrad import _C

__all__ = ["load_config", "patch", "save_config"]


class UnknownOption(_C.OptionError, AttributeError):
    """An attribute of antegrad.config that is not an option."""


@contextlib.contextmanager
def patch(changes=None, /, **more):
    """Changes defaults for the calling thread, as a context manager or a decorator: patch(audit="off") or patch({"audit": "off"}).
    Defaults set inside the block end with it."""
    with _C.Patch({**(changes or {}), **more}):
        yield


def save_config():
    """Returns the defaults as bytes: a JSON object of all options by name."""
    return _C.save_config()


def load_config(saved):
    """Sets the defaults from the result of save_config, or from a JSON object with some of the options. The others get the values
    that they have in a process that sets none."""
    _C.load_config(saved)


class _Config(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        with _as_attribute(name):
            return _C.get_default(name)

    def __setattr__(self, name, value):
        if name.startswith("__"):
            return super().__setattr__(name, value)
        with _as_attribute(name):
            _C.set_default(name, value)

    def __dir__(self):
        return [*super().__dir__(), *_C.option_names()]


@contextlib.contextmanager
def _as_attribute(name):
    try:
        yield
    except _C.OptionError as error:
        if name in _C.option_names():
            raise
        raise UnknownOption(str(error)) from None


sys.modules[__name__].__class__ = _Config
