"""`snapline ui` ends when it is told to, however it was started, and its children with it."""

import os
import signal
import subprocess
import sys
import time

import pytest

from resources.settings import PROJECT_ROOT

# As `dagster dev` does: it maps SIGTERM to what is done on SIGINT, tells a child to end by SIGINT, and does not wait for another.
PROGRAM = """
import subprocess, sys, time
from dagster._utils.interrupts import setup_interrupt_handlers
from resources.ui import services as ui_services

def dev():
    setup_interrupt_handlers()
    ended_by_signal = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    slow = subprocess.Popen([sys.executable, "-c", "import sys, time; sys.stdin.read(); time.sleep(1)"], stdin=subprocess.PIPE)
    try:
        print(ended_by_signal.pid, slow.pid, flush=True)
        time.sleep(60)
    except KeyboardInterrupt:
        ended_by_signal.send_signal(2)
        slow.stdin.close()
        ended_by_signal.wait(30)

ui_services.main = dev
ui_services.start()
"""


@pytest.mark.parametrize("stop_signal", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("is_behind_a_shell", [True, False])
def test_the_ui_ends_with_its_children_when_it_is_told_to(stop_signal: signal.Signals, is_behind_a_shell: bool) -> None:
    inherited = signal.SIG_IGN if is_behind_a_shell else signal.default_int_handler
    started = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=PROJECT_ROOT,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, inherited),
    )
    try:
        assert started.stdout is not None and started.stderr is not None
        children = [int(process_id) for process_id in started.stdout.readline().split()]
        assert len(children) == 2, started.stderr.read()
        began = time.monotonic()
        started.send_signal(stop_signal)
        assert started.wait(40) == 0, started.stderr.read()
        assert time.monotonic() - began < 35
        assert not [child for child in children if _is_there(child)]
    finally:
        if started.poll() is None:
            os.killpg(started.pid, signal.SIGKILL)
        started.communicate()


def _is_there(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True
