"""What the house tests look at: the files of the repository and what each module imports."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROOMS = ("app", "engine", "kernels", "migrations")


def files() -> list[Path]:
    """Every file that is, or is about to be, in the repository; relative to its root."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return sorted(path for line in listed.stdout.splitlines() if (ROOT / (path := Path(line))).is_file())


def modules(*rooms: str) -> list[Path]:
    """The Python files of some rooms, relative to the root."""
    return [path for path in files() if path.suffix == ".py" and path.parts[0] in rooms]


def documents() -> list[str]:
    """What a reader is given: the README and the pages of docs/."""
    return ["README.md", *(str(path) for path in files() if path.parts[0] == "docs" and path.suffix == ".md")]


def imports(path: Path) -> set[str]:
    """Dotted names a module imports, inside functions and under TYPE_CHECKING too."""
    found: set[str] = set()
    for node in ast.walk(ast.parse((ROOT / path).read_text(), filename=str(path))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} imports relatively; write the whole name"
            assert node.module is not None
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def imports_package(path: Path, *packages: str) -> set[str]:
    """Which of the packages a module imports from."""
    return {name for name in imports(path) for package in packages if name == package or name.startswith(package + ".")}
