"""Bodies of the feedback routes; sockets show the same objects."""

from __future__ import annotations

from datetime import date, datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from app.feedback.lookup import Rated
from app.feedback.models import COMMENT_MAX_CHARS, Feedback, Scale
from app.text import STORABLE_PATTERN

Rating = Annotated[int, Meta(ge=-1, le=5, description="1 or -1 of thumbs; 1 to 5 of stars")]
Comment = Annotated[str, Meta(max_length=COMMENT_MAX_CHARS, pattern=STORABLE_PATTERN)]
MAX_BY_SCALE = {Scale.THUMBS: (-1, 1), Scale.STARS: (1, 2, 3, 4, 5)}


def require_rating(rating: int, scale: Scale) -> None:
    """Raises ValueError for one that is not of its scale."""
    if rating not in MAX_BY_SCALE[scale]:
        expected = ", ".join(map(str, MAX_BY_SCALE[scale]))
        raise ValueError(f"expected a rating of {scale} to be one of {expected}, got {rating}")


class FeedbackPut(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What one thinks of an answer, in place of what one thought before."""

    rating: Rating
    scale: Scale = Scale.THUMBS
    comment: Comment | None = None

    def __post_init__(self) -> None:
        require_rating(self.rating, self.scale)


class FeedbackBody(Rated, frozen=True, kw_only=True):
    """A rating with what it is of."""

    message_id: str
    conversation_id: str
    created_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, feedback: Feedback) -> FeedbackBody:
        return cls(
            rating=feedback.rating,
            scale=Scale(feedback.scale),
            comment=feedback.comment,
            message_id=feedback.message_id,
            conversation_id=feedback.conversation_id,
            created_at=feedback.created_at,
            updated_at=feedback.updated_at,
        )


class FeedbackSums(msgspec.Struct, frozen=True):
    """Ratings of one day and persona. `stars_average` is null where there are none; `satisfied` is the share of thumbs up and of
    four and five stars among all."""

    day: date
    persona: str | None
    thumbs_up: int
    thumbs_down: int
    stars: int
    stars_average: float | None
    satisfied: float


class FeedbackSumsList(msgspec.Struct, frozen=True):
    """The newest day first."""

    items: list[FeedbackSums]
    next_cursor: str | None


class FeedbackCursor(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The last item of a page."""

    day: date
    persona: Annotated[str, Meta(max_length=64)]
