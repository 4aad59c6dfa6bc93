"""Settings: where a value comes from, what is refused, and what is never shown."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import make_url

from app.settings import Settings
from app.settings_source import SettingsError, load_settings, shown_value


@pytest.fixture
def dotenv(tmp_path: Path) -> Path:
    return tmp_path / ".env"


def test_the_command_line_comes_before_the_environment_before_the_file_before_the_default(dotenv: Path) -> None:
    dotenv.write_text("KVASIR_HOST=file\nKVASIR_PORT=1\nKVASIR_MODEL=file\n")
    loaded = load_settings({"port": 3}, {"KVASIR_PORT": "2", "KVASIR_HOST": "environment"}, dotenv)
    assert (loaded.settings.port, loaded.settings.host, loaded.settings.model) == (3, "environment", "file")
    assert loaded.settings.drain_s == 30
    origins = [loaded.origins[name] for name in ("port", "host", "model", "drain_s")]
    assert origins == ["command line", "environment", ".env", "default"]


@pytest.mark.parametrize(("text", "value"), [("1", True), ("Yes", True), ("off", False), ("FALSE", False)])
def test_a_switch_is_written_in_any_usual_way(dotenv: Path, text: str, value: bool) -> None:
    assert load_settings({}, {"KVASIR_COOKIE_SECURE": text}, dotenv).settings.cookie_secure is value


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("PORT", "65536"),
        ("PORT", ""),
        ("COOKIE_SECURE", "perhaps"),
        ("MAX_RUNNING", "0"),
        ("TOP_P", "0"),
        ("DRAIN_S", "-1"),
        ("ON_DISCONNECT", "explode"),
        ("LOG_LEVEL", "chatty"),
        ("WEIGHTS", "int1"),
        ("SESSION_DAYS", "99999999999"),
        ("IDEMPOTENCY_HOURS", "99999999999"),
        ("SIGN_IN_TICKET_S", "inf"),
        ("THREADS", "100000"),
        ("BATCH_WINDOW_MS", "21"),
        ("KV_RESERVE", "1"),
        ("KV_HOST_MIB", "-1"),
        ("KV_TRANSFER_TIMEOUT_S", "0"),
        ("CONTEXT_POLICY", "forget"),
        ("PUBLIC_URL", "chat.example"),
        ("PUBLIC_URL", "https://"),
    ],
)
def test_a_value_that_cannot_be_names_its_variable_and_itself(dotenv: Path, name: str, text: str) -> None:
    with pytest.raises(SettingsError, match=f"^KVASIR_{name}: .*got {text!r}$"):
        load_settings({}, {f"KVASIR_{name}": text}, dotenv)


def test_a_word_that_cannot_be_is_answered_with_those_that_can(dotenv: Path) -> None:
    with pytest.raises(SettingsError, match=r"expected one of error, drop_oldest_turns, got 'drop'$"):
        load_settings({}, {"KVASIR_CONTEXT_POLICY": "drop"}, dotenv)


def test_times_of_a_session_that_contradict_each_other_are_refused(dotenv: Path) -> None:
    expected = "^KVASIR_SESSION_HOST_S: expected at least KVASIR_SESSION_DEVICE_S, 300, got 60$"
    with pytest.raises(SettingsError, match=expected):
        load_settings({}, {"KVASIR_SESSION_HOST_S": "60"}, dotenv)
    with pytest.raises(SettingsError, match=r"^KVASIR_SESSION_TTL_S: .* got 1000$"):
        load_settings({}, {"KVASIR_SESSION_TTL_S": "1000"}, dotenv)
    same = {"KVASIR_SESSION_DEVICE_S": "0", "KVASIR_SESSION_HOST_S": "0", "KVASIR_SESSION_TTL_S": "0"}
    assert load_settings({}, same, dotenv).settings.session_ttl_s == 0


def test_a_variable_that_does_not_exist_is_refused_wherever_it_is(dotenv: Path) -> None:
    with pytest.raises(SettingsError, match=r"KVASIR_MODLE in the environment .* did you mean KVASIR_MODEL\?"):
        load_settings({}, {"KVASIR_MODLE": "auto"}, dotenv)
    dotenv.write_text("KVASIR_XYZZY=1\n")
    with pytest.raises(SettingsError, match=r"KVASIR_XYZZY in the \.env file is not a setting \("):
        load_settings({}, {}, dotenv)


def test_variables_of_others_are_none_of_our_business(dotenv: Path) -> None:
    dotenv.write_text("POSTGRES_PASSWORD=secret\n")
    assert load_settings({}, {"PATH": "/bin"}, dotenv).settings == Settings()


def test_the_file_says_what_it_says(dotenv: Path) -> None:
    dotenv.write_bytes(b'KVASIR_ADMIN_PASSWORD="a${HOME}b$c"\r\nKVASIR_PORT=9000\r\n')
    settings = load_settings({}, {}, dotenv).settings
    assert (settings.admin_password, settings.port) == ("a${HOME}b$c", 9000)


def test_a_file_that_cannot_be_read_is_refused(dotenv: Path) -> None:
    dotenv.write_bytes(b"KVASIR_HOST=gr\xfc\xdfe\n")
    with pytest.raises(SettingsError, match=r"\.env cannot be read: it is not UTF-8$"):
        load_settings({}, {}, dotenv)


def test_secrets_are_not_shown() -> None:
    settings = Settings(admin_password="hunter2", database_url="postgresql://kvasir:hunter2@db/kvasir")
    assert shown_value("admin_password", settings) == "(set)"
    assert shown_value("admin_password", Settings()) == ""
    assert shown_value("database_url", settings) == "postgresql://kvasir:***@db/kvasir"
    assert (
        shown_value("redis_url", Settings(redis_url="rediss://:hunter2@redis:6379/1")) == "rediss://:***@redis:6379/1"
    )


@pytest.mark.parametrize("url", ["hunter2", "postgresql://kvasir:hunter2@db:port/kvasir"])
def test_what_is_no_database_url_is_not_shown_at_all(url: str) -> None:
    assert shown_value("database_url", Settings(database_url=url)) == "(set, but no database URL)"


@pytest.mark.parametrize(
    ("settings", "url"),
    [
        (Settings(), "http://127.0.0.1:8080"),
        (Settings(host="0.0.0.0", port=80), "http://127.0.0.1:80"),
        (Settings(host="::"), "http://[::1]:8080"),
        (Settings(host="fe80::1"), "http://[fe80::1]:8080"),
        (Settings(public_url="https://chat.example/"), "https://chat.example"),
    ],
)
def test_links_lead_where_people_can_go(settings: Settings, url: str) -> None:
    assert settings.base_url == url


def test_without_a_url_the_database_is_a_file_in_the_data_folder(tmp_path: Path) -> None:
    assert Settings(data=tmp_path).effective_database_url == f"sqlite:///{tmp_path}/kvasir.sqlite3"


@pytest.mark.parametrize("name", ["50%41", "what?", "a?b=c#d", "größe mit Leer", "[x]@y:z"])
def test_whatever_the_data_folder_is_called_its_database_lies_in_it(tmp_path: Path, name: str) -> None:
    url = Settings(data=tmp_path / name).effective_database_url
    assert make_url(url).database == str(tmp_path / name / "kvasir.sqlite3")
    assert not make_url(url).query
