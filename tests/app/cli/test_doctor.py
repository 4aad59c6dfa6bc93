"""`kvasir doctor` on machines that tests invent, and on this one."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from app.cli.findings import Verdict
from app.cli.machine_checks import (
    GIB,
    available_memory,
    check_compiler,
    check_cpu,
    check_disk,
    check_memory,
    check_python,
    check_threads,
    check_torch,
    cpu_flags,
    folder_bytes,
)
from app.cli.reuse import check_reuse, reuse_in_force
from app.cli.setup_checks import check_data_folder, check_database, check_port, check_redis, check_setup
from app.settings import Settings
from engine.types import EngineState, EngineStats
from tests.support.redis_server import RedisServer


def test_an_old_python_is_wrong_and_the_fix_is_said() -> None:
    finding = check_python((3, 10, 4))
    assert finding.verdict is Verdict.WRONG
    assert "3.11" in finding.fix
    assert check_python((3, 13, 0)).verdict is Verdict.GOOD


def test_a_model_on_one_core_is_noticed() -> None:
    """vllm-project/vllm#10971"""
    assert check_threads(8, 8, 0.080, 0.011).verdict is Verdict.GOOD
    assert "7.3 times as fast" in check_threads(8, 8, 0.080, 0.011).text
    assert "OMP_NUM_THREADS" in check_threads(8, 1, 0.080, 0.080).fix
    assert "taskset" in check_threads(8, 8, 0.080, 0.079).fix
    assert "KVASIR_THREADS=2" in check_threads(2, 16, 0.080, 0.060).fix
    assert check_threads(1, 1, 0.080, 0.080).verdict is Verdict.GOOD


def test_this_machines_torch_is_measured() -> None:
    torch, threads = check_torch(0)
    assert torch.verdict is Verdict.GOOD
    assert "matrix product takes" in threads.text


def test_a_cpu_without_vector_instructions_and_cores_out_of_reach_are_warnings() -> None:
    assert check_cpu({"avx2", "avx512f"}, 4, 4).verdict is Verdict.GOOD
    assert check_cpu({"sse2"}, 4, 4).verdict is Verdict.WARNING
    assert check_cpu({"avx2"}, 4, 1).verdict is Verdict.WARNING
    assert check_cpu(set(), 4, 4).verdict is Verdict.GOOD


