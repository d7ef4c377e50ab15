"""Measure how easy the packages are to read: sizes, imports that hide in functions, functions without a docstring.

    python -m tests.house.measure          a table, one column a package
    python -m tests.house.measure --list   and where each counted thing stands

Reads the sources alone: needs nothing installed.
"""

import argparse
import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
PACKAGES = ("storage", "lineage", "resources", "platform_assets")
FILE_LINES = 500
FUNCTION_LINES = 60
_FORMATTER_OFF = re.compile(r"#\s*fmt:\s*(skip|off)\b")

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Finding:
    """One counted thing: its file (relative to the root), the line where it stands, what it is."""

    path: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


@dataclass(frozen=True)
class Size:
    """How many lines a file has."""

    path: str
    lines: int

    def __str__(self) -> str:
        return f"{self.path}: {self.lines} lines"


class Module:
    """One source file and what can be counted in it."""

    def __init__(self, root: Path, path: Path) -> None:
        self.name = path.relative_to(root).with_suffix("").as_posix().replace("/", ".").removesuffix(".__init__")
        self.path = path.relative_to(root).as_posix()
        self.is_package = path.name == "__init__.py"
        self.text = path.read_text()
        self.lines = self.text.splitlines()

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    def imported_module(self, node: ast.ImportFrom) -> str:
        """The dotted name of the module that a `from … import` reads."""
        if not node.level:
            return node.module or ""
        package = self.name.split(".") if self.is_package else self.name.split(".")[:-1]
        base = package[: len(package) - node.level + 1]
        return ".".join([*base, *([node.module] if node.module else [])])

    def finding(self, node: ast.stmt, text: str) -> Finding:
        """`text`, said of a statement of this module."""
        return Finding(self.path, node.lineno, text)

    def functions(self) -> Iterator[tuple[str, ast.ClassDef | None, Function]]:
        """Functions and methods: the dotted name, the class, the node. Those inside a function are left out."""

        def below(body: Sequence[ast.stmt], names: tuple[str, ...], owner: ast.ClassDef | None) -> Iterator[Any]:
            for node in body:
                if isinstance(node, Function):
                    yield ".".join((*names, node.name)), owner, node
                elif isinstance(node, ast.ClassDef):
                    yield from below(node.body, (*names, node.name), node)
                elif isinstance(node, ast.If):
                    yield from below([*node.body, *node.orelse], names, owner)

        yield from below(self.tree.body, (), None)

    def long_functions(self, most: int = FUNCTION_LINES) -> list[Finding]:
        """Functions, those inside others as well, of more lines than `most`, from `def` to the last line."""
        functions = [node for node in ast.walk(self.tree) if isinstance(node, Function)]
        sizes = [(node, (node.end_lineno or node.lineno) - node.lineno + 1) for node in functions]
        return [self.finding(node, f"{node.name} has {lines} lines") for node, lines in sizes if lines > most]

    def own_imports_in_functions(self) -> list[Finding]:
        """Import statements inside functions that read one of `PACKAGES`."""
        inside = {node for top in ast.walk(self.tree) if isinstance(top, Function) for node in ast.walk(top)}
        findings = []
        for node in inside:
            if isinstance(node, ast.ImportFrom):
                read = [self.imported_module(node)]
            elif isinstance(node, ast.Import):
                read = [alias.name for alias in node.names]
            else:
                continue
            if any(name.split(".")[0] in PACKAGES for name in read):
                findings.append(self.finding(node, ast.unparse(node)))
        return sorted(findings, key=lambda finding: finding.line)

    def formatter_off(self) -> list[Finding]:
        """Lines that the formatter is told to leave alone."""
        return [
            Finding(self.path, number, line.strip())
            for number, line in enumerate(self.lines, 1)
            if _FORMATTER_OFF.search(line)
        ]


class Sources:
    """The modules of some packages, read together, so that a class finds its bases."""

    def __init__(self, root: Path = ROOT, packages: Sequence[str] = PACKAGES) -> None:
        self.modules = {
            module.name: module
            for package in packages
            for path in sorted((root / package).rglob("*.py"))
            for module in [Module(root, path)]
        }

    def of(self, package: str) -> list[Module]:
        """The modules of one package."""
        return [module for name, module in self.modules.items() if name.split(".")[0] == package]

    def public_functions(self, module: Module) -> list[tuple[Finding, bool]]:
        """Each public function and method of a module, and whether it is documented.

        Documented is what has a docstring, or implements a method of a base class in these packages that has one. Not
        counted: names with an underscore, anything inside a function, overloads, setters.
        """
        counted = []
        for name, owner, node in module.functions():
            decorators = {ast.unparse(decorator).split(".")[-1] for decorator in node.decorator_list}
            if any(part.startswith("_") for part in name.split(".")) or decorators & {"overload", "setter"}:
                continue
            documented = bool(ast.get_docstring(node)) or (
                owner is not None and self._documented_by_a_base(module, owner, node.name)
            )
            counted.append((module.finding(node, name), documented))
        return counted

    def _documented_by_a_base(self, module: Module, owner: ast.ClassDef, method: str) -> bool:
        for base in owner.bases:
            definition = self._class(module, ast.unparse(base).split("[")[0])
            if definition is None:
                continue
            for node in definition[1].body:
                if isinstance(node, Function) and node.name == method and ast.get_docstring(node):
                    return True
            if self._documented_by_a_base(*definition, method):
                return True
        return False

    def _class(self, module: Module, name: str) -> tuple[Module, ast.ClassDef] | None:
        """The class that `name` means in a module; None if it is not one of these packages."""
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef) and node.name == name:
                return module, node
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    source = self.modules.get(module.imported_module(node))
                    if (alias.asname or alias.name) == name and source is not None and source is not module:
                        return self._class(source, alias.name)
        return None


