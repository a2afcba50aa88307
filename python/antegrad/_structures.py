"""Containers in the arguments and results of compiled functions: the part that is simpler in Python than in C++ (structure.cpp)."""

import collections
import dataclasses
import functools
import types

import torch
from torch.utils import _pytree as pytree

_REPLACEABLE = (list, dict, collections.OrderedDict, collections.defaultdict, collections.deque)


def state_of(value):
    """All attributes of a dataclass instance, fields or not; None if the instance has other state."""
    cls = type(value)
    if not _is_plain(cls):
        return None
    state = dict(getattr(value, "__dict__", ()))
    for name, slot in _slots(cls):
        try:
            state[name] = slot.__get__(value)
        except AttributeError:  # not set
            pass
    return state


def make(cls):
    """A dataclass instance without attributes."""
    return object.__new__(cls)


def set_state(value, state):
    """Replaces all attributes of a dataclass instance by `state`, even if the dataclass is frozen."""
    state = dict(state)
    for name, slot in _slots(type(value)):
        if name in state:
            slot.__set__(value, state.pop(name))
        elif hasattr(value, name):
            slot.__delete__(value)
    if hasattr(value, "__dict__"):
        value.__dict__.clear()
        value.__dict__.update(state)


def is_replaceable(container):
    """Whether replace() works on a container."""
    return type(container) in _REPLACEABLE or type(container) not in pytree.SUPPORTED_NODES


def refill(container, items):
    """Replaces the contents of a list, deque, set or dictionary. For a dictionary, `items` are pairs or a mapping."""
    container.clear()
    (container.update if isinstance(container, (dict, set)) else container.extend)(items)


def replace(container, contents):
    """Replaces the contents of `container` by those of `contents`, a container of the same type."""
    if not isinstance(container, (list, dict, collections.deque)):
        set_state(container, state_of(contents))
        return
    refill(container, contents)
    if isinstance(container, collections.defaultdict):
        container.default_factory = contents.default_factory


def place_of(target, args, kwargs, result):
    """The place of `target` in the arguments and the result of a call: "argument 0['a'][2].field"."""
    seen = set()

    def search(value, place):
        if value is target:
            return place
        if id(value) in seen:
            return None
        seen.add(id(value))
        return next((found for step, child in _children(value) if (found := search(child, place + step))), None)

    places = [(f"argument {i}", value) for i, value in enumerate(args)]
    places += [(f"argument '{name}'", value) for name, value in kwargs.items()]
    places.append(("the result", result))
    return next((found for place, value in places if (found := search(value, place))), "made anew when asked for")


def key_text(key):
    """The text of a dictionary key for messages. Only simple keys use repr(): that of a tensor reads its data."""
    return repr(key) if isinstance(key, (str, int)) else type(key).__name__


def _children(value):
    if isinstance(value, dict):
        return [(f"[{key_text(key)}]", child) for key, child in value.items()]
    if isinstance(value, (list, tuple, collections.deque)):
        return [(f"[{i}]", child) for i, child in enumerate(value)]
    if node := pytree.SUPPORTED_NODES.get(type(value)):
        return [(f" (child {i})", child) for i, child in enumerate(node.flatten_fn(value)[0])]
    if dataclasses.is_dataclass(value):
        return [(f".{name}", child) for name, child in (state_of(value) or {}).items()]
    return []


@functools.lru_cache(maxsize=1024)
def _is_plain(cls):
    """Whether attributes are the only state of a dataclass's instances."""
    if issubclass(cls, (torch.nn.Module, type)):
        return False
    try:
        object.__new__(cls)
    except TypeError:  # derived from a built-in type, or abstract
        return False
    return True


@functools.lru_cache(maxsize=1024)
def _slots(cls):
    return [(name, slot) for base in cls.__mro__ for name, slot in vars(base).items()
            if isinstance(slot, types.MemberDescriptorType)]
