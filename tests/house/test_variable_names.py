"""Variables say what they hold: none is called by a word that fits anything."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.measure import PACKAGES, ROOT, Finding, Module, Sources

WORDS = {"one", "found", "told", "how"}


def bound_names(node: ast.AST, in_class: bool = False) -> Iterator[tuple[str, int]]:
    """The variables that a node and those below it bind, with their lines: arguments and functions as well. What stands directly
    in a class, fields and methods, is an attribute and none of them.
    """
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() if not in_class:
            yield node.name, node.lineno
        case ast.Name(ctx=ast.Store()) if not in_class:
            yield node.id, node.lineno
        case ast.arg():
            yield node.arg, node.lineno
        case ast.alias(asname=str(name)) | ast.ExceptHandler(name=str(name)):
            yield name, node.lineno
        case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
            yield name, node.lineno
    opens_scope = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.GeneratorExp)
    opens_scope = opens_scope or isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp)
    for child in ast.iter_child_nodes(node):
        yield from bound_names(child, isinstance(node, ast.ClassDef) or (in_class and not opens_scope))


def vague_names(module: Module) -> list[Finding]:
    return [Finding(module.path, line, name) for name, line in bound_names(module.tree) if name in WORDS]


@pytest.mark.parametrize("package", [*PACKAGES, "tests"])
def test_no_variable_is_called_by_a_word_that_fits_anything(package: str) -> None:
    findings = [finding for module in Sources(ROOT, [package]).of(package) for finding in vague_names(module)]
    assert not findings, "\n".join([f"{len(findings)} names do not say what they hold:", *map(str, findings)])


def test_every_way_to_name_a_variable_is_seen_and_attributes_are_not(tmp_path: Path) -> None:
    text = """
class Kept:
    told: int
    texts = [one for one in "ab"]
    def found(self, how): ...

def outer(*one, **told):
    def how(): ...
    for found, [one] in []: ...
    with open("x") as told, open("y"): how = lambda one: one
    try: print(found := 1, one=2)
    except ValueError as told: ...
    match told:
        case [how, *one]: ...
        case {"a": Kept() as found, **told}: ...
    import ast as one
    one.found = Kept.told
"""
    (tmp_path / "a.py").write_text(text)
    assert sorted(map(str, vague_names(Module(tmp_path, tmp_path / "a.py")))) == sorted(
        f"a.py:{line}: {word}"
        for line, words in {
            4: "one",
            5: "how",
            7: "one told",
            8: "how",
            9: "found one",
            10: "told how one",
            11: "found",
            12: "told",
            14: "how one",
            15: "found told",
            16: "one",
        }.items()
        for word in words.split()
    )