def test_too_little_memory_says_which_setting_would_fit() -> None:
    assert check_memory(8 * GIB, 1 * GIB, GIB // 2).verdict is Verdict.GOOD
    finding = check_memory(3 * GIB // 2, 1 * GIB, 0)
    assert finding.verdict is Verdict.WRONG
    assert "KVASIR_KV_MEMORY_MIB to 384 or less, or" in finding.fix
    assert "to 16 or less" in check_memory(0, 1 * GIB, 0).fix


def test_sessions_beside_the_cache_count_too_and_give_way_first() -> None:
    finding = check_memory(9 * GIB // 4, 1 * GIB, GIB // 2)
    assert finding.verdict is Verdict.WRONG
    assert finding.fix.startswith("Set KVASIR_KV_HOST_MIB to 256 or less")
    both = check_memory(3 * GIB // 2, 1 * GIB, GIB // 2)
    assert "KVASIR_KV_MEMORY_MIB to 384 or less and KVASIR_KV_HOST_MIB to 0" in both.fix


def test_little_disk_and_no_compiler_are_warnings() -> None:
    assert check_disk(GIB // 2, Path("data"), 0, 0).verdict is Verdict.WARNING
    assert check_disk(9 * GIB, Path("data"), 0, 0).verdict is Verdict.GOOD
    assert check_compiler(None).verdict is Verdict.WARNING
    assert check_compiler("g++").verdict is Verdict.GOOD


def test_what_sessions_may_still_take_has_to_be_free() -> None:
    assert check_disk(6 * GIB, Path("data"), 4 * GIB, 0).verdict is Verdict.GOOD
    finding = check_disk(3 * GIB, Path("data"), 4 * GIB, GIB)
    assert finding.verdict is Verdict.WARNING
    assert "another 3.0 GiB" in finding.text
    assert finding.fix.startswith("Set KVASIR_KV_DISK_MIB to 3072 or less")
    assert check_disk(3 * GIB, Path("data"), 4 * GIB, 2 * GIB).verdict is Verdict.GOOD


def test_the_files_of_sessions_are_counted_wherever_they_lie(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "one").write_bytes(b"x" * 100)
    (tmp_path / "two").write_bytes(b"x" * 11)
    assert folder_bytes(tmp_path) == 111
    assert folder_bytes(tmp_path / "none") == 0


def test_reuse_that_is_off_or_small_is_told() -> None:
    """ggml-org/llama.cpp#15082: every turn was read whole, and nobody was told."""
    assert check_reuse(Settings()).verdict is Verdict.GOOD
    off = check_reuse(Settings(prefix_cache=False))
    assert (off.verdict, "every turn" in off.text) == (Verdict.WARNING, True)
    assert "KVASIR_PREFIX_CACHE=on" in off.fix
    assert "after a restart" in check_reuse(Settings(kv_disk_mib=0)).fix
    assert "KVASIR_KV_PREFIX_MIB to 64" in check_reuse(Settings(kv_memory_mib=128)).fix


def test_what_is_reused_is_named_at_the_start() -> None:
    tiers = (("device", 0, 1 << 30), ("host", 0, 0), ("disk", 5, 3 << 20))
    on = reuse_in_force(EngineStats(EngineState.READY, tier_bytes=tiers))
    assert on == {"prefix_cache": "on", "device": "1024 MiB", "host": "off", "disk": "3 MiB"}
    assert reuse_in_force(EngineStats(EngineState.READY, reuse=False))["prefix_cache"] == "off"


def test_memory_is_that_of_the_container_where_it_is_less(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:  16000000 kB\nMemAvailable:  8000000 kB\n")
    assert available_memory(meminfo, tmp_path) == 8000000 * 1024
    (tmp_path / "memory.max").write_text("3000000000\n")
    (tmp_path / "memory.current").write_text("1000000000\n")
    assert available_memory(meminfo, tmp_path) == 2000000000
    (tmp_path / "memory.max").write_text("max\n")
    assert available_memory(meminfo, tmp_path) == 8000000 * 1024


def test_flags_are_read_in_the_words_of_both_kinds_of_cpu(tmp_path: Path) -> None:
    (tmp_path / "x86").write_text("processor : 0\nflags\t\t: fpu avx2 avx512f\n")
    (tmp_path / "arm").write_text("processor : 0\nFeatures\t: fp asimd\n")
    assert cpu_flags(tmp_path / "x86") == {"fpu", "avx2", "avx512f"}
    assert cpu_flags(tmp_path / "arm") == {"fp", "asimd"}
    assert cpu_flags(tmp_path / "none") == set()


def test_a_data_folder_that_is_there_will_be_there_or_cannot_be(tmp_path: Path) -> None:
    assert check_data_folder(tmp_path).verdict is Verdict.GOOD
    assert check_data_folder(tmp_path / "a" / "b").verdict is Verdict.GOOD
    (tmp_path / "file").touch()
    assert check_data_folder(tmp_path / "file").verdict is Verdict.WRONG


def test_a_database_that_is_not_reachable_is_wrong_and_shows_no_password() -> None:
    finding = check_database(Settings(database_url="postgresql://kvasir:hunter2@127.0.0.1:1/kvasir"))
    assert finding.verdict is Verdict.WRONG
    assert "hunter2" not in finding.text


def test_a_redis_is_reachable_or_wrong_and_one_that_throws_keys_away_is_warned_of(redis_server: RedisServer) -> None:
    database = "postgresql://db/kvasir"
    settings = Settings(redis_url=redis_server.url, database_url=database)
    assert check_redis(settings).verdict is Verdict.GOOD
    assert check_redis(Settings(redis_url=redis_server.url)).verdict is Verdict.WARNING
    with redis_server.client() as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
        try:
            assert check_redis(settings).verdict is Verdict.WARNING
        finally:
            client.config_set("maxmemory-policy", "noeviction")
    finding = check_redis(Settings(redis_url="redis://:hunter2@127.0.0.1:1/0", database_url=database))
    assert finding.verdict is Verdict.WRONG
    assert "hunter2" not in finding.text


def test_no_database_yet_is_as_it_should_be(tmp_path: Path) -> None:
    assert check_database(Settings(data=tmp_path)).verdict is Verdict.GOOD
    assert list(tmp_path.iterdir()) == []


def test_a_port_is_free_or_taken_by_something_else() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        finding = check_port(Settings(port=port))
        assert finding.verdict is Verdict.WRONG
        assert "another program" in finding.text
    assert check_port(Settings(port=port)).verdict is Verdict.GOOD


@pytest.mark.parametrize("host", ["no.such.host.invalid", "192.0.2.1"])
def test_an_address_of_somebody_else_is_wrong(host: str) -> None:
    assert check_port(Settings(host=host)).verdict is Verdict.WRONG


def test_a_file_that_this_user_may_not_write_to_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kvasir.sqlite3").touch()
    monkeypatch.setattr("app.cli.setup_checks.os.access", lambda path, _mode: path == tmp_path)
    assert check_data_folder(tmp_path).verdict is Verdict.GOOD
    finding = check_database(Settings(data=tmp_path))
    assert (finding.verdict, finding.text) == (Verdict.WRONG, f"{tmp_path}/kvasir.sqlite3 cannot be written to")
    assert finding.fix == f"Give this user the folder: chown -R $(whoami) {tmp_path}"


def test_a_damaged_database_of_ones_own_needs_its_backup(tmp_path: Path) -> None:
    (tmp_path / "kvasir.sqlite3").write_text("this is a letter to my aunt, and not a database at all")
    finding = check_database(Settings(data=tmp_path))
    assert "file is not a database" in finding.text
    assert "backup" in finding.fix


def test_in_a_data_folder_that_is_wrong_nothing_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(_path: Path) -> bool:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "is_dir", closed)
    found = check_setup(Settings(data=tmp_path, port=0))
    assert [(finding.subject, finding.verdict) for finding in found] == [
        ("data folder", Verdict.WRONG),
        ("port", Verdict.GOOD),
    ]
    assert "may not look" in found[0].text