@dataclass(frozen=True)
class Measures:
    """What was measured of one package."""

    files: int
    lines: int
    largest: Size
    long_files: list[Size]
    long_functions: list[Finding]
    own_imports: list[Finding]
    formatter_off: list[Finding]
    public_functions: int
    undocumented: list[Finding]

    @property
    def undocumented_percent(self) -> float:
        """Public functions without a docstring, in percent of all public ones."""
        return 100 * len(self.undocumented) / self.public_functions if self.public_functions else 0.0


def measure(sources: Sources, package: str) -> Measures:
    """The measures of one package."""
    modules = sources.of(package)
    sizes = [Size(module.path, len(module.lines)) for module in modules]
    public = [counted for module in modules for counted in sources.public_functions(module)]
    return Measures(
        files=len(modules),
        lines=sum(size.lines for size in sizes),
        largest=max(sizes, key=lambda size: size.lines),
        long_files=[size for size in sizes if size.lines > FILE_LINES],
        long_functions=[finding for module in modules for finding in module.long_functions()],
        own_imports=[finding for module in modules for finding in module.own_imports_in_functions()],
        formatter_off=[finding for module in modules for finding in module.formatter_off()],
        public_functions=len(public),
        undocumented=[finding for finding, documented in public if not documented],
    )


def table(measures: dict[str, Measures]) -> str:
    """The measures as text: a row for each, a column for each package."""
    rows = {
        "files": [str(package_measures.files) for package_measures in measures.values()],
        "lines": [str(package_measures.lines) for package_measures in measures.values()],
        "lines of the largest file": [str(package_measures.largest.lines) for package_measures in measures.values()],
        f"files over {FILE_LINES} lines": [
            str(len(package_measures.long_files)) for package_measures in measures.values()
        ],
        f"functions over {FUNCTION_LINES} lines": [
            str(len(package_measures.long_functions)) for package_measures in measures.values()
        ],
        "own imports in functions": [str(len(package_measures.own_imports)) for package_measures in measures.values()],
        "fmt: skip, fmt: off": [str(len(package_measures.formatter_off)) for package_measures in measures.values()],
        "public functions": [str(package_measures.public_functions) for package_measures in measures.values()],
        "of them without docstring": [
            f"{package_measures.undocumented_percent:.1f} %" for package_measures in measures.values()
        ],
    }
    lines = [f"{'':28}" + "".join(f"{package:>17}" for package in measures)]
    lines += [f"{name:28}" + "".join(f"{value:>17}" for value in values) for name, values in rows.items()]
    return "\n".join(lines)


def listing(measures: dict[str, Measures]) -> str:
    """Where each counted thing stands, under a heading for each measure."""
    headings = {
        f"Files over {FILE_LINES} lines": [
            finding for package_measures in measures.values() for finding in package_measures.long_files
        ],
        f"Functions over {FUNCTION_LINES} lines": [
            finding for package_measures in measures.values() for finding in package_measures.long_functions
        ],
        "Own imports in functions": [
            finding for package_measures in measures.values() for finding in package_measures.own_imports
        ],
        "fmt: skip, fmt: off": [
            finding for package_measures in measures.values() for finding in package_measures.formatter_off
        ],
        "Public functions without docstring": [
            finding for package_measures in measures.values() for finding in package_measures.undocumented
        ],
    }
    return "\n".join(
        line
        for heading, findings in headings.items()
        for line in ["", f"{heading}:", *(f"  {entry}" for entry in findings)]
    )


def main() -> None:
    """Print the measures of the packages of this repository."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="print where each counted thing stands as well")
    shown = parser.parse_args()
    sources = Sources()
    measures = {package: measure(sources, package) for package in PACKAGES}
    print(table(measures))
    if shown.list:
        print(listing(measures))


if __name__ == "__main__":
    main()
