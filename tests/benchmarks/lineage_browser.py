"""What the lineage browser costs on a large platform.

    python -m tests.benchmarks.lineage_browser [--tables 200] [--snapshots 50] [--rows 1000000]

Writes tables whose snapshots are made from each other, and fills their lineage database with rows of tables that are long
gone. Prints what a page takes from nothing and once more, and, where `make browser` has set Playwright up, what Chromium
makes of it: first paint, frames while it is moved and zoomed, memory.
"""

import argparse
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import pyarrow as pa
from rich.console import Console

from lineage import sources_property
from resources import Session
from storage import CommitId, SnapshotRef
from tests.benchmarks.lineage import fill

ROOT = Path(__file__).parent.parent.parent
PLAYWRIGHT = ROOT / ".venv" / "browser" / "bin" / "python"
SCHEMA = pa.schema([("id", pa.int64())])
out = Console()
IN_BROWSER = """
import json, sys
from playwright.sync_api import sync_playwright
with sync_playwright() as play:
    browser = play.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    page.goto(sys.argv[1])
    page.wait_for_selector("#slider:enabled")
    found = page.evaluate('''async () => {
      const paint = performance.getEntriesByName("first-contentful-paint")[0].startTime;
      const answer = performance.getEntriesByType("navigation")[0].responseStart;
      const scroller = document.getElementById("lanes");
      async function frames(move) {
        let count = 0;
        const began = performance.now();
        while (performance.now() - began < 2000) { move(count); await new Promise(requestAnimationFrame); count += 1; }
        return count / 2;
      }
      const pan = await frames((at) => { scroller.scrollLeft = scroller.scrollWidth - at * 40; });
      const larger = document.querySelector('[data-zoom="1.25"]'), smaller = document.querySelector('[data-zoom="0.8"]');
      const zoom = await frames((at) => { (at % 20 < 10 ? larger : smaller).click(); });
      const memory = performance.memory.usedJSHeapSize, nodes = document.getElementsByTagName("*").length;
      return {paint, answer, pan, zoom, memory, nodes};
    }''')
    print(json.dumps(found))
    browser.close()
"""


def make(session: Session, tables: int, snapshots: int) -> None:
    """Tables in layers of ten; each snapshot is made from the newest of up to three tables of the layer before."""
    chance = random.Random(0)
    newest: dict[int, SnapshotRef] = {}
    names = [f"layer{number // 10}.t{number}" for number in range(tables)]
    opened = [session.catalog.create_table(name, SCHEMA, options={"write-only": "true"}) for name in names]
    for round_ in range(snapshots):
        for number, table in enumerate(opened):
            before = [one for one in range(number // 10 * 10 - 10, number // 10 * 10) if one >= 0]
            sources = [newest[one] for one in chance.sample(before, min(3, len(before)))]
            table.write(
                pa.table({"id": [round_]}), commit_id=CommitId(names[number], round_ + 1),
                properties=sources_property(sources),
            )  # fmt: skip
            ref = table.ref()
            assert ref is not None
            newest[number] = ref
    # As the first question did that anybody asked of the platform.
    session.reconcile_all()


def served(port: int, path: str) -> tuple[float, int]:
    """Seconds, and bytes, of an answer."""
    began = time.perf_counter()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=300) as answer:
        size = len(answer.read())
    return time.perf_counter() - began, size


def started(port: int) -> subprocess.Popen[bytes]:
    """A browser's server in a process of its own, once it answers."""
    program = (
        f"import sys; sys.argv = ['snapline', 'browse', '--port', '{port}']; from resources.cli import main; main()"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.DEVNULL, cwd=ROOT)
    for _ in range(600):
        try:
            served(port, "/static/icon.svg")
        except OSError:
            time.sleep(0.05)
        else:
            return process
    raise TimeoutError("the server does not answer")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tables", type=int, default=200)
    parser.add_argument("--snapshots", type=int, default=50)
    parser.add_argument("--rows", type=int, default=1_000_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="snapline-bench-") as directory:
        os.environ["SNAPLINE_HOME"] = directory
        session = Session()
        make(session, given.tables, given.snapshots)
        began = time.perf_counter()
        session.reconcile_all()
        out.print(f"Lineage is gone over once, as the first question does: {time.perf_counter() - began:.1f} s")
        url = session.settings.lineage_url
        count = fill({"jdbc.url": url}, given.rows)
        commits = given.tables * given.snapshots
        out.print(f"{commits:,} snapshots of {given.tables} tables, {count:,} rows of lineage besides")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        process = started(port)
        try:
            for path in (f"/history?limit={commits}&tables=layer", "/history", "/"):
                first, size = served(port, path)
                again, _ = served(port, path)
                time.sleep(3)
                later, _ = served(port, path)
                session.catalog.table("layer0.t0").write(pa.table({"id": [0]}))
                time.sleep(3)
                changed, _ = served(port, path)
                out.print(
                    f"{path}: {first:.2f} s at first, {again:.2f} s once more, {later:.2f} s later, "
                    f"{changed:.2f} s after a commit, {size / 1e6:.1f} MB"
                )
            if PLAYWRIGHT.exists():
                page = f"http://127.0.0.1:{port}/history?limit={commits}&tables=layer"
                done = subprocess.run([PLAYWRIGHT, "-c", IN_BROWSER, page], capture_output=True, text=True, check=True)
                found = json.loads(done.stdout)
                out.print(
                    f"Chromium: answer after {found['answer']:.0f} ms, first paint after {found['paint']:.0f} ms, "
                    f"{found['pan']:.0f} frames a second moved, {found['zoom']:.0f} zoomed, "
                    f"{found['memory'] / 1e6:.0f} MB of JavaScript, {found['nodes']:,} elements"
                )
        finally:
            process.terminate()
            process.wait()


if __name__ == "__main__":
    main()
