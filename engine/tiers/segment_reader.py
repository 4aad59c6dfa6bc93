"""Reads a segment file and believes nothing it says: header, sizes, tokens and records are checked.

Used by `engine.tiers.disk_store`. It removes and counts nothing; what is wrong is raised. Pure.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from engine.tiers.disk_content import WantedPage
from engine.tiers.durable_folder import read_exactly
from engine.tiers.segment_file import (
    PREAMBLE_BYTES,
    SegmentDamaged,
    SegmentHeader,
    checksum_of,
    decode_header,
    decode_preamble,
)


def read_header(descriptor: int) -> tuple[SegmentHeader, int]:
    """The header of an open file, and where its records begin.

    Raises SegmentDamaged, SegmentForeign, EOFError where the file has been cut, or OSError.
    """
    size = os.fstat(descriptor).st_size
    preamble = decode_preamble(os.pread(descriptor, PREAMBLE_BYTES, 0))
    if preamble.records_offset > size:
        raise SegmentDamaged("the file ends within its header")
    body = bytearray(preamble.header_bytes)
    read_exactly(descriptor, memoryview(body), PREAMBLE_BYTES)
    header = decode_header(preamble, bytes(body))
    if preamble.records_offset + header.records_bytes != size:
        raise SegmentDamaged(f"the file has {size} bytes, not those of {len(header.pages)} pages")
    return header, preamble.records_offset


def read_records(
    descriptor: int, header: SegmentHeader, records_offset: int, wanted: Sequence[WantedPage], out: memoryview
) -> Iterator[int]:
    """Read records into `out`, one after the other, and yield how many are there and right so far.

    Raises SegmentDamaged at the first that is not what is wanted, EOFError or OSError.
    """
    record_bytes = header.format.record_bytes
    for start, end in _runs(wanted):
        place = wanted[start].place
        read_exactly(descriptor, out[start * record_bytes : end * record_bytes], records_offset + place * record_bytes)
        for index in range(start, end):
            _check(header, wanted[index], out[index * record_bytes : (index + 1) * record_bytes])
            yield index + 1


def _check(header: SegmentHeader, wanted: WantedPage, record: memoryview) -> None:
    if wanted.place >= len(header.pages):
        raise SegmentDamaged(f"page {wanted.place} is wanted of a file with {len(header.pages)}")
    page = header.pages[wanted.place]
    if (page.key, page.packed) != (wanted.key, wanted.packed):
        raise SegmentDamaged("the page is another one than was written")
    if page.checksum != checksum_of(record):
        raise SegmentDamaged("the page's bytes are not those that were written")


def _runs(wanted: Sequence[WantedPage]) -> list[tuple[int, int]]:
    """(start, end) of each run of pages that lie beside each other in the file: one call of the system for each."""
    breaks = [index for index in range(1, len(wanted)) if wanted[index].place != wanted[index - 1].place + 1]
    return list(zip([0, *breaks], [*breaks, len(wanted)], strict=True)) if wanted else []
