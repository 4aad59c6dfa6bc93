"""Errors the engine raises to its callers. Each carries the numbers, and a message that says what was expected and what came."""

from __future__ import annotations

from enum import StrEnum


class EngineError(Exception):
    """Anything the engine refuses or fails at."""


class ModelError(EngineError):
    """A model file or folder that cannot be served; the message is one clear sentence for the person who chose it."""


class ModelNotFetched(ModelError):
    """A model that can only be served after it was fetched or prepared: `kvasir model pull` does that."""


class EngineNotReady(EngineError):
    """The engine is still loading, has failed or was stopped."""


class PromptTooLong(EngineError):
    """A request that can never fit, however long it waits."""

    def __init__(self, prompt_tokens: int, available_tokens: int) -> None:
        super().__init__(
            f"the conversation has {prompt_tokens} tokens, but at most {available_tokens} fit together with an answer"
        )
        self.prompt_tokens = prompt_tokens
        self.available_tokens = available_tokens


class QueueUnit(StrEnum):
    """What a bound of the queue counts."""

    REQUESTS = "requests"
    TOKENS = "prompt tokens"


class QueueFull(EngineError):
    """So much waits already that this request is refused; `waiting` and `limit` count what `unit` says."""

    def __init__(self, waiting: int, limit: int, retry_after_s: int, unit: QueueUnit = QueueUnit.REQUESTS) -> None:
        super().__init__(f"{waiting} {unit} are waiting and the limit is {limit}; try again in {retry_after_s} s")
        self.waiting = waiting
        self.limit = limit
        self.retry_after_s = retry_after_s
        self.unit = unit


class FilesNotDeleted(EngineError):
    """KV was forgotten in memory, and its files could not be removed: the disk fails or does not answer."""

    def __init__(self) -> None:
        super().__init__(
            "the files of this KV could not be deleted, the log says why; they are tried again at the next start"
        )


class TemplateRefused(EngineError):
    """The model's chat template does not accept this order of roles."""


class ToolsNotSupported(TemplateRefused):
    """The model's chat template has no place for tools, or writes their calls in a way that is not read here."""

    def __init__(self) -> None:
        super().__init__("the model that serves has a chat template without tools, so it cannot be told of any")


class ConstraintRefused(EngineError):
    """What an answer is to be held to, a JSON Schema, is wrong, too large or not supported; the message says what."""
