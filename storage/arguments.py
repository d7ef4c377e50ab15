"""The arguments of public calls, checked against their annotations: what a parameter takes is said once.

A wrong one is refused before anything is done, by an error that names it.
"""

import inspect
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache, wraps
from numbers import Integral, Real
from typing import Any, TypeVar

from .errors import InvalidRequest

_T = TypeVar("_T")
_Test = Callable[[Any], bool]
_NAMES: dict[Any, str] = {
    str: "text",
    int: "a whole number of 64 bits",
    float: "a number",
    bool: "True or False",
    type(None): "None",
}
_LONGEST_SHOWN = 80


def checked(target: _T) -> _T:
    """The class or function itself. The function, or the class's constructor and public methods (inherited ones as well), raise
    InvalidRequest for arguments that their annotations do not allow.
    """
    if isinstance(target, type):
        for name, member in inspect.getmembers_static(target, inspect.isfunction):
            if name == "__init__" or not name.startswith("_"):
                whole = target.__name__ if name == "__init__" else f"{target.__name__}.{name}"
                setattr(target, name, _checking(member, whole))
        return target
    return typing.cast(_T, _checking(target, target.__name__))  # type: ignore[attr-defined]


def _checking(call: Any, name: str) -> Any:
    parameters = list(inspect.signature(call).parameters.values())
    positional = [
        parameter.name for parameter in parameters if parameter.kind <= inspect.Parameter.POSITIONAL_OR_KEYWORD
    ]
    rest = next(
        (parameter.name for parameter in parameters if parameter.kind is inspect.Parameter.VAR_POSITIONAL), None
    )

    # When it is first called: then the annotations can name whatever the module defines below.
    @cache
    def annotations() -> dict[str, tuple[_Test, Any]]:
        hints = typing.get_type_hints(call)
        return {
            parameter.name: (_test(hints.get(parameter.name, Any)), hints.get(parameter.name, Any))
            for parameter in parameters
        }

    @wraps(call)
    def checked_call(*arguments: Any, **named: Any) -> Any:
        allowed = annotations()
        given = [*zip(positional, arguments, strict=False), *named.items()]
        if rest is not None:
            given += [(rest, argument) for argument in arguments[len(positional) :]]
        for parameter, value in given:
            # What there is no parameter for, Python says.
            if parameter in allowed and not allowed[parameter][0](value):
                raise InvalidRequest(
                    f"Argument {parameter!r} of {name} is {shown(value)}. It takes {_wanted(allowed[parameter][1])}."
                )
        return call(*map(_plain, arguments), **{key: _plain(value) for key, value in named.items()})

    return checked_call


def _plain(value: Any) -> Any:
    """A whole number of another library as Python's own: what is called tells numbers from names by their type."""
    return int(value) if isinstance(value, Integral) and not isinstance(value, int) else value


def shown(value: object) -> str:
    """A value as a message names it: short, whatever it is."""
    try:
        text = repr(value)
    except Exception:
        # Python writes no whole number of thousands of digits.
        text = f"a value of type {type(value).__name__}"
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def _test(annotation: Any) -> _Test:
    """What tells whether a value is of the type that an annotation says."""
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation is Any or isinstance(annotation, TypeVar):
        return lambda value: True
    if origin in (types.UnionType, typing.Union):
        tests = [_test(each) for each in inner]
        return lambda value: any(test(value) for test in tests)
    if origin is typing.Literal:
        return lambda value: isinstance(value, str) and value in inner
    if origin is not None and issubclass(origin, Mapping):
        test_key, test_value = (_test(each) for each in inner)
        return lambda value: (
            isinstance(value, Mapping) and all(test_key(key) and test_value(each) for key, each in value.items())
        )
    if origin is tuple and inner[-1] is not ...:
        parts = [_test(each) for each in inner]
        return lambda value: (
            isinstance(value, tuple | list)
            and len(value) == len(parts)
            and all(test(each) for test, each in zip(parts, value, strict=True))
        )
    if origin is not None and issubclass(origin, Iterable):
        # A text is a sequence of texts, and a mapping one of its keys: nobody means them so.
        test_one = _test(inner[0])
        return lambda value: (
            isinstance(value, Collection) and not isinstance(value, str | bytes | Mapping) and all(map(test_one, value))
        )
    if origin is not None:
        # A function: what it takes and returns shows when it is called.
        return callable
    return _test_of_class(annotation)


def _test_of_class(kind: Any) -> _Test:
    if kind is bool:
        return lambda value: isinstance(value, bool)
    if kind is int:
        return lambda value: (
            isinstance(value, Integral) and not isinstance(value, bool) and -(2**63) <= int(value) < 2**63
        )
    if kind is float:
        return lambda value: isinstance(value, Real) and not isinstance(value, bool)
    if getattr(kind, "_is_protocol", False):
        members = [name for name in vars(kind) if not name.startswith("_")]
        return lambda value: all(callable(getattr(value, name, None)) for name in members)
    return lambda value: isinstance(value, kind)


def _wanted(annotation: Any) -> str:
    """What an annotation takes, in words."""
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (types.UnionType, typing.Union):
        return " or ".join(_wanted(each) for each in inner)
    if origin is typing.Literal:
        return " or ".join(map(repr, inner))
    if origin is not None and issubclass(origin, Mapping):
        return f"a mapping of {_wanted(inner[0])} to {_wanted(inner[1])}"
    if origin is tuple and inner[-1] is not ...:
        return f"a tuple of {', '.join(map(_wanted, inner))}"
    if origin is not None and issubclass(origin, Iterable):
        return f"a list of: {_wanted(inner[0])}"
    if origin is not None:
        return "a function"
    if annotation is Any:
        return "anything"
    return _NAMES.get(annotation) or f"a {annotation.__module__.split('.')[0]}.{annotation.__name__}"
