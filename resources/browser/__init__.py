"""The lineage browser: the history of all tables at once, and what every snapshot was made from, as pages.

It reads tables and lineage through their front doors. What flows: `facts` → `history` → `lanes` → `svg` → `pages`.
"""

from importlib import import_module


def __getattr__(name: str) -> object:
    """`resources.browser:app`, for those who run it with a server of their own."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Starlette and jinja2 cost time to import, and links to pages need neither.
    value = globals()[name] = import_module(".server", __name__).hosted_app()
    return value
