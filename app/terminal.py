"""Whether a stream takes colours, as people say it: a terminal does, unless TERM is dumb or NO_COLOR is set (no-color.org).

Asked by whoever writes for people: the logs, the doctor, the terminal chat.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import IO


def takes_colours(stream: IO[str], environment: Mapping[str, str] | None = None) -> bool:
    """True for a terminal whose person has not said otherwise."""
    environment = os.environ if environment is None else environment
    return stream.isatty() and environment.get("TERM") != "dumb" and not environment.get("NO_COLOR")
