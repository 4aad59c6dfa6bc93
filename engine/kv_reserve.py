"""The pages that admission leaves free, so that answers that run can grow to their end.

Used by `engine.scheduler`. Pure arithmetic; it holds no page itself.

    pool  | held | promised | new request | reserve ............ | free for more |
            by those that run  its tokens   min(share of the pool,
                                            all that may still grow)

An answer's length is not known, only its limit. Holding back everything up to the limits would leave most of the memory
unused; holding back nothing makes every admission end in a preemption. So a share of the pool is held back, and less where
those that run cannot grow that much: then nobody is ever preempted.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KVReserve:
    """`share` of a pool of `num_pages`."""

    share: float
    num_pages: int

    def __post_init__(self) -> None:
        if not 0.0 <= self.share < 1.0:
            raise ValueError(f"the reserve is a share of the pool, 0 or more and less than 1, got {self.share:g}")

    def held_back(self, growth_pages: int) -> int:
        """Pages to leave free where all that run, the new one included, may still grow by `growth_pages`."""
        return min(int(self.share * self.num_pages), growth_pages)

    def admits(self, needed_pages: int, growth_pages: int, available_pages: int, *, is_alone: bool) -> bool:
        """Whether a request that needs `needed_pages` now may start.

        `available_pages` are free and promised to nobody; `growth_pages` as in `held_back`. A request that is alone in the
        engine needs no reserve: whatever it grows by is there, or it would have been refused when it came.
        """
        return is_alone or needed_pages + self.held_back(growth_pages) <= available_pages
