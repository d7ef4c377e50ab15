"""The quick shop of the recovery tests after its bad day, open in a Dagster UI."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from resources import Session
from resources.assets.dagster_home import dagster_config
from tests.browser.story import BadDay
from tests.resources.dagster_server import DagsterServer, dagster_server, wait
from tests.resources.quick_shop import KEYS
from tests.resources.test_recovery_refusals import BAD, MENDED, Shop

BAD_PRICES = BadDay(
    table="raw.orders",
    snapshot=2,
    correction=MENDED,
    spoilt=("core.days", "mart.rainy", "mart.totals"),
    partitions=f"{KEYS[2]}, {KEYS[3]}",
    recovery="fix-raw-orders-2",
)
_RUN = """
query($id: ID!) { runOrError(runId: $id) { ... on Run { status tags { key value } eventConnection { events {
    __typename ... on ExecutionStepFailureEvent { error { message stack } failureMetadata { description } }
    ... on ExecutionStepOutputEvent { metadataEntries { label ... on MarkdownMetadataEntry { mdStr } } } } } } } }
"""
_EVENTS = """
query($k: AssetKeyInput!) { assetOrError(assetKey: $k) { ... on Asset {
    assetMaterializations(limit: 1) { metadataEntries { label ... on IntMetadataEntry { intValue } } } } } }
"""


@dataclass(frozen=True)
class Outcome:
    """What the page of a run is made from: its end, what it says, what went wrong with how many frames of a trace."""

    status: str
    tags: dict[str, str]
    pages: dict[str, str]
    refusal: str
    frames: int


class UiShop:
    """The shop's warehouse, its assets and SQL in this process, and its UI."""

    def __init__(self, shop: Shop, server: DagsterServer) -> None:
        self.shop, self.server = shop, server
        self.session = shop.session

    def job(self, name: str, **config: Any) -> Outcome:
        """Launch a job of one op as its launchpad does, and see what its page shows."""
        from resources.recovery.words import OPS

        given = {"ops": {OPS[name]: {"config": config}}} if config else {}
        run_id = self.server.launch(name, given)
        self.server.wait_for_run(run_id)
        return self.outcome(run_id)

    def outcome(self, run_id: str) -> Outcome:
        run = self.server.ask(_RUN, id=run_id)["runOrError"]
        events = run["eventConnection"]["events"]
        pages = {
            entry["label"]: entry["mdStr"]
            for event in events
            for entry in event.get("metadataEntries") or []
            if "mdStr" in entry
        }
        failed = [event for event in events if event["__typename"] == "ExecutionStepFailureEvent"]
        said = [
            (failure["failureMetadata"] or {}).get("description") or failure["error"]["message"] for failure in failed
        ]
        frames = sum(len((failure["error"] or {}).get("stack") or []) for failure in failed)
        tags = {tag["key"]: tag["value"] for tag in run["tags"]}
        return Outcome(run["status"], tags, pages, "\n".join(said), frames)

    def knows_of(self, table: str, snapshot: int) -> bool:
        """Whether the newest event of an asset is that of a snapshot."""
        materializations = self.server.ask(_EVENTS, k={"path": table.split(".")})["assetOrError"][
            "assetMaterializations"
        ]
        entries = materializations[0]["metadataEntries"] if materializations else []
        return {entry["label"]: entry.get("intValue") for entry in entries}.get("snapshot") == snapshot


@contextmanager
def ui_shop(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[UiShop]:
    """Good days, a bad load by SQL, and what was made from it; the UI knows of all of it."""
    dagster_home = home / "dagster"
    dagster_home.mkdir(parents=True)
    (dagster_home / "dagster.yaml").write_text(dagster_config(dagster_home))
    monkeypatch.setenv("SNAPLINE_HOME", str(home))
    monkeypatch.setenv("DAGSTER_HOME", str(dagster_home))
    with dg.DagsterInstance.from_config(str(dagster_home)) as instance:
        shop = Shop(Session(), instance)
        for name in ("raw.orders", "raw.weather"):
            assert shop.make(name).success
        shop.produce()
        shop.session.sql(BAD, "duckdb")
        shop.produce(KEYS[2])
        services = "tests.browser.ui_services"
        with dagster_server("tests.browser.ui_shop", home, dagster_home, services) as server:
            shop_in_ui = UiShop(shop, server)
            wait(lambda: shop_in_ui.knows_of("raw.orders", 2), bool, 120)
            yield shop_in_ui
