"""Bodies of the widget routes."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from app.personas.schemas import PersonaName
from app.text import STORABLE_PATTERN
from app.widgets.models import NAME_MAX_CHARS, Widget

ORIGINS_MAX = 20
TOKEN_MAX_CHARS = 4096
KEEP_PREVIOUS_MAX_S = 7 * 86400

Language = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = ("en", "zh")
Name = Annotated[str, Meta(min_length=1, max_length=NAME_MAX_CHARS, pattern=STORABLE_PATTERN)]
Origin = Annotated[str, Meta(max_length=255, description="As a browser sends it: https://shop.example or with a port")]
AllowedOrigins = Annotated[list[Origin], Meta(min_length=1, max_length=ORIGINS_MAX)]
Greeting = Annotated[str, Meta(max_length=1000, pattern=STORABLE_PATTERN)]
# Python's $ is also before a last line break.
Colour = Annotated[str, Meta(pattern=r"^#[0-9a-fA-F]{6}$(?!\n)", description="As in #0b655c; the text on it is chosen")]
Languages = Annotated[list[Language], Meta(min_length=1, max_length=2, description="The first one is for all others")]
Anonymous = Annotated[bool, Meta(description="Whether people may chat whom the site has not signed in")]


class WidgetCreate(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Without a persona answers begin with no system prompt."""

    name: Name
    allowed_origins: AllowedOrigins
    persona: PersonaName | None = None
    anonymous: Anonymous = False
    title: Name = "Chat"
    greeting: Greeting = ""
    colour: Colour = "#0b655c"
    languages: Languages = msgspec.field(default_factory=lambda: list(LANGUAGES))


class WidgetPatch(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """What is left out stays as it is. `allowed_origins` and `languages` are replaced as a whole."""

    name: Name | UnsetType = UNSET
    allowed_origins: AllowedOrigins | UnsetType = UNSET
    persona: PersonaName | UnsetType | None = UNSET
    anonymous: Anonymous | UnsetType = UNSET
    title: Name | UnsetType = UNSET
    greeting: Greeting | UnsetType = UNSET
    colour: Colour | UnsetType = UNSET
    languages: Languages | UnsetType = UNSET


class WidgetBody(msgspec.Struct, frozen=True, kw_only=True):
    """A widget without its secret."""

    id: str
    name: str
    allowed_origins: list[str]
    persona: str | None
    anonymous: bool
    title: str
    greeting: str
    colour: str
    languages: list[str]
    created_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, widget: Widget) -> WidgetBody:
        return cls(**{name: getattr(widget, name) for name in WidgetBody.__struct_fields__})


class NewWidgetBody(WidgetBody, frozen=True, kw_only=True):
    """With the secret, this once."""

    secret: Annotated[str, Meta(description="Signs visitor tokens (HS256); it is shown now and never again")]


class WidgetList(msgspec.Struct, frozen=True):
    items: list[WidgetBody]
    next_cursor: str | None


class SecretRotation(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    keep_previous_s: Annotated[
        int,
        Meta(ge=0, le=KEEP_PREVIOUS_MAX_S, description="Seconds the secret before this one goes on to hold; 0: none"),
    ] = 0


class SecretBody(msgspec.Struct, frozen=True):
    secret: Annotated[str, Meta(description="Signs visitor tokens (HS256); it is shown now and never again")]


class WidgetLook(msgspec.Struct, frozen=True, kw_only=True):
    """What a page needs to show the widget."""

    id: str
    title: str
    greeting: str
    colour: str
    languages: list[str]
    anonymous: bool

    @classmethod
    def of(cls, widget: Widget) -> WidgetLook:
        return cls(**{name: getattr(widget, name) for name in WidgetLook.__struct_fields__})


class VisitorEntry(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Who comes in: `token`, signed by the site; or `visitor_key`, which an anonymous visitor was given before; or nobody yet."""

    token: Annotated[str, Meta(min_length=1, max_length=TOKEN_MAX_CHARS)] | None = None
    visitor_key: Annotated[str, Meta(min_length=1, max_length=100)] | None = None


class VisitorBody(msgspec.Struct, frozen=True):
    id: str
    name: str | None
    email: str | None


class VisitorSignIn(msgspec.Struct, frozen=True):
    """`token` is for `Authorization: Bearer` on this widget's routes. `visitor_key` is what anonymous visitors return with."""

    token: str
    expires_at: datetime
    visitor: VisitorBody
    visitor_key: str | None
