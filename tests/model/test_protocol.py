"""The protocols of docs/protocols.md, explored exhaustively; what was explored is told by docs/protocol-model.md.

Each protocol is tried as it is, and with one step left out at a time: then there must be a counterexample.
"""

from typing import Any

import pytest

from tests.model.protocol import age_model as a
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
    "a slow writer, a reader, expiry": {"writers": (A,), "quick": REST[:2], "expirers": (1,), "readers": 1},
    "two expirers on a store": {"writers": (A,), "quick": REST[:2], "expirers": (1, 1), "local": False},
    "an empty table": {"writers": (A,), "quick": REST[:3], "expirers": (1,), "begun_with": 0},
    "a rollback": {"writers": (A,), "quick": REST[:1], "expirers": (1,), "rollbacks": ((1, 2),), "begun_with": 2},
    "two calls of one commit id": {"writers": (A, ("A",)), "quick": REST[:2], "expirers": (1,)},
}
LONG_COMMITS: dict[str, dict[str, Any]] = {
    "two writers, three commits": {"writers": (A, ("b", "c")), "expirers": (1,)},
    "a slow writer, a reader, expiry, three quick commits": {
        "writers": (A,),
        "quick": REST[:3],
        "expirers": (1,),
        "readers": 1,
    },
    "two expirers": {"writers": (A,), "quick": REST[:2], "expirers": (1, 1)},
    "a reader on a store": {"writers": (A,), "quick": REST[:3], "expirers": (1,), "readers": 1, "local": False},
    "two rollbacks": {
        "writers": (),
        "quick": REST[:1],
        "expirers": (1,),
        "rollbacks": ((1, 2), (1, 2, 3)),
        "begun_with": 2,
    },
    "two calls of one commit id on a store": {
        "writers": (A, ("A",)),
        "quick": REST[:2],
        "expirers": (1,),
        "local": False,
    },
}
COMMIT_READER = COMMITS["a slow writer, a reader, expiry"]
FEW = {**COMMIT_READER, "readers": 0}
SLOW = {**FEW, "quick": REST[:3]}
ON_STORE = {**SLOW, "local": False}
STORE_READER = {**COMMIT_READER, "quick": REST[:3], "local": False}
TWO_EXPIRERS = COMMITS["two expirers on a store"]
TWO_CALLS = COMMITS["two calls of one commit id"]
ROLLBACK = COMMITS["a rollback"]
COMMITS_PLANTED = [
    (c.LOOK_AGAIN, FEW),
    (c.LISTING, FEW),
    (c.OTHER_BASE, {**FEW, "writers": (A, ("b",)), "begun_with": 2, "local": False}),
    (c.GONE_IS_STALE, ON_STORE),
    (c.GONE_HAS_LANDED, TWO_EXPIRERS),
    (c.EARLY_LOOK, ON_STORE),
    (c.HINT_RISES, COMMIT_READER),
    (c.HINT_FIRST, {**COMMIT_READER, "quick_hints": False}),
    (c.HINT_AGAIN, COMMIT_READER),
    (c.LIST_AGAIN, STORE_READER),
    (c.CHAIN, TWO_EXPIRERS),
    (c.REMEMBER, TWO_CALLS),
    (c.MEMORY_FIRST, TWO_CALLS),
    (c.BY_NUMBER, TWO_CALLS),
    (c.ONE_OF_ID, TWO_CALLS),
    (c.ASCENDING, FEW),
    (c.COMPARE, {**FEW, "expirers": (1, 1)}),
    (c.SCAN_FIRST, ROLLBACK),
    (c.HOLD, ROLLBACK),
    (c.HOLD_LOOK, ROLLBACK),
    (c.EXACT, ROLLBACK),
]

AGES: dict[str, dict[str, Any]] = {
    "one cleaning": {},
    "two cleanings": {"cleaners": 2},
    "two hours": {"hours": 2},
    "a rollback": {"who": (a.WRITER, a.ROLLBACK)},
}
LONG_AGES: dict[str, dict[str, Any]] = {
    "two cleanings, two hours": {"cleaners": 2, "hours": 2},
    "a rollback, two cleanings": {"who": (a.ROLLBACK,), "cleaners": 2, "hours": 2},
}
HELD = AGES["a rollback"]
AGES_PLANTED: list[tuple[str, dict[str, Any]]] = [
    (a.LOOK_AFTER, {}),
    (a.TAKE_BACK, {}),
    (a.PUT_AGAIN, {}),
    (a.SAME_LISTS, {}),
    (a.AGE, {}),
    (a.LIST_FIRST, {}),
    (a.MARK, {}),
    (a.MARK_FIRST, {}),
    (a.MARK_LOOK, {}),
    (a.MARK_ENDS, {}),
    (a.SEEN, {}),
    (a.HOLD_LOOK, HELD),
    (a.HOLD_LATE, HELD),
]

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

