"""What the distribution contains: everything that is served or run, and nothing that is not."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

from tests.house.source import files

ROOMS = ("app", "engine", "kernels", "migrations", "web")


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    folder = tmp_path_factory.mktemp("wheel")
    root = Path(__file__).parents[2]
    (artifact,) = WheelBuilder(str(root)).build(directory=str(folder), versions=["standard"])
    with zipfile.ZipFile(artifact) as wheel:
        return set(wheel.namelist())


def test_every_file_of_the_rooms_is_in_it(names: set[str]) -> None:
    expected = {str(path) for path in files() if path.parts[0] in ROOMS}
    assert expected - names == set()


def test_nothing_else_is_in_it(names: set[str]) -> None:
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.startswith("kvasir_chat-")} == set(ROOMS)


def test_the_licence_and_the_command_are_in_it(names: set[str]) -> None:
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert any(name.endswith("entry_points.txt") for name in names)
