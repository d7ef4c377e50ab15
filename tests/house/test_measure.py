"""What `make measure` counts is what stands in the sources."""

from pathlib import Path

from tests.house.measure import Measures, Sources, listing, measure, table


def measured(root: Path, modules: dict[str, str]) -> Measures:
    """The measures of a package `storage` of these files."""
    for name, text in modules.items():
        path = root / "storage" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return measure(Sources(root, ["storage"]), "storage")


def test_long_files_and_functions_are_named(tmp_path: Path) -> None:
    long = "def long() -> None:\n" + "    pass\n" * 60
    measures = measured(
        tmp_path,
        {"big.py": long + "\n" * 440, "small.py": "class A:\n    def inner(self):\n" + "        pass\n" * 59},
    )
    assert (measures.files, measures.lines) == (2, 501 + 61)
    assert [str(size) for size in measures.long_files] == ["storage/big.py: 501 lines"]
    assert str(measures.largest) == "storage/big.py: 501 lines"
    assert [str(finding) for finding in measures.long_functions] == ["storage/big.py:1: long has 61 lines"]


def test_own_imports_are_counted_in_functions_alone_and_once_each(tmp_path: Path) -> None:
    text = """
import storage.top
from . import neighbour

def outer():
    import pyarrow
    from dagster import asset

    def inner():
        from .a import x, y
        import storage.b
        from lineage import c
"""
    measures = measured(tmp_path, {"room/module.py": text})
    assert [finding.text for finding in measures.own_imports] == [
        "from .a import x, y",
        "import storage.b",
        "from lineage import c",
    ]
    assert [finding.line for finding in measures.own_imports] == [10, 11, 12]


def test_lines_that_the_formatter_leaves_alone_are_counted(tmp_path: Path) -> None:
    measures = measured(
        tmp_path, {"a.py": "x = 1  # fmt: skip\n# fmt: off\ny = [1,2]\n# fmt: on\n", "b.py": "z = 'fmt: skip'\n"}
    )
    assert [(finding.path, finding.line) for finding in measures.formatter_off] == [
        ("storage/a.py", 1),
        ("storage/a.py", 2),
    ]


def test_a_method_is_documented_by_its_base_in_these_packages(tmp_path: Path) -> None:
    base = '''
class Base:
    def told(self):
        """Said once."""

    def silent(self): ...
'''
    measures = measured(
        tmp_path,
        {
            "ground/base.py": base,
            "ground/__init__.py": "from .base import Base as Ground\n",
            "own.py": """
from .ground import Ground
from elsewhere import Other

class Own(Ground):
    def told(self): ...
    def silent(self): ...

class Below(Own):
    def told(self): ...

class Foreign(Other):
    def told(self): ...
""",
        },
    )
    assert measures.public_functions == 6
    assert [f"{finding.path} {finding.text}" for finding in measures.undocumented] == [
        "storage/ground/base.py Base.silent",
        "storage/own.py Own.silent",
        "storage/own.py Foreign.told",
    ]


def test_private_names_overloads_and_inner_functions_are_not_public(tmp_path: Path) -> None:
    text = '''
def _private(): ...

def public():
    """Said."""
    def inner(): ...

class _Hidden:
    def method(self): ...

class Shown:
    def __init__(self): ...

    @property
    def value(self):
        """Said."""

    @value.setter
    def value(self, new): ...

    @overload
    def get(self, a): ...

    def get(self, a): ...
'''
    measures = measured(tmp_path, {"a.py": text})
    assert (measures.public_functions, [finding.text for finding in measures.undocumented]) == (3, ["Shown.get"])
    assert round(measures.undocumented_percent, 1) == 33.3


def test_the_table_has_a_column_for_each_package_and_the_list_says_where(tmp_path: Path) -> None:
    measures = measured(tmp_path, {"a.py": "def f():\n    from . import b\n"})
    shown = table({"storage": measures})
    assert shown.splitlines()[0].split() == ["storage"]
    assert ["own", "imports", "in", "functions", "1"] in [line.split() for line in shown.splitlines()]
    assert "Own imports in functions:\n  storage/a.py:2: from . import b" in listing({"storage": measures})
