"""Where the time of a step goes that is not the kernels': CPU time of the engine's thread, phase by phase.

    python -m tests.bench.step_profile MODEL_FOLDER --kernels .cache/kernels [--streams 1 8 32] [--steps 200] [--temperature 0]

Every stream decodes in a session of its own, with the usual tiers. Each phase is without those it contains. Printed is the median
of the steps in microseconds of CPU time, which a busy machine changes little, and the sum of all but the kernels.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from engine import runner as runner_module
from engine.answer_text import AnswerText
from engine.assembly import assemble
from engine.config import EngineConfig
from engine.core import Engine
from engine.model.loader import load_model
from engine.types import EngineState, GenerationRequest, Namespace, RequestId, Role, SamplingParams, Turn

KERNELS = "kernels"
PROMPT = "Tell a story with a river, a stone, a lamp and a violin in it, and do not be short about any of them."


@dataclass
class Phases:
    """Seconds of CPU time in each phase of the step that runs, and of the steps before."""

    now: dict[str, float] = field(default_factory=dict)
    steps: list[dict[str, float]] = field(default_factory=list)
    _within: list[float] = field(default_factory=list)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        self._within.append(0.0)
        begun = time.thread_time()
        try:
            yield
        finally:
            spent = time.thread_time() - begun
            self.now[name] = self.now.get(name, 0.0) + spent - self._within.pop()
            if self._within:
                self._within[-1] += spent

    def wrap(self, owner: Any, attribute: str, name: str) -> None:
        """Have calls of this count as the phase."""
        original: Callable[..., Any] = getattr(owner, attribute)

        def measured(*arguments: Any, **more: Any) -> Any:
            with self.phase(name):
                return original(*arguments, **more)

        setattr(owner, attribute, measured)

    def end_step(self) -> None:
        self.steps.append(self.now)
        self.now = {}

    def medians(self) -> dict[str, float]:
        """Microseconds of each phase, the longest first, the kernels last."""
        names = {name for step in self.steps for name in step}
        times = {name: median(step.get(name, 0.0) for step in self.steps) * 1e6 for name in names}
        return dict(sorted(times.items(), key=lambda item: (item[0] == KERNELS, -item[1])))


class Profile:
    """One engine, stepped from here, whose phases are measured, and a loop in another thread that takes its events."""

    def __init__(self, config: EngineConfig) -> None:
        loaded = load_model(config)
        self.engine: Engine
        self.engine, self.ready = assemble(
            config, loaded, clock=time.monotonic, wake=lambda: None, on_progress=lambda words: None
        )
        self.phases = Phases()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        engine = self.engine
        self.phases.wrap(runner_module, "forward_batch", "batch layout")
        self.phases.wrap(loaded.decoder, "forward", KERNELS)
        self.phases.wrap(AnswerText, "push", "text")
        for owner, attribute, name in (
            (engine._memory, "tend", "memory"),
            (engine._scheduler, "advance", "publish"),
            (engine._runner._layout, "following", "batch layout"),
            (engine, "_schedule", "schedule"),
            (engine._runner._sampler, "sample", "sampling"),
            (engine, "_postprocess", "postprocess"),
        ):
            self.phases.wrap(owner, attribute, name)
        self._names = 0

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def step(self) -> None:
        with self.phases.phase("step"):
            events = self.engine.step()
        with self.phases.phase("stats"):
            self.engine.stats(EngineState.READY, 1)
        with self.phases.phase("hand-over"):
            self._loop.call_soon_threadsafe(len, events)

    def decode(self, streams: int, steps: int, sampling: SamplingParams) -> dict[str, float]:
        """So many steps in which every stream gets a token."""
        engine, names = self.engine, []
        for _ in range(streams):
            self._names += 1
            names.append(RequestId(f"stream-{self._names}"))
            turns = (Turn(Role.USER, f"{self._names}. {PROMPT}"),)
            request = GenerationRequest(
                names[-1], turns, sampling, namespace=Namespace.user(f"user {self._names}"), session="profile"
            )
            engine.submit(request, self.ready.tokenizer.encode_turns(turns), time.monotonic())
        while len(engine._scheduler.running) < streams or any(
            sequence.num_pending > 1 for sequence in engine._scheduler.running
        ):
            self.step()
        for _ in range(10):
            self.step()
        self.phases.now, self.phases.steps = {}, []
        for _ in range(steps):
            self.step()
            self.phases.end_step()
        for name in names:
            engine.cancel(name)
        engine.step()
        return self.phases.medians()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--kernels", type=Path, default=None, help="folder of the compiled kernels")
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--top-p", type=float, default=1.0)
    arguments = parser.parse_args()
    sampling = SamplingParams(
        temperature=arguments.temperature, top_p=arguments.top_p, ignore_eos=True, max_tokens=arguments.steps + 100
    )
    with tempfile.TemporaryDirectory() as folder:
        profile = Profile(
            EngineConfig(
                arguments.model,
                "profile",
                kernels_folder=arguments.kernels,
                threads=1,
                host_memory_bytes=1 << 28,
                disk_folder=Path(folder) / "kv",
            )
        )
        try:
            results = {streams: profile.decode(streams, arguments.steps, sampling) for streams in arguments.streams}
        finally:
            profile.close()
    print("CPU time in µs a step".ljust(24), *(f"{streams:>5} streams" for streams in results))
    for name in max(results.values(), key=len):
        print(name.ljust(24), *(f"{medians.get(name, 0.0):13.0f}" for medians in results.values()))
    rest = (sum(medians.values()) - medians[KERNELS] for medians in results.values())
    print("all but the kernels".ljust(24), *(f"{time_us:13.0f}" for time_us in rest))


if __name__ == "__main__":
    main()
