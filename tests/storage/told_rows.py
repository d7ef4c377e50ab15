"""Rows of a key `k` and a value `v`, and what changes that were told make of them."""

from collections.abc import Iterable

from pyarrow import Table as Rows


def by_key(rows: Rows) -> dict[int, int]:
    return {row["k"]: row["v"] for row in rows.to_pylist()}


def applied(state: dict[int, int], changes: Iterable[dict[str, object]]) -> dict[int, int]:
    """What changes make of rows: fails for one that does not fit what there is, as one that is told twice."""
    state = dict(state)
    for change in changes:
        key, kind = change["k"], change["rowkind"]
        assert isinstance(key, int)
        if kind in ("+I", "+U"):
            assert key not in state, f"{change} comes to {state}"
            value = change["v"]
            assert isinstance(value, int)
            state[key] = value
        else:
            assert state.pop(key, None) == change["v"], f"{change} goes from {state}"
    return state
