"""How an answer ended, in the words of the contract. Pure.

finish  stop → completed    length → incomplete    cancelled → cancelled, or interrupted when the server ends    failed → failed
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from app.conversations.models import MessageStatus
from app.realtime.protocol import FrameType
from engine.types import Finished, FinishReason, Usage

STATUS_OF = {
    FinishReason.STOP: MessageStatus.COMPLETED,
    FinishReason.LENGTH: MessageStatus.INCOMPLETE,
    FinishReason.CANCELLED: MessageStatus.CANCELLED,
    FinishReason.FAILED: MessageStatus.FAILED,
}
TERMINAL_FRAMES: dict[MessageStatus, FrameType] = {
    MessageStatus.COMPLETED: "response.completed",
    MessageStatus.INCOMPLETE: "response.incomplete",
    MessageStatus.CANCELLED: "response.cancelled",
    MessageStatus.FAILED: "response.failed",
    MessageStatus.INTERRUPTED: "response.interrupted",
}
INTERRUPTED = "interrupted"
"""The finish reason of answers that the server did not get to finish."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What the terminal frame says, and the token ids that are kept for the next turn."""

    status: MessageStatus
    finish_reason: str
    usage: Usage = field(default_factory=Usage)
    token_ids: tuple[int, ...] | None = None
    error: dict[str, Any] | None = None

    @property
    def frame_type(self) -> FrameType:
        """The type of the terminal frame."""
        return TERMINAL_FRAMES[self.status]

    @property
    def usage_body(self) -> dict[str, Any]:
        """`usage` as it is stored and shown."""
        body: dict[str, Any] = msgspec.to_builtins(self.usage)
        return body

    def frame_data(self, message_id: str) -> dict[str, Any]:
        """The data of the terminal frame."""
        data = {
            "usage": self.usage_body,
            "finish_reason": self.finish_reason,
            "message_id": message_id,
            "status": self.status,
        }
        return data if self.error is None else data | {"error": self.error}


def outcome_of(finished: Finished) -> Outcome:
    """What the engine says."""
    error = None
    if finished.reason is FinishReason.FAILED:
        failure = finished.failure
        code, message = (failure.code, failure.message) if failure else ("request_failed", "The engine failed.")
        error = {"code": str(code), "message": message}
    return Outcome(
        status=STATUS_OF[finished.reason],
        finish_reason=finished.reason,
        usage=finished.usage,
        token_ids=finished.token_ids,
        error=error,
    )


def stopped(status: MessageStatus, usage: Usage | None = None, token_ids: tuple[int, ...] | None = None) -> Outcome:
    """Somebody ended it: as cancelled, or as interrupted."""
    reason = INTERRUPTED if status is MessageStatus.INTERRUPTED else FinishReason.CANCELLED
    return Outcome(status=status, finish_reason=reason, usage=usage or Usage(), token_ids=token_ids)


def failed(code: str, message: str, usage: Usage | None = None, **numbers: int) -> Outcome:
    """It cannot be made, or not be kept."""
    return Outcome(
        status=MessageStatus.FAILED,
        finish_reason=FinishReason.FAILED,
        usage=usage or Usage(),
        error={"code": code, "message": message, **numbers},
    )
