"""The format of a file of KV: a run of pages of one session, with everything that says whose and of which model they are.

Used by `engine.tiers.disk_store`; it only turns values into bytes and back. Pure: no file is opened here.

    magic 8 | version u32 | header size u32 | sha256 of all but the magic and itself, 32    the same in every version
    size of the facts u32 | facts as JSON | one entry for each page                         the header
    record | record | …                                                                     bytes of the pages

Whatever byte is damaged, it is noticed: in the header by its sha256, in a record by its CRC-32, which the page's entry holds.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from struct import Struct, error, pack
from typing import Final

from engine.config import PAGE_TOKENS
from engine.errors import EngineError
from engine.packed_tokens import TOKEN_BYTES, PackedTokens, count_tokens, part_of
from engine.page_keys import PageKey
from engine.tiers.record_format import RecordFormat
from engine.types import Namespace, NamespaceKind, SessionKey

VERSION: Final = 1
MAGIC: Final = b"KVASIRKV"
_PREAMBLE: Final = Struct("<8sII32s")
_FACTS_SIZE: Final = Struct("<I")
_ENTRY: Final = Struct(f"<32s32sIII{PAGE_TOKENS * TOKEN_BYTES}s")
PREAMBLE_BYTES: Final = _PREAMBLE.size


class SegmentDamaged(EngineError):
    """These bytes are not a whole segment file."""


class SegmentForeign(EngineError):
    """A whole file of a version that is not read here."""


@dataclass(frozen=True, slots=True)
class SegmentPage:
    """One page in a file; `checksum` is the CRC-32 of its record."""

    key: PageKey
    parent: PageKey
    index: int
    packed: PackedTokens
    checksum: int


@dataclass(frozen=True, slots=True)
class SegmentHeader:
    """What a file says about itself. `root` is where its keys begin: it stands for the model and the server's secret."""

    fingerprint: str
    root: PageKey
    session: SessionKey
    format: RecordFormat
    pages: tuple[SegmentPage, ...]

    @property
    def records_bytes(self) -> int:
        return len(self.pages) * self.format.record_bytes


@dataclass(frozen=True, slots=True)
class Preamble:
    version: int
    header_bytes: int
    digest: bytes

    @property
    def records_offset(self) -> int:
        return PREAMBLE_BYTES + self.header_bytes


def checksum_of(record: memoryview) -> int:
    return zlib.crc32(record)


def encode_header(header: SegmentHeader, version: int = VERSION) -> bytes:
    """The bytes of a file up to its first record."""
    facts = json.dumps(
        {
            "fingerprint": header.fingerprint,
            "root": header.root.hex(),
            "kind": header.session.namespace.kind.value,
            "name": header.session.namespace.name,
            "part": header.session.namespace.part,
            "session": header.session.name,
            "dtype": header.format.dtype,
            "shape": header.format.shape,
            "tensors": header.format.tensors,
            "record_bytes": header.format.record_bytes,
        }
    ).encode()
    body = _FACTS_SIZE.pack(len(facts)) + facts + b"".join(map(_encode_entry, header.pages))
    return _PREAMBLE.pack(MAGIC, version, len(body), _digest(version, body)) + body


def decode_preamble(content: bytes) -> Preamble:
    """What the first `PREAMBLE_BYTES` bytes say. Raises SegmentDamaged."""
    if len(content) != PREAMBLE_BYTES or content[: len(MAGIC)] != MAGIC:
        raise SegmentDamaged("the file does not begin as a segment does")
    _, version, header_bytes, digest = _PREAMBLE.unpack(content)
    return Preamble(version, header_bytes, digest)


def decode_header(preamble: Preamble, body: bytes) -> SegmentHeader:
    """What the `preamble.header_bytes` bytes after the preamble say. Raises SegmentDamaged or SegmentForeign."""
    if len(body) != preamble.header_bytes or _digest(preamble.version, body) != preamble.digest:
        raise SegmentDamaged("the header is not the one that was written")
    if preamble.version != VERSION:
        raise SegmentForeign(f"the file has version {preamble.version}, and version {VERSION} is read")
    try:
        (facts_bytes,) = _FACTS_SIZE.unpack_from(body)
        facts = json.loads(body[_FACTS_SIZE.size : _FACTS_SIZE.size + facts_bytes])
        return SegmentHeader(
            fingerprint=str(facts["fingerprint"]),
            root=PageKey(bytes.fromhex(facts["root"])),
            session=SessionKey(
                Namespace(NamespaceKind(facts["kind"]), str(facts["name"]), str(facts["part"])), str(facts["session"])
            ),
            format=RecordFormat(
                str(facts["dtype"]), tuple(facts["shape"]), tuple(facts["tensors"]), int(facts["record_bytes"])
            ),
            pages=_decode_entries(body[_FACTS_SIZE.size + facts_bytes :]),
        )
    except (ValueError, KeyError, TypeError, error) as problem:
        raise SegmentDamaged(f"the header was written wrongly: {problem}") from problem


def _digest(version: int, body: bytes) -> bytes:
    return sha256(pack("<II", version, len(body)) + body).digest()


def _encode_entry(page: SegmentPage) -> bytes:
    return _ENTRY.pack(page.key, page.parent, page.index, count_tokens(page.packed), page.checksum, page.packed)


def _decode_entries(content: bytes) -> tuple[SegmentPage, ...]:
    pages = []
    for key, parent, index, num_tokens, checksum, padded in _ENTRY.iter_unpack(content):
        if not 1 <= num_tokens <= PAGE_TOKENS:
            raise SegmentDamaged(f"a page has {num_tokens} tokens")
        pages.append(SegmentPage(key, parent, index, part_of(padded, 0, num_tokens), checksum))
    return tuple(pages)


def namespace_folder(namespace: Namespace) -> Path:
    """Where everything of a user is, in all parts of the namespace. What people wrote is hashed in, never used as it is."""
    return Path(_name_hash(namespace.kind.value, namespace.name))


def session_folder(session: SessionKey) -> Path:
    """Where the files of a session are."""
    return namespace_folder(session.namespace) / _name_hash(session.namespace.part, session.name)


def _name_hash(*parts: str) -> str:
    encoded = [part.encode("utf-8", "surrogatepass") for part in parts]
    return sha256(b"".join(pack("<I", len(part)) + part for part in encoded)).hexdigest()[:32]
