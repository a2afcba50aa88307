"""Restores containers that a function holds (closures, attributes, globals) to their contents before capture."""

import collections
import functools
import types

import torch

from antegrad._structures import key_text, refill

_DEPTH = 4
_MOST = 20_000  # containers and objects searched at most
_LONG = 1_000  # elements of one container
_LEAVES = frozenset((type(None), bool, int, float, complex, str, bytes, torch.Tensor, torch.nn.Parameter, torch.dtype, torch.device))
_CONTAINERS = (list, dict, set, collections.deque, collections.OrderedDict, collections.defaultdict)
_SHOWN = 5  # changes that an error names
_PLAIN = frozenset((bool, int, float, complex, str))
_NONE = object()
_MODULE_ATTRIBUTES = frozenset(vars(torch.nn.Module())) - {"_parameters", "_buffers"}


class Held:
    """Records the contents of the containers that a function holds, if they are reachable by name.

    A failed call leaves everything as it was. But capture runs the function's Python code, which may have put stand-ins for
    tensors into such a container.
    """

    def __init__(self, function):
        self._kept = {}  # by id: container, its name, what was in it
        self._attributes = set()  # ids of those that are the attributes of an object
        self._functions = set()
        self._find(function, getattr(function, "__name__", type(function).__name__), 0)

    def restore(self):
        """Restores the containers that changed since, and returns their names."""
        changed = []
        for container, name, before in self._kept.values():
            now = _parts(container)
            if len(now) == len(before) and all(a is b for a, b in zip(now, before)):
                continue
            _put(container, before)
            changed.append(name)
        return changed

    def values(self):
        """The plain values (numbers and strings) in the containers, by their names."""
        return {
            name: value
            for key, (container, owner, parts) in self._kept.items()
            for name, value in _named_parts(container, owner, parts, key in self._attributes)
            if type(value) in _PLAIN
        }

    def _keep(self, container, name, attributes=False):
        """Records a container. Returns whether it is new."""
        if id(container) in self._kept or len(self._kept) >= _MOST:
            return False
        if attributes:
            self._attributes.add(id(container))
        self._kept[id(container)] = (container, name, _parts(container))
        return True

    def _find(self, value, name, depth):
        if depth > _DEPTH or isinstance(value, (torch.Tensor, type, types.ModuleType)):
            return
        for child, place in self._children(value, name):
            if type(child) not in _LEAVES:
                self._find(child, place, depth + 1)

    def _children(self, value, name):
        if type(value) in _CONTAINERS and not self._keep(value, name):
            return ()
        if type(value) in _CONTAINERS or isinstance(value, tuple):
            items = value.items() if isinstance(value, dict) else enumerate(value)
            return [(v, f"{name}[{key_text(k)}]") for k, v in items if type(v) not in _LEAVES] if len(value) <= _LONG else ()
        if isinstance(value, torch.nn.Module):
            return list(self._module(value, name))
        if isinstance(value, types.FunctionType):
            return list(self._function(value))
        if isinstance(value, types.MethodType):
            return [(value.__self__, "self"), (value.__func__, name)]
        if isinstance(value, functools.partial):
            return [(value.func, name), (value.args, "arguments of a partial"), (value.keywords, "arguments of a partial")]
        own = getattr(value, "__dict__", None)
        if not isinstance(own, dict) or not self._keep(own, name, attributes=True):
            return ()
        return [(v, f"{name}.{k}") for k, v in own.items()] + [(getattr(type(value), "__call__", None), name)]

    def _module(self, module, name):
        for path, part in module.named_modules(prefix=name):
            if self._keep(vars(part), path, attributes=True):
                for key, value in vars(part).items():
                    if type(value) not in _LEAVES and key not in _MODULE_ATTRIBUTES:
                        yield value, f"{path}.{key}"
                yield type(part).forward, path

    def _function(self, function):
        if function in self._functions:
            return
        self._functions.add(function)
        for variable, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
            if self._keep(cell, variable) and (contents := _parts(cell)):
                yield contents[0], variable
        if function.__defaults__:
            yield function.__defaults__, "defaults"
        names = _Globals(function)
        if self._keep(names, f"globals of {function.__name__}"):
            for key, value in zip(names.names, _parts(names)):
                yield value, key


def changes(before, now):
    """A line that names the values that differ, or ""."""
    changed = [f"'{name}' was {before[name]!r}, is {value!r}" for name, value in now.items() if not _same(before.get(name, value), value)]
    return "since the first capture " + "; ".join(changed[:_SHOWN]) if changed else ""


def _same(a, b):
    return type(a) is type(b) and (a == b or a != a and b != b)


def _named_parts(container, name, parts, attributes):
    if isinstance(container, dict):
        keys = parts[::2]
        names = [f"{name}.{key}" if attributes else f"{name}[{key_text(key)}]" for key in keys]
        return zip(names, parts[1::2])
    if isinstance(container, _Globals):
        return zip(container.names, parts)
    if isinstance(container, types.CellType):
        return [(name, part) for part in parts]
    return [(f"{name}[{i}]", part) for i, part in enumerate(parts)]


class _Globals:
    """The global variables that a function names."""

    def __init__(self, function):
        self.variables = function.__globals__
        self.names = [name for name in function.__code__.co_names if name in self.variables]


def _parts(container):
    if isinstance(container, dict):
        return [part for item in container.items() for part in item]
    if isinstance(container, _Globals):
        return [container.variables.get(name, _NONE) for name in container.names]
    if isinstance(container, types.CellType):
        try:
            return [container.cell_contents]
        except ValueError:  # empty
            return []
    return list(container)


def _put(container, parts):
    if isinstance(container, dict):
        refill(container, zip(parts[::2], parts[1::2]))
    elif isinstance(container, (list, set, collections.deque)):
        refill(container, parts)
    elif isinstance(container, _Globals):
        container.variables.update(zip(container.names, parts))
    elif parts:
        container.cell_contents = parts[0]
    else:
        del container.cell_contents
