"""Which role may do what: the one place where that is decided. Asked by guards through `Identity.may`, and shown by `GET /me`.

Rights are about acting on others. What is one's own needs none: there the queries see to it. Visitors of a widget are the
exception: they reach nothing but the routes that say `visitors`, so a new route is closed to them until somebody opens it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from app.accounts.models import UserRole


class Right(StrEnum):
    """Something that not everybody may do."""

    ADMINISTER = "administer"
    """See and steer the server: accounts, personas, sessions, the audit log."""

    ANSWER_PEOPLE = "answer_people"
    """Take over conversations of others in which a person is asked for."""


RIGHTS: Mapping[UserRole, frozenset[Right]] = {
    UserRole.VISITOR: frozenset(),
    UserRole.USER: frozenset(),
    UserRole.AGENT: frozenset({Right.ANSWER_PEOPLE}),
    UserRole.ADMIN: frozenset({Right.ADMINISTER, Right.ANSWER_PEOPLE}),
}
