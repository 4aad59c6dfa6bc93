"""Lets whoever writes a message choose the answer: a first line `/words 200` and the like. For `serve_fake`, so that one server
process can play every part in a browser test. Any other message is answered with its own words.

    /words N      N numbered words      /endless     only a stop ends it
    /unread       the prompt is never read to its end
    /say          the other lines, as they are       /fail        some words, then a failure
"""

from __future__ import annotations

from engine.types import GenerationRequest, Role
from tests.support.scripts import ENDLESS, UNREAD, Script, default_answer, failing_script, numbered_script, text_script


def spoken_script(request: GenerationRequest) -> Script:
    """The answer the last message of the user asks for."""
    said = next((turn.text for turn in reversed(request.turns) if turn.role is Role.USER), "")
    command, _, rest = said.partition("\n")
    match command.split():
        case ["/words", count]:
            return numbered_script(int(count))
        case ["/endless"]:
            return ENDLESS
        case ["/unread"]:
            return UNREAD
        case ["/say"]:
            return text_script(rest, piece_chars=8)
        case ["/fail"]:
            return failing_script("The first", " words", message="The engine ran out of ink.")
    return default_answer(request)
