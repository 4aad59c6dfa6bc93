"""How frames lie in Redis, and the one script that adds to them.

    kvasir:log:<response id>    a stream; the id of an entry is `<seq>-0`, its field `f` the frame as it is sent

A script and not single commands, because only it can see that a log has lost its end (Redis was restarted) or has got another one
(a server that was taken for dead had its answer ended by somebody else) before it adds anything. Adding the same again changes
nothing.
"""

from __future__ import annotations

import hashlib

from app.replicas.redis_link import PREFIX

FIELD = b"f"
RUNNING_MS = 3_600_000
"""How long the log of a running answer outlives its last frame: much longer than any answer is silent."""

ENDED_MS = 60_000
"""How long an ended log stays for those who are just reading it; after that it is read from SQL."""

DEPOSED = -1
"""The script's answer where other frames are in the place of these; else it is the number of the log's last frame."""

ADD = """
local first = tonumber(ARGV[1])
local last = 0
local newest = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)
if newest[1] then last = tonumber(string.match(newest[1][1], '^%d+')) end
if last < first - 1 then return last end
for i = 3, #ARGV do
  local seq = first + i - 3
  if seq > last then
    redis.call('XADD', KEYS[1], seq .. '-0', 'f', ARGV[i])
    last = seq
  else
    local there = redis.call('XRANGE', KEYS[1], seq .. '-0', seq .. '-0')
    if not there[1] or there[1][2][2] ~= ARGV[i] then return -1 end
  end
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return last
"""

ADD_SHA = hashlib.sha1(ADD.encode(), usedforsecurity=False).hexdigest()
"""The name by which Redis knows the script, once it has been loaded."""


def log_key(response_id: str) -> str:
    """Where the log of a response is."""
    return f"{PREFIX}log:{response_id}"


def response_of(key: bytes) -> str:
    """Whose log is there."""
    return key.decode().rpartition(":")[2]


def entry_id(seq: int) -> str:
    """The id of a frame's entry."""
    return f"{seq}-0"


def seq_of(entry: bytes) -> int:
    """The number of an entry's frame."""
    return int(entry.partition(b"-")[0])
