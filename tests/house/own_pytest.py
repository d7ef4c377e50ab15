"""Pytest in a process of its own: without workers, and without a memory of earlier runs."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path


def run_pytest(
    *arguments: str, cwd: Path, env: Mapping[str, str] | None = None, timeout: float = 300
) -> subprocess.CompletedProcess[str]:
    """What a run of it printed; `env`: the environment, by default this one's. `timeout` in seconds."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *arguments],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
