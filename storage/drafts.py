"""Frozen dataclasses made by the hundred thousand.

The constructor of a frozen dataclass sets each field through `object.__setattr__`, which takes seven times as long as setting it.
So the fields are set in a draft, an object of a class with the same slots that is not frozen, which then becomes the other.
"""

from collections.abc import Callable
from dataclasses import fields, make_dataclass
from typing import Any, TypeVar

T = TypeVar("T")


def maker(of: type[T]) -> Callable[..., T]:
    """A constructor of a frozen dataclass with slots, which takes all fields in their order and runs no `__post_init__`."""
    assert not hasattr(of, "__post_init__"), of
    draft: Any = make_dataclass(f"{of.__name__}Draft", [(each.name, Any) for each in fields(of)], slots=True)  # type: ignore[arg-type]

    def make(*values: Any) -> T:
        made: Any = draft(*values)
        made.__class__ = of
        return made  # type: ignore[no-any-return]

    return make
