"""The protocols of docs/protocols.md, explored exhaustively; what was explored is told by docs/protocol-model.md.

Each protocol is tried as it is, and with one step left out at a time: then there must be a counterexample.
"""

from typing import Any

import pytest

from tests.model.protocol import commit_model as c
from tests.model.protocol import holder_model as h
from tests.model.protocol import publication_model as p
from tests.model.protocol import replacement_model as r
from tests.model.protocol.checker import explore, stuck
from tests.scale import LONG

A, REST = ("a",), ("w", "x", "y", "z")
EXPIRE = ("expire", 3)
OLD_TAG = {"tags": (("t", 1),)}

COMMITS: dict[str, dict[str, Any]] = {
    "two writers, somebody quick, expiry": {"writers": (A, ("b",)), "quick": REST[:1], "expirers": (1,)},
    "the same on a store": {"writers": (A, ("b",)), "quick": REST[:1], "expirers": (1,), "local": False},
    "a slow writer, a reader, expiry": {"writers": (A,), "quick": REST[:3], "expirers": (1,), "readers": 1},
    "two expirers on a store": {"writers": (A,), "quick": REST[:2], "expirers": (1, 1), "local": False},
    "an empty table": {"writers": (A,), "quick": REST[:3], "expirers": (1,), "begun_with": 0},
    "a rollback": {"writers": (A,), "quick": REST[:1], "expirers": (1,), "rollbacks": ((1, 2),), "begun_with": 2},
    "two calls of one commit id": {"writers": (A, ("A",)), "quick": REST[:2], "expirers": (1,)},
}
LONG_COMMITS: dict[str, dict[str, Any]] = {
    "two writers, three commits": {"writers": (A, ("b", "c")), "expirers": (1,)},
    "two expirers": {"writers": (A,), "quick": REST[:2], "expirers": (1, 1)},
    "a reader on a store": {"writers": (A,), "quick": REST[:3], "expirers": (1,), "readers": 1, "local": False},
    "two rollbacks": {
        "writers": (), "quick": REST[:1], "expirers": (1,), "rollbacks": ((1, 2), (1, 2, 3)), "begun_with": 2,
    },
    "two calls of one commit id on a store": {
        "writers": (A, ("A",)), "quick": REST[:2], "expirers": (1,), "local": False,
    },
}  # fmt: skip
READER = COMMITS["a slow writer, a reader, expiry"]
SLOW = {**READER, "readers": 0}
FEW = {**SLOW, "quick": REST[:2]}
ON_STORE = {**SLOW, "local": False}
STORE_READER = {**READER, "local": False}
TWO_EXPIRERS = COMMITS["two expirers on a store"]
TWO_CALLS = COMMITS["two calls of one commit id"]
ROLLBACK = COMMITS["a rollback"]
COMMITS_PLANTED = [
    (c.LOOK_AGAIN, FEW), (c.LISTING, FEW), (c.OTHER_BASE, {**FEW, "writers": (A, ("b",)), "begun_with": 2, "local": False}),
    (c.GONE_IS_STALE, ON_STORE), (c.GONE_HAS_LANDED, TWO_EXPIRERS), (c.EARLY_LOOK, ON_STORE),
    (c.HINT_RISES, READER), (c.HINT_FIRST, {**READER, "quick_hints": False}), (c.HINT_AGAIN, READER),
    (c.LIST_AGAIN, STORE_READER), (c.CHAIN, {**ON_STORE, "expirers": (1, 1)}), (c.REMEMBER, TWO_CALLS),
    (c.MEMORY_FIRST, TWO_CALLS), (c.BY_NUMBER, TWO_CALLS), (c.ONE_OF_ID, TWO_CALLS), (c.ASCENDING, FEW),
    (c.COMPARE, {**FEW, "expirers": (1, 1)}), (c.SCAN_FIRST, ROLLBACK), (c.HOLD, ROLLBACK), (c.HOLD_LOOK, ROLLBACK),
]  # fmt: skip

