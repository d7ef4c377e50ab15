"""Write the bill of materials of the platform from its lock files, as CycloneDX 1.6: the same files give the same bytes.

python -m tests.house.generate_sbom dist/snapline.cdx.json. Needs nothing but Python. What everybody gets is `required`, what an
extra brings `optional`, what builds and tests `excluded`. `hashes` are those of every file that pip accepts for a component.
"""

import json
import re
import sys
import tomllib
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
# In order: what several files hold has the scope of the first.
LOCKS = {
    "requirements.lock": "required",
    "requirements-extras.lock": "optional",
    "requirements-dev.lock": "excluded",
    "requirements-uv.lock": "excluded",
    "requirements-peers.lock": "excluded",
    "requirements-pypaimon.lock": "excluded",
    "requirements-pyiceberg.lock": "excluded",
    "requirements-browser.lock": "excluded",
    "requirements-docs.lock": "excluded",
}
_PINNED = re.compile(
    r"^(?P<name>[A-Za-z0-9._-]+)(?:\[[^]]*\])?==(?P<version>[^\s;\\]+)\s*(?:;\s*(?P<marker>[^\\\n]+?))?\s*\\?$"
)
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


@dataclass(frozen=True)
class Pin:
    """A line of a lock file. `marker`: for which Pythons and machines, empty for all."""

    name: str
    version: str
    marker: str
    hashes: tuple[str, ...]


def pins(text: str) -> list[Pin]:
    """What a lock file pins. Raises ValueError for a line that is none of its kind."""
    read_pins: list[Pin] = []
    for line in text.splitlines():
        hashes = tuple(_HASH.findall(line))
        if line.startswith(" "):
            if not hashes or not read_pins:
                raise ValueError(f"{line!r} is no hash of a pin")
            last = read_pins[-1]
            read_pins[-1] = Pin(last.name, last.version, last.marker, tuple(sorted({*last.hashes, *hashes})))
        elif line and not line.startswith("#"):
            pinned = _PINNED.match(line)
            if pinned is None:
                raise ValueError(f"{line!r} is no pin")
            read_pins.append(Pin(pinned["name"], pinned["version"], pinned["marker"] or "", hashes))
    return read_pins


def own_version() -> str:
    """The version that the package takes from storage/version.py, read without importing it."""
    return str(re.search(r'^VERSION = "(.+)"$', (ROOT / "storage" / "version.py").read_text(), re.MULTILINE)[1])


def bill(locks: Mapping[str, str], project: Mapping[str, Any]) -> dict[str, Any]:
    """The bill of materials of lock files, by name, and of the table `project` of pyproject.toml."""
    version = own_version()
    components: dict[str, dict[str, Any]] = {}
    for file, scope in LOCKS.items():
        for pin in pins(locks[file]):
            name = re.sub(r"[-_.]+", "-", pin.name).lower()
            purl = f"pkg:pypi/{name}@{pin.version}"
            known = components.setdefault(
                purl,
                {
                    "type": "library",
                    "bom-ref": purl,
                    "name": name,
                    "version": pin.version,
                    "scope": scope,
                    "purl": purl,
                    "hashes": [{"alg": "SHA-256", "content": content} for content in pin.hashes],
                    "properties": [],
                },
            )
            known["properties"].append({"name": "snapline:lock", "value": file})
            if pin.marker:
                known["properties"].append({"name": "snapline:marker", "value": pin.marker})
    listed = sorted(components.values(), key=lambda component: (component["name"], component["version"]))
    own = f"pkg:pypi/{project['name']}@{version}"
    document = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": project["name"],
                "version": version,
                "purl": own,
                "description": project["description"],
            },
        },
        "components": listed,
        "dependencies": [
            {
                "ref": own,
                "dependsOn": [component["bom-ref"] for component in listed if component["scope"] == "required"],
            },
        ],
    }
    # No time and no chance: what is the same has the same number.
    number = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(document, sort_keys=True))
    return {**document, "serialNumber": f"urn:uuid:{number}"}


def text() -> str:
    """The bill of this working copy."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return json.dumps(bill({name: (ROOT / name).read_text() for name in LOCKS}, project), indent=1) + "\n"


def main() -> None:
    target = Path(sys.argv[1])
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text())


if __name__ == "__main__":
    main()
