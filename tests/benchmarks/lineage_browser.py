"""What the lineage browser costs on a large platform.

    python -m tests.benchmarks.lineage_browser [--tables 200] [--snapshots 50] [--rows 1000000] [--home DIRECTORY]

Writes tables whose snapshots are made from each other, and fills their lineage database with rows of tables that are long
gone; or takes those that are there at `--home`. Prints what a page takes from nothing and once more; where `make browser`
has set Playwright up, what Chromium makes of it: first paint, frames while it is moved and zoomed, memory; and where npm is
there, what the usual layout libraries take for the newest snapshots of the same history, beside its own layout.
"""

import argparse
import json
import os
import random
import shutil
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
from resources.browser.facts import Facts
from resources.browser.history import read_history
from resources.browser.lanes import lay_out
from resources.browser.svg import picture
from resources.browser.view import WHOLE
from storage import CommitId, SnapshotRef
from tests.benchmarks.lineage import fill

ROOT = Path(__file__).parent.parent.parent
PLAYWRIGHT = ROOT / ".venv" / "browser" / "bin" / "python"
SCHEMA = pa.schema([("id", pa.int64())])
out = Console()
LIBRARIES = {"dagre": "@dagrejs/dagre@3", "elkjs": "elkjs@0.12", "d3-dag": "d3-dag@1"}
# Seconds for a library's layout.
PATIENCE = 60
IN_BROWSER = """
import json, sys
from pathlib import Path
def renderers():
    # Proportional memory of the processes that draw pages, in bytes: the largest is the page's.
    sizes = []
    for process in Path("/proc").iterdir():
        try:
            if b"--type=renderer" in (process / "cmdline").read_bytes():
                rollup = (process / "smaps_rollup").read_text()
                sizes.append(next(int(line.split()[1]) * 1024 for line in rollup.splitlines() if line.startswith("Pss:")))
        except OSError:
            pass
    return max(sizes)
from playwright.sync_api import sync_playwright
with sync_playwright() as play:
    browser = play.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    page.goto(sys.argv[1])
    page.wait_for_selector("#slider:enabled" if "/history" in sys.argv[1] else "svg.tables")
    page.wait_for_timeout(1000)
    found = page.evaluate('''async () => {
      const paint = performance.getEntriesByName("first-contentful-paint")[0].startTime;
      const answer = performance.getEntriesByType("navigation")[0].responseStart;
      const scroller = document.getElementById("lanes") || document.querySelector(".picture");
      async function frames(move) {
        let count = 0;
        const began = performance.now();
        while (performance.now() - began < 2000) { move(count); await new Promise(requestAnimationFrame); count += 1; }
        return count / 2;
      }
      const pan = await frames((at) => { scroller.scrollLeft = scroller.scrollWidth - at * 40; });
      const larger = document.querySelector('[data-zoom="1.25"]'), smaller = document.querySelector('[data-zoom="0.8"]');
      const zoom = larger ? await frames((at) => { (at % 20 < 10 ? larger : smaller).click(); }) : 0;
      const memory = performance.memory.usedJSHeapSize, nodes = document.getElementsByTagName("*").length;
      return {paint, answer, pan, zoom, memory, nodes};
    }''')
    print(json.dumps({**found, "renderer": renderers()}))
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
            before = [candidate for candidate in range(number // 10 * 10 - 10, number // 10 * 10) if candidate >= 0]
            sources = [newest[source] for source in chance.sample(before, min(3, len(before)))]
            table.write(
                pa.table({"id": [round_]}),
                commit_id=CommitId(names[number], round_ + 1),
                properties=sources_property(sources),
            )
            ref = table.ref()
            assert ref is not None
            newest[number] = ref
    # As the first question did that anybody asked of the platform.
    session.reconcile_all()


def painted(address: str, times: int = 3) -> None:
    """Print what Chromium makes of a page."""
    for _ in range(times):
        done = subprocess.run([PLAYWRIGHT, "-c", IN_BROWSER, address], capture_output=True, text=True, check=True)
        figures = json.loads(done.stdout)
        out.print(
            f"  Chromium: answer after {figures['answer']:.0f} ms, first paint after {figures['paint']:.0f} ms, "
            f"{figures['pan']:.0f} frames a second moved, {figures['zoom']:.0f} zoomed, "
            f"{figures['memory'] / 1e6:.0f} MB of JavaScript, {figures['renderer'] / 1e6:.0f} MB in all, "
            f"{figures['nodes']:,} elements"
        )


def compare_layouts(session: Session, commits: int) -> None:
    """Print what the layout of the newest snapshots takes here, and by the usual libraries."""
    platform = Facts(session).platform()
    with tempfile.TemporaryDirectory(prefix="snapline-npm-") as directory:
        wanted = list(LIBRARIES.values())
        subprocess.run(
            ["npm", "install", "--no-audit", "--no-fund", *wanted], cwd=directory, check=True, capture_output=True
        )
        for count in (300, 1_000, 3_000, commits):
            history = read_history(platform, count)
            began = time.perf_counter()
            picture(history, lay_out(history, WHOLE), WHOLE, str)
            took = {"lanes, as SVG": f"{(time.perf_counter() - began) * 1000:,.0f} ms"}
            graph = Path(directory) / "graph.json"
            graph.write_text(json.dumps({"nodes": len(history.dots), "edges": history.arcs}), encoding="utf-8")
            for library in LIBRARIES:
                took[library] = _laid_out(library, graph)
            shown = ", ".join(f"{name} {said}" for name, said in took.items())
            out.print(f"  {len(history.dots):,} snapshots, {len(history.arcs):,} arcs: {shown}")


def _laid_out(library: str, graph: Path) -> str:
    script = Path(__file__).parent / "layout_libraries.mjs"
    try:
        done = subprocess.run(
            ["node", "--stack-size=60000", script, library, graph],
            cwd=graph.parent,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
    except subprocess.TimeoutExpired:
        return f"not in {PATIENCE} s"
    return f"{int(done.stdout):,} ms" if done.returncode == 0 else "fails"


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
    parser.add_argument("--home")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="snapline-bench-") as directory:
        os.environ["SNAPLINE_HOME"] = given.home or directory
        session = Session()
        commits = given.tables * given.snapshots
        if not given.home:
            make(session, given.tables, given.snapshots)
            count = fill({"jdbc.url": session.settings.lineage_url}, given.rows)
            out.print(f"{commits:,} snapshots of {given.tables} tables, {count:,} rows of lineage besides")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        process = started(port)
        try:
            for path in (f"/history?limit={commits}", "/history", "/"):
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
                    painted(f"http://127.0.0.1:{port}{path}")
        finally:
            process.terminate()
            process.wait()
        if shutil.which("npm"):
            compare_layouts(session, commits)


if __name__ == "__main__":
    main()