MERGE, REPLACE = ("merge",), ("replace",)
TWO_OF_ONE_TABLE: dict[str, Any] = {"publishers": MERGE + REPLACE, "tables": 1, "alone": True}
PUBLICATIONS: dict[str, dict[str, Any]] = {
    "merges, a recoverer, a writer": {"publishers": MERGE, "writes": 1},
    "replaces, a recoverer, a writer": {"publishers": REPLACE, "writes": 1},
    "merges, a recoverer alone, a reader": {"publishers": MERGE, "readers": 1, "alone": True},
    "replaces, a recoverer alone, a reader": {"publishers": REPLACE, "readers": 1, "alone": True},
    "merges into what diverges": {"publishers": MERGE, "writes": 1, "diverges": True, "alone": True},
    "replaces what diverges": {"publishers": REPLACE, "writes": 1, "diverges": True, "alone": True},
    "merges, an expirer": {"publishers": MERGE, "writes": 1, "expirers": 1, "alone": True},
    "two merge": {**TWO_OF_ONE_TABLE, "publishers": MERGE * 2},
    "two replace": {**TWO_OF_ONE_TABLE, "publishers": REPLACE * 2},
    "one merges, one replaces": TWO_OF_ONE_TABLE,
    **{
        f"{kind}s, a {hand} by hand": {"publishers": (kind,), "by_hand": hand, "alone": True}
        for kind in ("merge", "replace")
        for hand in ("rollback", "merge", "replace")
    },
}
LONG_PUBLICATIONS: dict[str, dict[str, Any]] = {
    "merges, a recoverer, a reader": {"publishers": MERGE, "readers": 1},
    "replaces, a recoverer, a reader": {"publishers": REPLACE, "readers": 1},
    "two merge into two tables, a reader": {"publishers": MERGE * 2, "recoverers": 0, "readers": 1},
    "one merges two tables, one replaces them, a reader": {
        "publishers": MERGE + REPLACE,
        "recoverers": 0,
        "readers": 1,
    },
    **{f"merges, a {hand} by hand, a recoverer": {"by_hand": hand} for hand in ("rollback", "merge", "replace")},
}
WRITER = PUBLICATIONS["merges, a recoverer, a writer"]
READER = PUBLICATIONS["merges, a recoverer alone, a reader"]
DIVERGES = PUBLICATIONS["replaces what diverges"]
EXPIRER = PUBLICATIONS["merges, an expirer"]
HAND = {what: PUBLICATIONS[f"merges, a {what} by hand"] for what in ("rollback", "merge", "replace")}
REPLACES = PUBLICATIONS["replaces, a recoverer, a writer"]
PUBLICATIONS_PLANTED = [
    (p.LOWER, TWO_OF_ONE_TABLE),
    (p.WITHDRAW_AT_ONCE, {"publishers": MERGE * 2, "tables": 1}),
    (p.ASK, WRITER),
    (p.ASK_LATE, WRITER),
    (p.FENCE, WRITER),
    (p.DECIDE, WRITER),
    (p.OUTCOME, WRITER),
    (p.UNDONE_IS_CLOSED, READER),
    (p.TAG_FIRST, READER),
    (p.READ_AGAIN, READER),
    (p.TAG_KEPT, EXPIRER),
    (p.OWN_COMMIT, WRITER),
    (p.GIVE, TWO_OF_ONE_TABLE),
    (p.OPEN_AGAIN, REPLACES),
    (p.OPEN_TWICE, REPLACES),
    (p.HAND_LOOKS, HAND["rollback"]),
    (p.HAND_LOOKS, HAND["merge"]),
    (p.HAND_HOLDS, HAND["rollback"]),
    (p.HAND_LOOKS_AGAIN, HAND["replace"]),
    (p.STOP_OTHERS, HAND["rollback"]),
    (p.STOP_OTHERS, HAND["merge"]),
    (p.REFUSE_CLOSED, HAND["replace"]),
    (p.EXPIRER_ASKS, EXPIRER),
    (p.EXPIRER_ASKS_FIRST, EXPIRER),
    (p.CLOSE_FIRST, {"publishers": REPLACE, "writes": 1}),
]
PUBLICATIONS_STUCK = [
    (p.HIGHER, TWO_OF_ONE_TABLE),
    (p.EXACT, PUBLICATIONS["merges into what diverges"]),
    (p.CLOSE_ALL, DIVERGES),
]

REPLACEMENTS: dict[str, dict[str, Any]] = {
    "one call each": {"replacers": 1, "deleters": 1},
    "two replacers": {"deleters": 1},
    "two calls each": {"longest": 3},
}
REPLACEMENTS_PLANTED = [
    (r.LOOK, REPLACEMENTS["one call each"]),
    (r.LOOK_FIRST, REPLACEMENTS["one call each"]),
    (r.CLOSE, REPLACEMENTS["one call each"]),
    (r.DECIDE, REPLACEMENTS["two replacers"]),
]


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


@pytest.mark.parametrize("name", [*AGES, *(LONG_AGES if LONG else ())])
def test_files_of_whoever_slept_for_long_are_there_or_his_commit_is_taken_back(name: str) -> None:
    _holds(name, a.AgeModel(**{**AGES, **LONG_AGES}[name]))


@pytest.mark.parametrize(("what", "sizes"), AGES_PLANTED, ids=[what for what, _ in AGES_PLANTED])
def test_a_late_commit_or_cleaning_without_one_of_its_steps_has_a_counterexample(
    what: str, sizes: dict[str, Any]
) -> None:
    _fails(what, a.AgeModel(**sizes, omitted=frozenset({what})))


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
        assert stuck(model, explored, model.is_over, model.recovers) is None


@pytest.mark.parametrize(("what", "sizes"), PUBLICATIONS_PLANTED, ids=[what for what, _ in PUBLICATIONS_PLANTED])
def test_publications_without_one_of_their_steps_have_a_counterexample(what: str, sizes: dict[str, Any]) -> None:
    _fails(what, p.PublicationModel(**sizes, omitted=frozenset({what})))


@pytest.mark.parametrize(("what", "sizes"), PUBLICATIONS_STUCK, ids=[what for what, _ in PUBLICATIONS_STUCK])
def test_publications_without_one_of_their_rules_cannot_be_ended_any_more(what: str, sizes: dict[str, Any]) -> None:
    model = p.PublicationModel(**sizes, omitted=frozenset({what}))
    assert stuck(model, _holds(what, model), model.is_over, model.recovers)


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