HOLDERS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "tags of snapshots and of tags": ((("tag", "h", "t"), ("delete", "t", 1), EXPIRE, ("tag", "u", 1)), OLD_TAG),
    "a tag of a tag that is being made": ((("tag", "u", 1), ("tag", "h", "u"), EXPIRE, ("delete", "u", 1)), {}),
    "renamed tags": ((("rename", "t", "v"), ("tag", "h", "t"), ("delete", "t", 1), ("expire", 2)), OLD_TAG),
    "replaced tags": (
        (("replace", "u", 2, "t"), ("replace", "t", 1, 3), ("tag", "h", "u")),
        {"tags": (("t", 1), ("u", 2)), "snapshots": frozenset({3})},
    ),
    "consumers": ((EXPIRE, ("expire", 2), ("consume", 1), ("consume", 2)), {}),
}
HOLDERS_PLANTED = [
    (h.LOOK_BACK, (("tag", "u", 1), EXPIRE), {}),
    (h.LOOK_FIRST, (("tag", "u", 1), EXPIRE), {}),
    (h.UNCONFIRMED, (("tag", "u", 1), ("tag", "h", "u"), EXPIRE), {}),
    (h.COLLECT_TWICE, (("tag", "u", 1), ("delete", "t", 1), EXPIRE), OLD_TAG),
    (h.SCAN_FIRST, (("tag", "u", 1), EXPIRE), {}),
    (h.OWNER_SCAN, (("tag", "u", "t"), ("delete", "t", 1)), {**OLD_TAG, "snapshots": frozenset({3})}),
    (h.COMPARE, (("replace", "t", 1, 3), ("delete", "t", 1)), OLD_TAG),
    (h.CONSUMER_LOOKS, (EXPIRE, ("consume", 1)), {}),
    (h.EXPIRING_FIRST, (EXPIRE, ("consume", 1)), {}),
    (h.EXPIRING_RISES, (EXPIRE, ("expire", 2), ("consume", 2)), {}),
]

ONE_PUBLISHER: dict[str, Any] = {"publishers": ("P",)}
PUBLICATIONS: dict[str, dict[str, Any]] = {
    "a publisher, a recoverer, a reader": ONE_PUBLISHER,
    "a publisher, a recoverer, a writer": {**ONE_PUBLISHER, "readers": 0, "writes": 1},
    "two publishers, a reader": {"recoverers": 0},
}
LONG_PUBLICATIONS: dict[str, dict[str, Any]] = {
    "two publishers, a recoverer": {"readers": 0},
    "a publisher, a recoverer, a reader, a writer": {**ONE_PUBLISHER, "writes": 1},
}
PUBLICATIONS_PLANTED = [
    (p.WITHDRAW, {"recoverers": 0}), (p.ASK, ONE_PUBLISHER), (p.ASK_LATE, ONE_PUBLISHER), (p.FENCE, ONE_PUBLISHER),
    (p.DECIDE, ONE_PUBLISHER), (p.OUTCOME, ONE_PUBLISHER), (p.UNDONE_IS_CLOSED, ONE_PUBLISHER),
    (p.TAG_FIRST, ONE_PUBLISHER), (p.BEFORE_IN_ENTRY, {"recoverers": 0}), (p.TAG_KEPT, ONE_PUBLISHER),
    (p.READ_AGAIN, ONE_PUBLISHER), (p.OWN_COMMIT, ONE_PUBLISHER), (p.NUMBER_AGAIN, {"readers": 0}),
    (p.WITHDRAW_AT_ONCE, {"readers": 0}),
]  # fmt: skip

REPLACEMENTS: dict[str, dict[str, Any]] = {
    "one call each": {"replacers": 1, "deleters": 1},
    "two replacers": {"deleters": 1},
    "two calls each": {"longest": 3},
}
REPLACEMENTS_PLANTED = [
    (r.LOOK, REPLACEMENTS["one call each"]), (r.LOOK_FIRST, REPLACEMENTS["one call each"]),
    (r.CLOSE, REPLACEMENTS["one call each"]), (r.DECIDE, REPLACEMENTS["two replacers"]),
]  # fmt: skip


