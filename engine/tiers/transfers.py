"""Threads for what may take long: reads, writes and deletions of the disk, each in a lane of its own.

Used by `engine.tiers.tiers` and its parts, in the engine thread: it submits jobs, takes their results in `poll`, and never
waits. A job that takes longer than `timeout_s` is reported as failed at once; whatever it brings later is thrown away
(ai-dynamo/dynamo#3730). While its call has not come back the lane is stuck, and every other job of it fails at once too. The
threads are daemons.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

logger = logging.getLogger(__name__)

Result = TypeVar("Result")

CLOSE_S: Final = 1.0
"""How long `close` waits for a lane that is in the middle of a job; a job takes a fraction of that unless its disk hangs."""


class Job(Generic[Result]):
    """One call in a lane. `done` is called in the engine thread, once, with what it returned; None where it failed, was
    cancelled or was too slow."""

    def __init__(self, call: Callable[[], Result], done: Callable[[Result | None], None]) -> None:
        self.call = call
        self.done = done
        self.started_at: float | None = None
        self.result: Result | None = None
        self.is_wanted = True
        """False as soon as nobody waits for the result; the call may look at it and stop."""


class Lane:
    """Owns one thread and the jobs that wait for it, first come first served."""

    def __init__(self, name: str, timeout_s: float, clock: Callable[[], float], wake: Callable[[], None]) -> None:
        self.name = name
        self._timeout_s = timeout_s
        self._clock = clock
        self._wake = wake
        self._changed = threading.Condition()
        self._waiting: deque[Job[Any]] = deque()
        self._running: Job[Any] | None = None
        self._ended: deque[Job[Any]] = deque()
        self._is_closed = False
        self._thread: threading.Thread | None = None
        self.num_timed_out = 0
        self.num_failed = 0

    @property
    def is_stuck(self) -> bool:
        """Whether the job that runs has been given up."""
        running = self._running
        return running is not None and not running.is_wanted and self._is_late(running)

    @property
    def num_jobs(self) -> int:
        """Jobs whose `done` has not been called yet."""
        with self._changed:
            running = self._running is not None and self._running.is_wanted
            return len(self._waiting) + len(self._ended) + running

    def submit(self, job: Job[Any]) -> None:
        """Have the job called in the lane's thread; its `done` follows in a later `poll`, never in here."""
        with self._changed:
            if self._is_closed or self.is_stuck:
                self.num_timed_out += not self._is_closed
                job.is_wanted = False
                self._ended.append(job)
                return
            self._waiting.append(job)
            if self._thread is None:
                self._thread = threading.Thread(target=self._main, name=f"kvasir-{self.name}", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def cancel(self, job: Job[Any]) -> None:
        """Nobody wants the result any more. `done` is called with None in the next `poll`, also while the call still runs."""
        with self._changed:
            if job.is_wanted:
                job.is_wanted = False
                if job in self._waiting:
                    self._waiting.remove(job)
                if job not in self._ended:
                    self._ended.append(job)

    def poll(self) -> None:
        """Call `done` of every job that has ended, was cancelled or is late."""
        with self._changed:
            if (running := self._running) is not None and self._is_late(running):
                late = [running, *self._waiting] if running.is_wanted else [*self._waiting]
                self._waiting.clear()
                self.num_timed_out += len(late)
                if running.is_wanted:
                    logger.warning("a disk transfer (%s) did not come back within %.1f s", self.name, self._timeout_s)
                for job in late:
                    job.is_wanted = False
                self._ended += late
            ended = list(self._ended)
            self._ended.clear()
        for job in ended:
            job.done(job.result if job.is_wanted else None)

    def next_deadline(self) -> float | None:
        """When the next `poll` has something to do even if no job ends before: now, if it has already."""
        with self._changed:
            if self._ended:
                return self._clock()
            running = self._running
            if running is None or running.started_at is None or not (running.is_wanted or self._waiting):
                return None
            return running.started_at + self._timeout_s

    def wait(self, timeout_s: float) -> None:
        """Return when some job has ended, or nothing is left to wait for, or so much time is over."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended or not (self._waiting or self._running), timeout_s)

    def close(self) -> None:
        """End the thread after the job it is at; one whose disk hangs is left behind. Jobs that wait are dropped."""
        with self._changed:
            self._is_closed = True
            self._waiting.clear()
            self._changed.notify_all()
            thread = None if self.is_stuck else self._thread
        if thread is not None:
            thread.join(CLOSE_S)

    def _is_late(self, job: Job[Any]) -> bool:
        return job.started_at is not None and self._clock() >= job.started_at + self._timeout_s

    def _main(self) -> None:
        while (job := self._next()) is not None:
            try:
                job.result = job.call()
                failed = False
            except Exception:
                logger.exception("a disk transfer (%s) failed", self.name)
                failed = True
            with self._changed:
                self.num_failed += failed
                self._running = None
                if job.is_wanted:
                    self._ended.append(job)
                self._changed.notify_all()
            # What the job holds, such as a buffer, is not kept until the next one comes.
            del job
            self._wake()

    def _next(self) -> Job[Any] | None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_closed)
            if self._is_closed:
                return None
            job = self._running = self._waiting.popleft()
            job.started_at = self._clock()
            return job


class Transfers:
    """The lanes of one engine. Three, so that neither a slow write nor a hanging read holds up a deletion."""

    def __init__(self, timeout_s: float, clock: Callable[[], float], wake: Callable[[], None]) -> None:
        self.timeout_s = timeout_s
        self.reads = Lane("disk-reads", timeout_s, clock, wake)
        self.writes = Lane("disk-writes", timeout_s, clock, wake)
        self.deletions = Lane("disk-deletions", timeout_s, clock, wake)
        self._lanes = (self.reads, self.writes, self.deletions)

    @property
    def num_jobs(self) -> int:
        return sum(lane.num_jobs for lane in self._lanes)

    @property
    def num_timed_out(self) -> int:
        return sum(lane.num_timed_out for lane in self._lanes)

    @property
    def num_failed(self) -> int:
        return sum(lane.num_failed for lane in self._lanes)

    def poll(self) -> None:
        for lane in self._lanes:
            lane.poll()

    def next_deadline(self) -> float | None:
        """When `poll` should be called even if nothing wakes the engine thread."""
        return min((at for lane in self._lanes if (at := lane.next_deadline()) is not None), default=None)

    def close(self) -> None:
        for lane in self._lanes:
            lane.close()
