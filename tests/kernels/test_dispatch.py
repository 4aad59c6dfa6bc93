"""Which implementation runs is known and told."""

from __future__ import annotations

from kernels.dispatch import choose_kernels


def test_the_choice_has_a_name_and_a_reason() -> None:
    choice = choose_kernels()
    assert choice.name == "reference"
    assert "torch" in choice.reason
    assert choice.operations.__name__ == "kernels.reference"