def _holds(name: str, model: Any) -> Any:
    explored = explore(model)
    print(f"{name}: {explored.describe()}")
    assert explored.problem is None, explored.describe()
    return explored


def _fails(what: str, model: Any) -> None:
    explored = explore(model)
    print(f"If {what}: {explored.describe()}")
    assert explored.problem is not None, f"Nothing goes wrong if {what}: {explored.describe()}"


@pytest.mark.parametrize("name", [*COMMITS, *(LONG_COMMITS if LONG else ())])
def test_commit_expiry_and_rollback_lose_nothing_in_any_order_of_steps(name: str) -> None:
    _holds(name, c.CommitModel(**{**COMMITS, **LONG_COMMITS}[name]))


@pytest.mark.parametrize(("what", "sizes"), COMMITS_PLANTED, ids=[what for what, _ in COMMITS_PLANTED])
def test_a_commit_protocol_without_one_of_its_steps_has_a_counterexample(what: str, sizes: dict[str, Any]) -> None:
    _fails(what, c.CommitModel(**sizes, omitted=frozenset({what})))


@pytest.mark.parametrize("name", HOLDERS)
def test_files_that_somebody_holds_are_deleted_in_no_order_of_steps(name: str) -> None:
    roles, world = HOLDERS[name]
    _holds(name, h.HolderModel(roles, **world))


@pytest.mark.parametrize(("what", "roles", "world"), HOLDERS_PLANTED, ids=[what for what, _, _ in HOLDERS_PLANTED])
def test_holders_without_one_of_their_rules_have_a_counterexample(
    what: str, roles: tuple[Any, ...], world: dict[str, Any]
) -> None:
    _fails(what, h.HolderModel(roles, **world, omitted=frozenset({what})))


@pytest.mark.parametrize("name", [*PUBLICATIONS, *(LONG_PUBLICATIONS if LONG else ())])
def test_publications_are_all_or_none_and_can_always_be_ended(name: str) -> None:
    model = p.PublicationModel(**{**PUBLICATIONS, **LONG_PUBLICATIONS}[name])
    explored = _holds(name, model)
    if model.recoverers:
        assert stuck(model, explored, model.is_over, lambda label: label.startswith("recoverer")) is None


@pytest.mark.parametrize(("what", "sizes"), PUBLICATIONS_PLANTED, ids=[what for what, _ in PUBLICATIONS_PLANTED])
def test_publications_without_one_of_their_steps_have_a_counterexample(what: str, sizes: dict[str, Any]) -> None:
    _fails(what, p.PublicationModel(**sizes, omitted=frozenset({what})))


def test_an_undo_that_refuses_after_it_has_decided_leaves_a_publication_that_nobody_can_end() -> None:
    model = p.PublicationModel(("P",), readers=0, writes=1, omitted=frozenset({p.EXACT}))
    assert stuck(model, _holds(p.EXACT, model), model.is_over, lambda label: label.startswith("recoverer"))


@pytest.mark.parametrize("name", REPLACEMENTS)
def test_a_branch_never_becomes_main_and_is_deleted_and_main_can_always_be_opened(name: str) -> None:
    model = r.ReplacementModel(**REPLACEMENTS[name])
    assert _stuck(model, name) is None


def test_a_repeated_call_that_gives_up_too_early_leaves_main_closed() -> None:
    assert _stuck(r.ReplacementModel(1, 1, omitted=frozenset({r.GIVES_UP})), r.GIVES_UP)


@pytest.mark.parametrize(("what", "sizes"), REPLACEMENTS_PLANTED, ids=[what for what, _ in REPLACEMENTS_PLANTED])
def test_replacing_main_without_one_of_its_steps_has_a_counterexample(what: str, sizes: dict[str, Any]) -> None:
    _fails(what, r.ReplacementModel(**sizes, omitted=frozenset({what})))


def _stuck(model: r.ReplacementModel, name: str) -> list[str] | None:
    again = (f"replace {model.replacers}", f"delete {model.deleters}")
    return stuck(model, _holds(name, model), model.can_be_written, lambda label: label.startswith(again))
