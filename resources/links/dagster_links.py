"""Links from pages of the browser to Dagster's UI: assets, runs, partitions, twins, and launchpads that are filled in."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from storage import SnapshotRef

from ..warehouse.catalogs import CATALOG_NAME
from .known_assets import KnownAssets
from .launchpad_path import RECOVERY_TAG, SINGLETON_REPOSITORY, launchpad_path, place_of

_TWINS = "recovery"


@dataclass(frozen=True)
class DagsterLinks:
    """Addresses in the UI at `url`, which is empty where that is served on the same host and port; `location`: the code
    location whose jobs are linked to, empty if none is known; `assets`: those that there are.
    """

    url: str = ""
    location: str = ""
    assets: KnownAssets = field(default_factory=KnownAssets)

    def asset(self, ref: SnapshotRef) -> str:
        """The asset of a table; off main, that of its twin in the recovery graph. Empty if there is none."""
        if ref.catalog != CATALOG_NAME or "~" in ref.branch:
            return ""
        return self._asset(*(() if ref.branch == "main" else (_TWINS,)), ref.database, ref.table)

    def twin(self, name: str) -> str:
        """The twin of a table, `db.t`, in the recovery graph; empty if there is none."""
        return self._asset(_TWINS, *name.split("."))

    def twins(self, name: str) -> str:
        """The graph of the twins of a table's database."""
        return f"{self.url}/asset-groups/~%22{_TWINS}_{_part(name.partition('.')[0])}%22"

    def partition(self, ref: SnapshotRef, key: str) -> str:
        """A partition of the asset of a table, by Dagster's key; off main, that of the branch's twin. Empty if there is none."""
        of_asset = key if ref.branch == "main" else f"{ref.branch}|{key}"
        asset = self.asset(ref)
        return asset and f"{asset}?view=partitions&partition={_part(of_asset)}"

    def _asset(self, *key: str) -> str:
        return f"{self.url}/assets/{'/'.join(map(_part, key))}" if self.assets.has(*key) else ""

    def run(self, run_id: str) -> str:
        """The page of a run."""
        return f"{self.url}/runs/{_part(run_id)}"

    def runs_of_recovery(self, branch: str) -> str:
        """All runs of a recovery."""
        return f"{self.url}/runs?q%5B0%5D={_part(f'tag:{RECOVERY_TAG}={branch}')}"

    def launchpad(self, job: str, op: str, config: Mapping[str, Any]) -> str:
        """The launchpad of a job of one op, filled in; empty if no code location is known."""
        return (
            self.url + launchpad_path(place_of(SINGLETON_REPOSITORY, self.location), job, op, config)
            if self.location
            else ""
        )


def _part(text: str) -> str:
    """A text as one part of a path or query."""
    return quote(text, safe="")
