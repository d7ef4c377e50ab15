"""What the documentation says is what the code does."""

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from resources.cli import cli
from resources.cli.lazy_commands import commands_of
from tests.house.generate_docs import DOCS, PAGES

ROOT = DOCS.parent


@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_up_to_date(name: str) -> None:
    assert (DOCS / name).read_text() == PAGES[name](), "run `make docs`"


def test_every_command_and_those_of_groups_have_a_section() -> None:
    def headings(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[str]:
        for name, command in commands_of(group).items():
            if command.hidden:
                continue
            yield f"\n#{'#' * (len(path) + 1)} {' '.join((*path, name))}\n"
            if isinstance(command, click.Group):
                yield from headings(command, (*path, name))

    page = (DOCS / "cli.md").read_text()
    expected = list(headings(cli))
    assert "\n### branch publish\n" in expected
    assert [heading for heading in expected if heading not in page] == []


def test_every_section_of_a_page_that_the_code_names_is_there() -> None:
    named = 0
    sources = [path for room in ("storage", "lineage", "resources") for path in (ROOT / room).rglob("*.py")]
    for path in [*sources, ROOT / "dagster.yaml"]:
        for page, section in re.findall(r'docs/([a-z]+\.md)`?, "([^"]+)"', path.read_text()):
            assert f"## {section}\n" in (DOCS / page).read_text(), f"{path.name} names {section!r} of {page}"
            named += 1
    assert named > 10


@pytest.mark.parametrize(
    "page", [*DOCS.rglob("*.md"), ROOT / "README.md", ROOT / "SECURITY.md"], ids=lambda path: path.name
)
def test_links_within_the_documentation_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_lock_files_hold_hashes_and_no_address() -> None:
    for path in ROOT.glob("requirements*.lock"):
        text = path.read_text()
        assert "://" not in text.replace("git+https://", "")
        assert "--hash=sha256:" in text
        assert "--index-url" not in text


def test_every_folder_of_tests_is_run_by_make() -> None:
    text = (ROOT / "Makefile").read_text()
    listed = re.findall(r"^(?:ROOMS|REST) := (.+)$", text, re.MULTILINE)
    assert len(listed) == 2
    run = [name for line in listed for name in line.split()]
    having = {f"tests/{path.relative_to(ROOT / 'tests').parts[0]}" for path in (ROOT / "tests").rglob("test_*.py")}
    by_targets_of_their_own = re.findall(r"python -m pytest (tests/\w+)", text)
    assert sorted([*run, *by_targets_of_their_own]) == sorted(having)
