"""How many tokens of prompts fit beside the running answers, and how many answers fit into a step, by measured time.

Used by `engine.scheduler`, in the engine thread; `engine.core` reports each step. Pure: durations are handed in.

What a step costs is learned from the steps themselves, on whatever machine this is:

    seconds = fixed + per prompt token + per prompt token and token of its context + per answer + per token of answers' context

A step with answers in it may take as long as the configured target, and at most PATIENCE times as long as each answer's reader is
used to (`engine.pace`): so no stream ever pauses for long beside its usual pace, whatever comes while it runs. Up to there it may
take STRETCH times what the answers alone would; or COMFORT_S, but not more than STRETCH times what a step takes once the prompts
are answers, too. Without answers it takes the whole budget: nobody listens. Without a target so does one whose answers are all
background work.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.config import PAGE_TOKENS

PATIENCE = 2.5
"""Most that a step may take, as a multiple of the pace an answer in it is used to. A reader should never wait 5 times as long as
usual. As much again is for what a step cannot know: another program or machine takes a core for a timer's tick or two, 4 to 10
ms, as long as two steps of a few answers. Beside one answer prompts still get more than half of the machine."""

CROWDING = 2.0
"""Most that other answers alone may slow an answer down, as such a multiple: what is left of PATIENCE is for prompts."""

STRETCH = 3.5
"""Most that a step may take, as a multiple of what its answers alone would, where no answer is used to a quicker pace."""

COMFORT_S = 0.04
"""Nobody reads 25 tokens a second: answers that have never been quicker may take that long, so that others begin the sooner. But
not longer than STRETCH times what a step takes when these prompts have been read and are answered beside the others: that is the
pace which readers get used to then, and by which they measure the pauses before."""

LEAST_SHARE = 0.25
"""Prompt tokens may always take this part of what the answers take, however tight the target: the first token of a new answer
must come, and running ones slow down by no more than that."""

LEAST_RUNNING = 4
"""Answers that may always run together: a target that not even four can meet is a wrong target, and no reason to queue."""

GROWTH = 2
"""A step has at most so many times the prompt tokens, and where others' pace is at stake the answers, of any that was measured:
what eight answers take says little about thirty."""

FORGETTING = 0.98
"""Weight of a measurement after each later step: the last fifty or so decide, so other work on the machine is noticed soon."""

PRIOR_WEIGHT = 1e-3
"""Weight of what was known before, against that of the measurements: what recent steps do not show stays as it was."""

OUTLIER_FACTOR = 3.0
"""A step that took more than so many times what was expected counts as that many: one hiccup changes little, a change stays."""

PACE_WEIGHT = 0.1
"""Weight of the latest step in the pace: how much slower than the learned costs everything is at the moment. The costs follow
slowly, because each needs steps of several kinds; when something else takes the machine, about ten steps tell."""

MAX_PACE = 8.0

LASTING_WEIGHT = 0.005
"""The same for a pace that lasts: what slows some dozens of steps down, as a burst of requests does, is nothing that a reader
has to get used to."""

SOLVE_EVERY = 8
"""Steps without prompts that are measured before the costs are worked out again: they say little that is new, and it takes a
tenth of a millisecond."""

LEAST_S = 1e-6
"""A step that took less was not measured."""

LEAST_CHUNK_TOKENS = 128
"""Prompt tokens that one measured step must have had before the cost of a token is believed for a whole conversation: from a
few short prompts it cannot be told apart from what every step costs, and may come out a hundred times too small."""

LEAST_STEPS = 4
"""Measured steps before the estimate is used; until then the configured budget is."""

_SCALES = (1.0, 256.0, 256.0 * 1024.0, 8.0, 8.0 * 1024.0)
"""Typical sizes of the five numbers, so that the prior weighs alike on each."""


@dataclass(frozen=True, slots=True)
class StepLoad:
    """What a step computes, in the numbers its time depends on.

    `prompt_reads` sums, over the prompt tokens, the tokens of context that each looks at; `answer_reads` does so for answers.
    """

    prompt_tokens: int = 0
    prompt_reads: int = 0
    answers: int = 0
    answer_reads: int = 0

    def with_prompt(self, tokens: int, context_tokens: int) -> StepLoad:
        """The same with a chunk of prompt that begins after `context_tokens`."""
        reads = tokens * context_tokens + tokens * (tokens + 1) // 2
        return StepLoad(self.prompt_tokens + tokens, self.prompt_reads + reads, self.answers, self.answer_reads)

    def with_answer(self, context_tokens: int) -> StepLoad:
        """The same with one more answer of so many tokens."""
        return StepLoad(self.prompt_tokens, self.prompt_reads, self.answers + 1, self.answer_reads + context_tokens)


class StepSize:
    """Owns the estimate. `target_s` None means: no target, only STRETCH."""

    def __init__(self, max_step_tokens: int, target_s: float | None = None) -> None:
        self._max_step_tokens = max_step_tokens
        self._target_s = target_s
        self._costs = [0.0] * len(_SCALES)
        self._unit_costs = [0.0] * len(_SCALES)
        self._products = [[0.0] * len(_SCALES) for _ in _SCALES]
        self._moments = [0.0] * len(_SCALES)
        self._unsolved = 0
        self._pace = self._lasting_pace = 1.0
        self._steps = 0
        self._most_answers = LEAST_RUNNING
        self._most_prompt_tokens = 0
        """The most of each in one step so far."""

    def observe(self, load: StepLoad, seconds: float) -> None:
        """A step with this load took this long. A clock that stood still measured nothing."""
        if seconds < LEAST_S:
            return
        if self._is_known:
            expected = max(self.seconds(load), LEAST_S)
            seconds = min(max(seconds, expected / OUTLIER_FACTOR), expected * OUTLIER_FACTOR)
        # Divided by the time, so that a short step counts as much as a long one: it is relative errors that matter.
        row = [number / seconds for number in _numbers(load)]
        for place, number in enumerate(row):
            self._moments[place] = FORGETTING * self._moments[place] + number
            self._products[place] = [
                FORGETTING * old + number * other for old, other in zip(self._products[place], row, strict=True)
            ]
        self._unsolved += 1
        if load.prompt_tokens or not self._is_known or self._unsolved >= SOLVE_EVERY:
            self._costs, self._unsolved = self._solve(), 0
            self._unit_costs = [cost / scale for cost, scale in zip(self._costs, _SCALES, strict=True)]
        pace = min(MAX_PACE, seconds / max(self._unpaced_seconds(load), LEAST_S))
        self._pace += PACE_WEIGHT * (pace - self._pace)
        self._lasting_pace += LASTING_WEIGHT * (pace - self._lasting_pace)
        self._steps += 1
        self._most_answers = max(self._most_answers, load.answers)
        self._most_prompt_tokens = max(self._most_prompt_tokens, load.prompt_tokens)

    def seconds(self, load: StepLoad) -> float:
        """What a step with this load is expected to take; 0 before anything was measured."""
        return self._pace * self._unpaced_seconds(load)

    def lasting_seconds(self, load: StepLoad) -> float:
        """The same, as far as everything has been slower for long."""
        return min(self._pace, self._lasting_pace) * self._unpaced_seconds(load)

    @property
    def knows_prompts(self) -> bool:
        """Whether what a long prompt takes can be told from what was measured."""
        return self._is_known and self._most_prompt_tokens >= LEAST_CHUNK_TOKENS

    def prompt_tokens(
        self,
        answers: StepLoad,
        context_tokens: int,
        usual_s: float | None = None,
        *,
        later: StepLoad | None = None,
        is_watched: bool = True,
    ) -> int:
        """Most prompt tokens to compute beside `answers`, for prompts that are `context_tokens` far.

        A page or a multiple of it, as far as the budget reaches; half a page where one takes too long already, and at least
        LEAST_SHARE of the time.
        `usual_s` is the pace that the quickest of the answers is used to, and `later` what a step is going to be when the prompts
        are answered. Where nobody watches any of the answers, only the target limits the step.
        """
        most = max(1, self._max_step_tokens - answers.answers)
        limit_s = (
            self._limit_s(answers, later or answers, usual_s) if is_watched or self._target_s is not None else None
        )
        if limit_s is None:
            return most
        most = min(most, max(PAGE_TOKENS, GROWTH * self._most_prompt_tokens))
        if self.seconds(answers.with_prompt(PAGE_TOKENS, context_tokens)) > limit_s:
            return min(most, PAGE_TOKENS // 2)
        fits, too_many = 1, -(-most // PAGE_TOKENS) + 1
        while too_many - fits > 1:
            middle = (fits + too_many) // 2
            if self.seconds(answers.with_prompt(middle * PAGE_TOKENS, context_tokens)) <= limit_s:
                fits = middle
            else:
                too_many = middle
        return min(most, fits * PAGE_TOKENS)

    def may_join(self, answers: StepLoad, context_tokens: int, usual_s: float | None = None) -> bool:
        """Whether one more answer of `context_tokens` leaves the others their pace, and room for a page of prompt within the
        target."""
        if (self._target_s is None and usual_s is None) or answers.answers < LEAST_RUNNING:
            return True
        if answers.answers >= GROWTH * self._most_answers:
            return False
        if not self._is_known:
            return True
        joined = answers.with_answer(context_tokens)
        if usual_s is not None and self.seconds(joined) > CROWDING * usual_s:
            return False
        with_page_s = self.seconds(joined.with_prompt(PAGE_TOKENS, context_tokens))
        return self._target_s is None or with_page_s <= self._target_s

    def _unpaced_seconds(self, load: StepLoad) -> float:
        fixed, prompt_token, prompt_read, answer, answer_read = self._unit_costs
        prompt_s = load.prompt_tokens * prompt_token + load.prompt_reads * prompt_read
        return fixed + prompt_s + load.answers * answer + load.answer_reads * answer_read

    @property
    def _is_known(self) -> bool:
        return self._steps >= LEAST_STEPS

    def _limit_s(self, answers: StepLoad, later: StepLoad, usual_s: float | None) -> float | None:
        """How long a step with these answers may take; None where nothing limits it."""
        if not answers.answers or not self._is_known:
            return None
        alone_s = self.seconds(answers)
        most_s = max(min(COMFORT_S, STRETCH * self.seconds(later)), STRETCH * alone_s)
        if usual_s is not None:
            most_s = min(most_s, PATIENCE * usual_s)
        if self._target_s is not None:
            most_s = min(most_s, self._target_s)
        return max(most_s, (1.0 + LEAST_SHARE) * alone_s)

    def _solve(self) -> list[float]:
        """The costs that explain the measurements best and are near what was known before; none of them is negative."""
        traces = [self._products[place][place] for place in range(len(_SCALES))]
        weight = PRIOR_WEIGHT * max(sum(traces) / len(traces), 1e-12)
        costs = dict.fromkeys(range(len(_SCALES)), 0.0)
        used = list(costs)
        while used:
            matrix = [
                [self._products[row][column] + (weight if row == column else 0.0) for column in used] for row in used
            ]
            solved = solve(matrix, [self._moments[place] + weight * self._costs[place] for place in used])
            if min(solved) >= 0.0:
                costs.update(zip(used, solved, strict=True))
                break
            used = [place for place, cost in zip(used, solved, strict=True) if cost > 0.0]
        return list(costs.values())


def solve(matrix: list[list[float]], right: list[float]) -> list[float]:
    """The solution of a small system of equations whose matrix is symmetric and positive: no row has to be exchanged."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for place, pivot in enumerate(rows):
        for below in rows[place + 1 :]:
            factor = below[place] / pivot[place]
            for column in range(place, len(pivot)):
                below[column] -= factor * pivot[column]
    solution = [0.0] * len(rows)
    for place in reversed(range(len(rows))):
        row = rows[place]
        known = sum(row[column] * solution[column] for column in range(place + 1, len(rows)))
        solution[place] = (row[-1] - known) / row[place]
    return solution


def _numbers(load: StepLoad) -> list[float]:
    values = (1, load.prompt_tokens, load.prompt_reads, load.answers, load.answer_reads)
    return [value / scale for value, scale in zip(values, _SCALES, strict=True)]
