"""What type checkers read: stubs and annotations name what is there."""

import ast
import inspect
import pathlib
import re
import types
import typing

import pytest
import torch

import antegrad
import antegrad._options
from antegrad import _C, _compile, _modes, config

FOLDER = pathlib.Path(antegrad.__file__).parent


def stub(name):
    return ast.parse((FOLDER / name).read_text()).body


def names_in(body):
    """Of functions, classes and variables, with the base of each class and the members of each."""
    found = {}
    for node in body:
        if isinstance(node, ast.ClassDef):
            found[node.name] = ([base.id for base in node.bases if isinstance(base, ast.Name)], names_in(node.body))
        elif isinstance(node, ast.FunctionDef):
            found[node.name] = node
        elif isinstance(node, ast.AnnAssign):
            found[node.target.id] = node
    return found


def public(names):
    return {name for name in names if not name.startswith("_")}


def test_the_package_is_marked_as_typed():
    assert (FOLDER / "py.typed").exists()


def test_the_stub_names_all_of_the_extension():
    described = names_in(stub("_C.pyi"))
    assert public(described) == public(vars(_C))
    for name, (bases, members) in ((n, d) for n, d in described.items() if isinstance(d, tuple)):
        cls = getattr(_C, name)
        assert public(members) == public(vars(cls)), name
        assert [base.__name__ for base in cls.__bases__ if base.__module__ != "pybind11_builtins"] == bases, name
        for member in members.keys() - {"_repr_html_"}:
            assert hasattr(cls, member), (name, member)


def given_parameters(function):
    """Their names, which pybind11 writes into the first line: "offload_to_host(arg0: int, ...) -> ...". """
    signature = function.__doc__.splitlines()[0]
    return re.findall(r"[(,] ?\**(\w+)", signature[:signature.rindex(")")])


def stub_parameters(node):
    arguments = [*node.args.posonlyargs, *node.args.args, node.args.vararg, node.args.kwarg]
    return [argument.arg for argument in arguments if argument]


def functions_in_stub(described, owner):
    for name, node in described.items():
        if isinstance(node, tuple):
            yield from functions_in_stub(node[1], getattr(owner, name))
        elif isinstance(node, ast.FunctionDef) and not node.decorator_list and name != "_repr_html_":
            yield node, getattr(owner, name)


def test_parameters_in_the_stub_are_those_of_the_extension():
    for node, function in functions_in_stub(names_in(stub("_C.pyi")), _C):
        given, described = given_parameters(function), stub_parameters(node)
        if node.args.vararg and not node.args.kwarg:  # __exit__(*error)
            given[-1] = described[-1]
        positional = len(node.args.posonlyargs)
        assert len(given) == len(described) and given[positional:] == described[positional:], (node.name, given)


def value_types(text):
    return eval(text, vars(_C))


def assert_is(value, expected, name):
    arguments = typing.get_args(expected)
    assert isinstance(value, typing.get_origin(expected) or expected), name
    if isinstance(value, list):
        assert all(isinstance(item, typing.get_origin(arguments[0]) or arguments[0]) for item in value), name
    if isinstance(value, dict):
        assert all(isinstance(k, arguments[0]) and isinstance(v, arguments[1]) for k, v in value.items()), name


def test_fields_of_reports_have_the_types_in_the_stub():
    step = antegrad.compile(lambda x: x.exp().sin().sum(), memory_share=0.5, cross_check_shapes="use_kernel")
    step(torch.randn(64, requires_grad=True)).backward()
    report = step.report()
    described = names_in(stub("_C.pyi"))
    check = next(iter(report.programs[0].shape_checks.values()))
    for value in (report, report.programs[0], check):
        for name, node in described[type(value).__name__][1].items():
            if node.decorator_list:
                assert_is(getattr(value, name), value_types(ast.unparse(node.returns)), name)


def test_options_have_types():
    hints = typing.get_type_hints(antegrad._options.Options)
    # What lacks here was not written since: make docs
    assert list(hints) == _C.option_names()
    attributes = {name: ast.unparse(node.annotation) for name, node in names_in(stub("config.pyi")).items()
                  if isinstance(node, ast.AnnAssign)}
    source = {name: ast.unparse(node.annotation) for name, node in names_in(stub("_options.py"))["Options"][1].items()}
    assert attributes == source
    for name, hint in hints.items():
        default = getattr(config, name)
        kinds = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
        assert any(default in typing.get_args(kind) if typing.get_origin(kind) is typing.Literal
                   else isinstance(default, typing.get_origin(kind) or kind) for kind in kinds), name
    assert public(names_in(stub("config.pyi"))) - set(hints) - {"UnknownOption"} == set(config.__all__)


def functions_in_python():
    """The public functions and constructors that are written in Python. Annotations of `compile` are on its overloads."""
    for module in (antegrad, antegrad.compress):
        for name in module.__all__:
            value = getattr(module, name)
            if isinstance(value, type):
                value = vars(value).get("__init__")
            if isinstance(value, types.FunctionType) and value is not antegrad.compile:
                yield pytest.param(value, id=f"{module.__name__}.{name}")


@pytest.mark.parametrize("function", list(functions_in_python()))
def test_public_functions_are_annotated(function):
    hints = typing.get_type_hints(function)
    assert set(inspect.signature(function).parameters) - {"self"} == set(hints) - {"return"}
    assert "return" in hints


def test_overloads_of_compile_are_annotated():
    overloads = [node for node in ast.parse(inspect.getsource(_compile)).body
                 if isinstance(node, ast.FunctionDef) and node.decorator_list]
    assert len(overloads) == 2
    for node in overloads:
        arguments = [*node.args.posonlyargs, *node.args.kwonlyargs, node.args.kwarg]
        assert node.returns and all(argument.annotation for argument in arguments)
        assert ast.unparse(node.args.kwarg.annotation) == "Unpack[Options]"


def test_modes_have_types():
    assert typing.get_args(_modes.Mode) == tuple(_modes._OPTIONS)
