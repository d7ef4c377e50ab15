"""A random history that fails is told with the steps that it takes to fail, and no others."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.histories import random_of, try_histories


def run(seed: int, steps: Sequence[int], directory: Path) -> None:
    assert not list(directory.iterdir())
    (directory / "written").touch()
    done: set[int] = set()
    for step in steps:
        done.add(random_of(seed, step).randrange(10**6) % 7 + step * 7)
        if {step_done // 7 for step_done in done} >= {3, 17}:
            raise ValueError(f"step {step}")
        if len(done) == 19 and step == 39:
            raise KeyError(step)


def test_steps_that_a_failure_does_not_need_are_left_out(tmp_path: Path) -> None:
    with pytest.raises(
        AssertionError, match=r"seeds \[5, 6\] failed; SNAPLINE_TEST_SEED=5 SNAPLINE_TEST_STEPS=3,17 \(2 of 40"
    ):
        try_histories(run, [5, 6], 40, tmp_path)


def test_a_step_draws_the_same_whatever_others_are_there() -> None:
    assert random_of(5, 3).random() == random_of(5, 3).random() != random_of(5, 4).random()
