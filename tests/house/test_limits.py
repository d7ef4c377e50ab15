"""The packages stay within the measures that `make measure` prints."""

import pytest

from tests.house.measure import PACKAGES, Measures, Sources, listing, measure

OWN_IMPORTS, UNDOCUMENTED_PERCENT = 9, 5


@pytest.fixture(scope="module")
def measures() -> dict[str, Measures]:
    sources = Sources()
    return {package: measure(sources, package) for package in PACKAGES}


def test_files_and_functions_are_short(measures: dict[str, Measures]) -> None:
    for package_measures in measures.values():
        assert package_measures.long_files == []
        assert package_measures.long_functions == []


def test_few_imports_stand_in_functions_and_most_functions_are_documented(measures: dict[str, Measures]) -> None:
    own_imports = [finding for package_measures in measures.values() for finding in package_measures.own_imports]
    assert len(own_imports) <= OWN_IMPORTS, listing(measures)
    for package, package_measures in measures.items():
        assert package_measures.undocumented_percent < UNDOCUMENTED_PERCENT, package


def test_the_formatter_is_told_to_leave_nothing_alone() -> None:
    """In the tests as well."""
    sources = Sources(packages=[*PACKAGES, "tests"])
    findings = [finding for module in sources.modules.values() for finding in module.formatter_off()]
    # This file's neighbour tries the measure itself.
    assert [finding for finding in findings if finding.path != "tests/house/test_measure.py"] == []
