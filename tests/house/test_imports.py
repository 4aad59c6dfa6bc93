"""Who may import whom: `kernels ← engine ← app`, pure modules pure, libraries only where they belong."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests.house.source import ROOMS, ROOT, imports, imports_package, modules

ENGINE_DOOR = {"engine.client", "engine.types", "engine.config", "engine.errors", "engine.snapshot", "engine.structure"}
COMPOSITION_ROOT = {
    Path("app/cli/serve.py"): {"engine.local", "engine.model.registry"},
    Path("app/cli/model.py"): {"engine.model.registry"},
    Path("app/cli/remote_engine.py"): {
        "engine.remote.client",
        "engine.remote.config",
        "engine.remote.dialect",
        "engine.remote.probe",
        "engine.remote.refusal",
        "engine.remote.server",
    },
    Path("app/cli/setup_checks.py"): {"engine.model.registry"},
    Path("app/cli/bench.py"): {"engine.bench.protocol", "engine.bench.ideas", "engine.bench.growth"},
    Path("app/cli/bench_compare.py"): {"engine.bench.targets"},
    Path("app/cli/bench_setup.py"): {"engine.model.registry"},
    Path("app/cli/bench_start.py"): {"engine.bench.comparison"},
    Path("app/cli/bench_tables.py"): {"engine.bench.samples"},
}
"""The commands that put the server together, and those that measure it; they alone know which engine it is."""

PURE = (
    "engine/bench/comparison.py",
    "engine/bench/samples.py",
    "engine/bench/targets.py",
    "engine/types.py",
    "engine/config.py",
    "engine/errors.py",
    "engine/checked_prompts.py",
    "engine/client.py",
    "engine/context_policy.py",
    "engine/encoded_chats.py",
    "engine/queue_bounds.py",
    "engine/sequence.py",
    "engine/sequence_check.py",
    "engine/pages.py",
    "engine/snapshot.py",
    "engine/prefix_cache.py",
    "engine/prefix_match.py",
    "engine/page_keys.py",
    "engine/page_families.py",
    "engine/packed_tokens.py",
    "engine/eviction_order.py",
    "engine/host_pages.py",
    "engine/cached_page.py",
    "engine/admission.py",
    "engine/scheduler.py",
    "engine/ageing.py",
    "engine/fair_shares.py",
    "engine/waiting_queue.py",
    "engine/batch_window.py",
    "engine/kv_reserve.py",
    "engine/step_size.py",
    "engine/watchdog.py",
    "engine/pace.py",
    "engine/room.py",
    "engine/shared_beginnings.py",
    "engine/queue_positions.py",
    "engine/step_budget.py",
    "engine/step_plan.py",
    "engine/prompt_lookup.py",
    "engine/speculation.py",
    "engine/row_costs.py",
    "engine/session.py",
    "engine/sessions.py",
    "engine/misses.py",
    "engine/prefixes.py",
    "engine/common_length.py",
    "engine/grammar_source.py",
    "engine/number_bound.py",
    "engine/schema_check.py",
    "engine/stop_strings.py",
    "engine/remote/chunk.py",
    "engine/remote/completion_request.py",
    "engine/remote/config.py",
    "engine/remote/dialect.py",
    "engine/remote/event_lines.py",
    "engine/remote/probe.py",
    "engine/remote/prompts.py",
    "engine/remote/refusal.py",
    "engine/remote/salts.py",
    "engine/remote/sessions.py",
    "engine/remote/totals.py",
    "engine/structure.py",
    "engine/json_call.py",
    "engine/role_order.py",
    "engine/tool_chat.py",
    "engine/tool_dialect.py",
    "engine/tool_grammar.py",
    "engine/tool_reader.py",
    "engine/tiers/disk_content.py",
    "engine/tiers/disk_store.py",
    "engine/tiers/durable_folder.py",
    "engine/tiers/rate.py",
    "engine/tiers/record_format.py",
    "engine/tiers/secret.py",
    "engine/tiers/segment_file.py",
    "engine/tiers/segment_index.py",
    "engine/tiers/segment_reader.py",
    "engine/tiers/stored_pages.py",
    "engine/tiers/transfers.py",
    "engine/model/model_settings.py",
    "engine/model/rope.py",
    "engine/model/config_shape.py",
    "engine/model/gguf_shape.py",
    "app/errors.py",
    "app/identifiers.py",
    "app/realtime/protocol.py",
    "app/service/keywords.py",
    "app/service/states.py",
    "app/webhooks/addresses.py",
    "app/webhooks/event_types.py",
    "app/webhooks/schedule.py",
    "app/webhooks/signing.py",
)
FRAMEWORKS = ("torch", "asyncio", "litestar", "sqlalchemy", "transformers")
SQLALCHEMY_FILES = ("models.py", "queries.py", "service.py")
SQLALCHEMY_MODULES = (
    "app/damage.py",
    "app/database.py",
    "app/idempotency.py",
    "app/sole_server.py",
    "app/migrate.py",
    "app/settings_source.py",
    "app/sqlite_driver.py",
    # Turns what a database can fail with into sentences.
    "app/cli/database.py",
    # The tree of messages, which `responses` grows inside its own unit of work.
    "app/conversations/tree.py",
    # The history. One file with the SQL of all of it would be an attic.
    "app/conversations/external_ids.py",
    "app/conversations/full_text.py",
    "app/conversations/importing.py",
    "app/conversations/listing.py",
    "app/conversations/retention.py",
    "app/conversations/retention_policies.py",
    "app/conversations/search_index.py",
    "app/conversations/tags.py",
    "app/conversations/titles.py",
    "app/conversations/ways.py",
    # What other rooms call inside their own unit of work.
    "app/feedback/lookup.py",
    "app/service/transcript.py",
    "app/webhooks/outbox.py",
)


@pytest.mark.parametrize(
    ("room", "forbidden"),
    [
        ("kernels", ("engine", "app", "migrations")),
        ("engine", ("app", "migrations", "litestar", "sqlalchemy", "redis", "uvicorn")),
        ("app", ("kernels", "torch", "transformers", "tokenizers", "safetensors", "gguf")),
        ("migrations", ("engine", "kernels", "litestar")),
    ],
)
def test_a_room_never_imports(room: str, forbidden: tuple[str, ...]) -> None:
    allowed_for_diagnosis = {Path("app/cli/machine_checks.py"): {"torch"}}
    wrong = {
        str(path): found
        for path in modules(room)
        if (found := imports_package(path, *forbidden) - allowed_for_diagnosis.get(path, set()))
    }
    assert wrong == {}


def test_app_enters_the_engine_only_through_its_door() -> None:
    wrong = {}
    for path in modules("app"):
        allowed = ENGINE_DOOR | COMPOSITION_ROOT.get(path, set())
        beyond = {
            name
            for name in imports_package(path, "engine")
            if name not in allowed and name.rpartition(".")[0] not in allowed
        }
        if beyond - {"engine"}:
            wrong[str(path)] = beyond
    assert wrong == {}


@pytest.mark.parametrize("path", PURE)
def test_a_pure_module_imports_no_framework(path: str) -> None:
    assert (ROOT / path).is_file(), f"{path} is listed as pure and is not there"
    assert imports_package(Path(path), *FRAMEWORKS) == set()


def test_pure_modules_are_pure_all_the_way_down() -> None:
    names = [path.removesuffix(".py").replace("/", ".") for path in PURE]
    code = f"import sys, {', '.join(names)}; print([m for m in {FRAMEWORKS!r} if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_the_help_text_loads_nothing_heavy() -> None:
    code = (
        "import sys, app.cli; print([m for m in ('torch','litestar','sqlalchemy','rich','httpx') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_the_port_opens_before_torch_is_imported() -> None:
    later = ("torch", "transformers", "numpy", "gguf", "psycopg", "redis", "rich.progress")
    code = f"import sys, app.cli.serve; print([m for m in {later!r} if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_sqlalchemy_stays_in_models_queries_services_and_the_database() -> None:
    wrong = {
        str(path): found
        for path in modules("app")
        if path.name not in SQLALCHEMY_FILES
        and str(path) not in SQLALCHEMY_MODULES
        and (found := imports_package(path, "sqlalchemy") - unit_of_work_of(path))
    }
    assert wrong == {}


def unit_of_work_of(path: Path) -> set[str]:
    """What a domain may name of SQLAlchemy anywhere but in its routes: the unit of work it is handed."""
    if path.name == "routes.py" or path.parts[1] in ("cli", "operations", "realtime"):
        return set()
    return {"sqlalchemy.ext.asyncio", "sqlalchemy.ext.asyncio.AsyncSession"}


def test_litestar_stays_at_the_edge() -> None:
    inner = ("service.py", "queries.py", "models.py", "schemas.py")
    wrong = [str(path) for path in modules("app") if path.name in inner and imports_package(path, "litestar")]
    wrong += [str(path) for path in modules("app") if path.parts[1] == "cli" and imports_package(path, "litestar")]
    assert wrong == []


def test_only_kernels_import_triton_and_only_the_redis_twins_redis() -> None:
    assert [str(path) for path in modules("app", "engine", "migrations") if imports_package(path, "triton")] == []
    twins = [path for path in modules(*ROOMS) if imports_package(path, "redis")]
    assert twins
    assert [str(path) for path in twins if path.parent != Path("app/replicas") or path.stem[:6] != "redis_"] == []


def test_only_the_traces_import_opentelemetry_and_nothing_imports_them_at_start() -> None:
    tracing = [str(path) for path in modules(*ROOMS) if imports_package(path, "opentelemetry")]
    assert tracing == ["app/operations/otel_tracing.py"]


def test_a_domain_never_reads_another_domains_queries() -> None:
    wrong = []
    for path in modules("app"):
        for name in imports_package(path, "app"):
            parts = name.split(".")
            if len(parts) >= 3 and parts[2] == "queries" and parts[1] != path.parts[1]:
                wrong.append((str(path), name))
    assert wrong == []


def test_every_package_that_is_imported_is_declared() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = {_normalised(line.split("==")[0].split("[")[0]) for line in project["dependencies"]}
    # An extra: only where traces are wanted.
    declared |= {_normalised(line.split("==")[0]) for line in project["optional-dependencies"]["otel"]}
    # Only chosen on a GPU, where torch brings it along.
    declared.add("triton")
    distributions = packages_distributions()
    missing = set()
    for path in modules(*ROOMS):
        for top in {name.partition(".")[0] for name in imports(path)}:
            if top in sys.stdlib_module_names or top in ROOMS:
                continue
            if not declared & {_normalised(name) for name in distributions.get(top, [])}:
                missing.add((str(path), top))
    assert missing == set()


def _normalised(name: str) -> str:
    return name.strip().lower().replace("_", "-").replace(".", "-")
