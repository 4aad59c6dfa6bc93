"""Bodies of the persona routes."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from app.personas.models import NAME_MAX_CHARS, Persona, PersonaVersion
from app.realtime.protocol import ResponseParams
from app.text import STORABLE_PATTERN
from engine.snapshot import PrefixState, PrefixStatus

PersonaName = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=NAME_MAX_CHARS,
        # Python's $ is also before a last line break, which would break the Location header.
        pattern=r"^[a-z0-9][a-z0-9._-]*$(?!\n)",
        description="Small letters, digits and . _ -, the first one a letter or a digit",
    ),
]
HandoffKeywords = Annotated[
    list[Annotated[str, Meta(min_length=1, max_length=100, pattern=r"^[^\x00]*\S[^\x00]*$")]],
    Meta(
        max_length=100,
        description="Whole words with which people ask for a person, in place of KVASIR_HANDOFF_KEYWORDS; null: those",
    ),
]
SystemPrompt = Annotated[str, Meta(min_length=1, description="What every conversation of this persona begins with")]


class PersonaCreate(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`params` are its sampling defaults; a message that brings its own comes first, the server's settings last."""

    name: PersonaName
    system_prompt: SystemPrompt
    params: ResponseParams = ResponseParams()
    handoff_keywords: HandoffKeywords | None = None


class PersonaPatch(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What is left out stays as it is. `params` are replaced as a whole."""

    system_prompt: SystemPrompt | UnsetType = UNSET
    params: ResponseParams | UnsetType = UNSET
    handoff_keywords: HandoffKeywords | UnsetType | None = UNSET


class PrefixBody(msgspec.Struct, frozen=True):
    """How much of the prompt the engine has computed ahead. `building`: it waits, or is being computed. `cold`: it is not kept,
    and computed with each use. `source` says whether it was computed or read from disk."""

    state: PrefixState
    tokens: int = 0
    pages: int = 0
    source: str | None = None

    @classmethod
    def of(cls, status: PrefixStatus) -> PrefixBody:
        return cls(status.state, status.tokens, status.pages, status.source)


class PersonaBody(msgspec.Struct, frozen=True):
    """One persona. In `params` are those that were set."""

    name: str
    system_prompt: str
    params: ResponseParams
    handoff_keywords: list[str] | None
    prefix: PrefixBody
    created_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, persona: Persona, prefix: PrefixBody) -> PersonaBody:
        return cls(
            name=persona.name,
            system_prompt=persona.version.system_prompt,
            params=msgspec.convert(persona.version.params, ResponseParams),
            handoff_keywords=persona.handoff_keywords,
            prefix=prefix,
            created_at=persona.created_at,
            updated_at=persona.updated_at,
        )


class PersonaList(msgspec.Struct, frozen=True):
    items: list[PersonaBody]
    next_cursor: str | None


class PersonaCursor(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The last item of a page: when it was made, in microseconds since 1970, and its name."""

    created_us: Annotated[int, Meta(ge=0, le=253_402_300_799_999_999)]
    name: PersonaName


class PersonaVersionBody(msgspec.Struct, frozen=True):
    """What a persona says from one change to the next. `conversations` go on with it; one that none does, and that is not the
    current one, is removed."""

    id: str
    system_prompt: str
    params: ResponseParams
    is_current: bool
    conversations: int
    created_at: datetime | None

    @classmethod
    def of(cls, version: PersonaVersion, is_current: bool, conversations: int) -> PersonaVersionBody:
        params = msgspec.convert(version.params, ResponseParams)
        return cls(version.id, version.system_prompt, params, is_current, conversations, version.created_at)


class PersonaVersionList(msgspec.Struct, frozen=True):
    items: list[PersonaVersionBody]
    next_cursor: str | None


class PersonaVersionCursor(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The last item of a page: when it was made, in microseconds since 1970, and its id."""

    created_us: Annotated[int, Meta(ge=0, le=253_402_300_799_999_999)]
    id: Annotated[str, Meta(max_length=36, pattern=STORABLE_PATTERN)]
