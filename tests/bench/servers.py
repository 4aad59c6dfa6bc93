"""Concurrent chats against several servers with an OpenAI-compatible API, in turn, and the table of what each of them did.

    python -m tests.bench.servers --server NAME URL MODEL [--server NAME URL MODEL …] [--key NAME KEY]
                                  [--no-keepalive NAME] [--rounds 5] [--unique] [--out FOLDER] CHAT_LOAD [-- OPTIONS]

CHAT_LOAD is the load script of the harness (`chat_load.py`), which is run once for each server in each round; what stands behind
`--` goes to it unchanged, such as `--chats 16 --turns 6`. Every round has a seed of its own, so that no server finds in its cache
what it was asked before, and every server gets the same chats. All replies are made equally long (`ignore_eos`), so times can be
compared. URL is such as http://127.0.0.1:8080/v1. The servers have to run already; the first one is compared with the others.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

TARGETS = {"tok/s": 2.5, "TTFT p50": 0.25, "TTFT p99": 0.25, "ITL p99": 1.0}
"""Of ours to the better one of theirs: at least so many times the tokens, at most so much of the times."""


@dataclass
class Server:
    """Where it answers, and what it did in each round."""

    name: str
    url: str
    model: str
    key: str = ""
    keeps_alive: bool = True
    results: list[dict[str, Any]] = field(default_factory=list)

    def options(self) -> list[str]:
        options = ["--base-url", self.url, "--model", self.model, *(["--api-key", self.key] if self.key else [])]
        return options if self.keeps_alive else [*options, "--no-keepalive"]

    def row(self) -> dict[str, float]:
        """Medians over the rounds; failed turns are added up."""
        every = [result["all"] for result in self.results]
        return {
            "tok/s": median(result["output_tok_s"] for result in self.results),
            "TTFT p50": _median(whole["ttft_p50_ms"] for whole in every),
            "TTFT p99": _median(whole["ttft_p99_ms"] for whole in every),
            "ITL p50": _median(whole["itl_p50_ms"] for whole in every),
            "ITL p99": _median(whole["itl_p99_ms"] for whole in every),
            "failed": sum(whole["errors"] for whole in every),
            "turns": sum(whole["turns"] for whole in every),
        }


def _median(values: Iterable[float | None]) -> float:
    """Of those rounds in which there was one; infinite where every turn failed."""
    return median([value for value in values if value is not None] or [float("inf")])


def run(load: Path, server: Server, seed: int, options: Sequence[str], path: Path) -> None:
    """One round of one server. Failed turns are a result; a load that could not run is an error."""
    command = [sys.executable, str(load), *server.options(), "--seed", str(seed), "--json", str(path), *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if not path.exists():
        raise RuntimeError(f"{server.name}: the load ended with {done.returncode}:\n{done.stdout[-2000:]}")
    server.results.append(json.loads(path.read_text()))


def take_turns(
    load: Path, servers: Sequence[Server], rounds: int, first_seed: int, options: Sequence[str], folder: Path
) -> None:
    """The same chats for each server in each round, and the other order in every second one."""
    for number in range(rounds):
        for server in servers if number % 2 == 0 else reversed(servers):
            seed = first_seed + number
            run(load, server, seed, options, folder / f"{server.name}-{seed}.json")
            result = server.results[-1]
            print(f"round {number + 1}: {server.name} {result['output_tok_s']} tok/s", file=sys.stderr, flush=True)


def table(servers: Sequence[Server]) -> list[str]:
    """Everybody's medians, and the targets of the first against the better of the others."""
    rows = {server.name: server.row() for server in servers}
    names = list(next(iter(rows.values())))
    lines = ["| server | " + " | ".join(names) + " |", "| --- |" + " --: |" * len(names)]
    lines += [f"| {name} | " + " | ".join(f"{row[key]:.0f}" for key in names) + " |" for name, row in rows.items()]
    ours, *others = rows.values()
    if others:
        lines += ["", "| target | ours | better peer | ratio | holds |", "| --- | --: | --: | --: | --- |"]
    for key, limit in TARGETS.items() if others else ():
        is_rate = key == "tok/s"
        theirs = (max if is_rate else min)(row[key] for row in others)
        ratio = ours[key] / theirs if theirs else float("inf")
        holds = ratio >= limit if is_rate else ratio <= limit
        words = f"{key}: at {'least' if is_rate else 'most'} {limit:g} x"
        lines.append(f"| {words} | {ours[key]:.0f} | {theirs:.0f} | {ratio:.2f} | {'yes' if holds else '**no**'} |")
    return [*lines, f"failed turns: {ours['failed']:.0f} of {ours['turns']:.0f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("load", type=Path)
    parser.add_argument("--server", nargs=3, action="append", required=True, metavar=("NAME", "URL", "MODEL"))
    parser.add_argument("--key", nargs=2, action="append", default=[], metavar=("NAME", "KEY"))
    parser.add_argument("--no-keepalive", action="append", default=[], metavar="NAME")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--unique", action="store_true", help="each chat has a system prompt of its own")
    parser.add_argument("--out", type=Path, default=None, help="folder for the file of each round")
    parser.add_argument("options", nargs="*", help="options of the load script, behind --")
    arguments = parser.parse_args()
    keys = dict(arguments.key)
    servers = [
        Server(name, url, model, keys.get(name, ""), name not in arguments.no_keepalive)
        for name, url, model in arguments.server
    ]
    options = ["--extra", json.dumps({"ignore_eos": True}), *arguments.options]
    options += ["--unique-system"] if arguments.unique else []
    with tempfile.TemporaryDirectory() as name:
        folder = arguments.out or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        take_turns(arguments.load, servers, arguments.rounds, arguments.seed, options, folder)
    print("\n".join(table(servers)))


if __name__ == "__main__":
    main()
