"""The bill of materials holds what the lock files pin, and is the same whenever it is made."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.generate_sbom import LOCKS, ROOT, bill, pins, text


def test_everything_that_a_lock_file_pins_is_in_the_bill() -> None:
    components = {component["purl"]: component for component in json.loads(text())["components"]}
    assert set(LOCKS) == {path.name for path in ROOT.glob("requirements*.lock")}
    for file, scope in LOCKS.items():
        lines = re.findall(r"^([\w.\-]+)==([^\s;\\]+)", (ROOT / file).read_text(), re.MULTILINE)
        assert len(pins((ROOT / file).read_text())) == len(lines) > 0
        for name, version in lines:
            component = components[f"pkg:pypi/{re.sub(r'[-_.]+', '-', name).lower()}@{version}"]
            assert {"name": "snapline:lock", "value": file} in component["properties"]
            assert component["hashes"]
            assert scope != "required" or component["scope"] == "required"
    assert len(components) > 150


def test_the_bill_is_the_same_whenever_it_is_made(tmp_path: Path) -> None:
    for name in ("a", "deep/b"):
        subprocess.run([sys.executable, "-m", "tests.house.generate_sbom", str(tmp_path / name)], check=True, cwd=ROOT)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "deep/b").read_bytes() == text().encode()
    value = json.loads(text())
    assert (value["bomFormat"], value["specVersion"], value["version"]) == ("CycloneDX", "1.6", 1)
    assert re.fullmatch(r"urn:uuid:[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}", value["serialNumber"])
    refs = [component["bom-ref"] for component in value["components"]]
    assert len(refs) == len(set(refs))
    assert set(value["dependencies"][0]["dependsOn"]) <= set(refs)
    assert (
        bill(dict.fromkeys(LOCKS, ""), {"name": "x", "version": "1", "description": ""})["serialNumber"]
        != value["serialNumber"]
    )


@pytest.mark.parametrize("line", ["what==", "git+https://x/y", "    --hash=sha256:00", "x>=1"])
def test_a_line_that_pins_nothing_is_no_lock(line: str) -> None:
    with pytest.raises(ValueError, match="is no"):
        pins(line)
