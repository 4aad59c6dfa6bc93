from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.bench.servers import Server, run, table, take_turns

LOAD = """
import argparse, json
parser = argparse.ArgumentParser()
for name in ("--base-url", "--model", "--seed", "--json", "--extra"):
    parser.add_argument(name)
parser.add_argument("--no-keepalive", action="store_true")
given = parser.parse_args()
assert json.loads(given.extra) == {"ignore_eos": True}
rate = int(given.base_url) + int(given.seed)
every = {"turns": 4, "errors": int(given.no_keepalive)}
every |= {f"{kind}_p{share}_ms": 1000 / rate for kind in ("ttft", "itl") for share in (50, 95, 99)}
json.dump({"output_tok_s": rate, "all": every}, open(given.json, "w"))
"""
"""As the harness's script, with a rate that is the address and the seed."""


def result(rate: float, ms: float, errors: int = 0) -> dict[str, Any]:
    every = {f"{kind}_p{share}_ms": ms for kind in ("ttft", "itl") for share in (50, 99)}
    return {"output_tok_s": rate, "all": {"turns": 6, "errors": errors, **every}}


def test_every_server_gets_the_same_seeds_in_turn(tmp_path: Path) -> None:
    load = tmp_path / "load.py"
    load.write_text(LOAD)
    servers = [Server("ours", "100", "m"), Server("theirs", "40", "m", keeps_alive=False)]
    take_turns(load, servers, 2, 7, ["--extra", '{"ignore_eos": true}'], tmp_path)
    assert [[one["output_tok_s"] for one in server.results] for server in servers] == [[107, 108], [47, 48]]
    assert servers[0].row()["failed"] == 0
    assert servers[1].row()["failed"] == 2


def test_a_load_that_cannot_run_is_an_error_with_its_words(tmp_path: Path) -> None:
    (tmp_path / "load.py").write_text("raise SystemExit('no route to the server')")
    with pytest.raises(RuntimeError, match="no route to the server"):
        run(tmp_path / "load.py", Server("ours", "1", "m"), 1, [], tmp_path / "out.json")


def test_targets_are_held_against_the_better_of_the_others() -> None:
    ours = Server("ours", "", "", results=[result(500, 100), result(520, 90), result(400, 500)])
    slow, good = Server("slow", "", "", results=[result(100, 900)]), Server("good", "", "", results=[result(200, 399)])
    lines = table([ours, slow, good])
    assert "| tok/s: at least 2.5 x | 500 | 200 | 2.50 | yes |" in lines
    assert "| TTFT p50: at most 0.25 x | 100 | 399 | 0.25 | **no** |" in lines
    assert "| ITL p99: at most 1 x | 100 | 399 | 0.25 | yes |" in lines
    assert lines[-1] == "failed turns: 0 of 18"
    assert len(table([ours])) == 2 + 1 + 1
