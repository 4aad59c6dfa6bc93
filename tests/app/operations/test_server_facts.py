"""What an administrator is told of the process."""

from __future__ import annotations

from pathlib import Path

import msgspec

from app.accounts.models import UserRole
from app.settings import Settings
from app.settings_source import variable_name
from tests.support.client import problem, running_app

PATH = "/api/v1/admin/server"


async def test_it_names_model_and_settings_and_shows_no_secret(tmp_path: Path, sqlite_url: str) -> None:
    secrets = {
        "admin_password": "parrot-one",
        "oidc_client_secret": "parrot-two",
        "otel_endpoint": "http://collector:parrot-three@127.0.0.1:4318",
    }
    async with (
        running_app(tmp_path, sqlite_url, port=4711, origins={"port": "command line"}, **secrets) as running,
        running.signed_in("root", UserRole.ADMIN) as admin,
        running.signed_in("somebody") as user,
    ):
        problem(await user.get(PATH), 403, "forbidden")
        answer = await admin.get(PATH)
        assert "parrot" not in answer.text
        body = answer.json()
        assert (body["state"], body["model"]["name"], body["database"], body["redis"]) == (
            "ready",
            "fake",
            "SQLite",
            False,
        )
        assert body["version"]
        assert body["started_at"]
        settings = {setting["name"]: setting for setting in body["settings"]}
        assert list(settings) == [variable_name(field.name) for field in msgspec.structs.fields(Settings)]
        assert (settings["KVASIR_PORT"]["value"], settings["KVASIR_PORT"]["origin"]) == ("4711", "command line")
        assert settings["KVASIR_ADMIN_PASSWORD"]["value"] == "(set)"
        assert settings["KVASIR_HOST"]["origin"] == "default"
        assert settings["KVASIR_HOST"]["description"]
