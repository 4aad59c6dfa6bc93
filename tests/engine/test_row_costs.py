"""A row costs what steps with one more row took longer, on a busy machine too."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from engine.row_costs import RowCosts


def test_nothing_is_known_before_anything_was_measured() -> None:
    assert RowCosts().seconds(5) == 0.0


def test_between_two_measured_numbers_of_rows_lies_a_line_and_beyond_them_rows_seem_free() -> None:
    costs = RowCosts()
    costs.observe(2, 0.004)
    costs.observe(6, 0.006)
    assert costs.seconds(1) == pytest.approx(0.004)
    assert costs.seconds(4) == pytest.approx(0.005, rel=0.01)
    assert costs.seconds(6) == costs.seconds(32) == pytest.approx(0.006, rel=0.01)


def test_more_rows_never_seem_to_take_less() -> None:
    costs = RowCosts()
    chance = random.Random(3)
    for _ in range(200):
        costs.observe(chance.randint(1, 20), chance.uniform(0.001, 0.02))
    seconds = [costs.seconds(rows) for rows in range(30)]
    assert all(fewer <= more for fewer, more in pairwise(seconds))


def test_a_machine_that_is_busy_half_of_the_time_seems_little_slower() -> None:
    costs, chance = RowCosts(), random.Random(4)
    for _ in range(2000):
        rows = chance.randint(1, 8)
        costs.observe(rows, (0.003 + rows * 0.0005) * (1.0 if chance.random() < 0.5 else chance.uniform(1.0, 5.0)))
    for rows in range(1, 9):
        assert costs.seconds(rows) == pytest.approx(0.003 + rows * 0.0005, rel=0.2)


def test_what_was_measured_once_in_a_bad_moment_is_tried_again() -> None:
    costs = RowCosts()
    costs.observe(1, 0.003)
    costs.observe(2, 0.030)
    for _ in range(150):
        costs.observe(1, 0.003)
    assert costs.seconds(2) < 1.1 * costs.seconds(1)


def test_other_work_that_comes_and_goes_slows_all_numbers_of_rows_alike() -> None:
    costs, chance = RowCosts(), random.Random(5)
    for moment in range(40):
        busy = (1.0, 3.0)[moment % 2]
        for _ in range(100):
            # Mostly so many answers as there are, now and then one with a draft.
            rows = 8 if chance.random() < 0.8 else chance.randint(9, 12)
            costs.observe(rows, busy * chance.uniform(1.0, 1.5) * rows * 0.001)
    assert costs.seconds(12) / costs.seconds(8) == pytest.approx(12 / 8, rel=0.15)
