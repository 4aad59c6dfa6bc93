from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.ageing import AGEING_S, OVERDUE, overdue_after_s, rank
from engine.fair_shares import Account, FairShares, account_of
from engine.types import Namespace, Priority
from engine.waiting_queue import MAX_TIMES_PASSED, WaitingQueue

INTERACTIVE, BOT, BACKGROUND = Priority.INTERACTIVE, Priority.BOT, Priority.BACKGROUND


@dataclass(eq=False)
class Request:
    arrival: int
    queued_at: float
    priority: Priority
    account: Account | None
    num_prompt_tokens: int
    num_preemptions: int = 0
    times_passed: int = 0
    starts: list[float] = field(default_factory=list)


class Line:
    """A queue, and the arrivals to it."""

    def __init__(self) -> None:
        self.shares = FairShares()
        self.queue: WaitingQueue[Request] = WaitingQueue(self.shares)
        self.now = 0.0
        self.arrivals = 0

    def add(self, user: str | None = "anna", priority: Priority = INTERACTIVE, prompt: int = 100) -> Request:
        account = account_of(None if user is None else Namespace.user(user))
        request = Request(self.arrivals, self.now, priority, account, prompt)
        self.arrivals += 1
        self.shares.enter(account)
        self.queue.add(request)
        return request

    def start_next(self) -> Request:
        request = self.queue.in_order(self.now)[0]
        self.start(request)
        return request

    def start(self, request: Request) -> None:
        self.queue.start(request, self.now)
        request.starts.append(self.now)

    def answer(self, request: Request, tokens: int) -> None:
        self.shares.serve(request.account, tokens)

    def finish(self, request: Request) -> None:
        self.shares.leave(request.account)

    def preempt(self, request: Request) -> None:
        request.num_preemptions += 1
        self.queue.add(request)

    def order(self) -> list[int]:
        return numbers(self.queue.in_order(self.now))


def numbers(requests: Iterable[Request]) -> list[int]:
    return [request.arrival for request in requests]


def test_the_classes_go_one_after_the_other_and_in_a_class_by_arrival() -> None:
    line = Line()
    for priority in (BACKGROUND, BOT, INTERACTIVE, BACKGROUND, BOT, INTERACTIVE):
        line.add(priority=priority)
    assert line.order() == [2, 5, 1, 4, 0, 3]


@pytest.mark.parametrize("priority", Priority)
def test_waiting_lifts_a_request_by_a_class_and_at_last_before_all(priority: Priority) -> None:
    ranks = [rank(priority, steps * AGEING_S) for steps in range(5)]
    assert ranks == [max(OVERDUE, ranks[0] - steps) for steps in range(5)]
    assert rank(priority, overdue_after_s(priority)) == OVERDUE < rank(priority, overdue_after_s(priority) - 0.001)


def test_background_work_that_has_waited_goes_before_people_who_have_just_come() -> None:
    line = Line()
    old = line.add("bot", BACKGROUND)
    line.now = overdue_after_s(BACKGROUND)
    line.add("anna", INTERACTIVE)
    assert line.start_next() is old


def test_one_account_with_many_requests_does_not_push_another_back() -> None:
    line = Line()
    hog = [line.add("hog") for _ in range(100)]
    line.start_next()
    late = line.add("anna")
    assert line.order()[0] == late.arrival
    assert line.start_next() is late
    assert line.start_next() is hog[1]


def test_two_accounts_that_always_wait_get_the_same_number_of_tokens() -> None:
    line = Line()
    for _ in range(200):
        line.add("short", prompt=50)
        line.add("long", prompt=400)
    got = {"short": 0, "long": 0}
    for _ in range(100):
        request = line.start_next()
        assert request.account is not None
        got[request.account.name] += request.num_prompt_tokens
    assert abs(got["short"] - got["long"]) <= 400


def test_the_tokens_of_an_answer_count_like_those_of_a_prompt() -> None:
    line = Line()
    talker = line.add("talker", prompt=10)
    line.start(talker)
    line.add("talker", prompt=10)
    line.add("anna", prompt=200)
    line.add("anna", prompt=200)
    line.answer(talker, 300)
    assert line.order() == [2, 3, 1]


def test_being_away_gives_no_credit() -> None:
    line = Line()
    for _ in range(50):
        line.add("busy", prompt=100)
    for _ in range(20):
        line.finish(line.start_next())
    early = [line.add("early", prompt=100) for _ in range(4)]
    first_six = line.order()[:6]
    assert sum(number in numbers(early) for number in first_six) <= 4
    assert set(first_six) - set(numbers(early))


def test_what_was_served_before_is_not_forgotten_by_leaving_for_a_moment() -> None:
    line = Line()
    for user in ("anna", "bert"):
        line.add(user)
        line.add(user)
    hog = line.add("hog", prompt=5000)
    line.start(hog)
    line.finish(hog)
    line.add("hog", prompt=10)
    assert line.order()[-1] == 5


def test_a_line_of_ever_new_accounts_does_not_starve_an_old_one() -> None:
    line = Line()
    line.start(line.add("old", prompt=2000))
    waiting = line.add("old", prompt=10)
    newcomers = 0
    while not waiting.starts:
        newcomers += 1
        line.add(f"new {newcomers}")
        line.finish(line.start_next())
        assert newcomers < 100


def test_parts_of_a_namespace_share_the_account_of_their_owner() -> None:
    """Clients choose the part; whoever sends a new one each time would otherwise be served without end."""
    assert account_of(Namespace.user("key", "customer 1")) == account_of(Namespace.user("key", "customer 2"))
    assert account_of(Namespace.user("key")) != account_of(Namespace.user("other"))
    assert account_of(Namespace.public()) != account_of(Namespace.user(""))


def test_requests_without_a_namespace_share_one_account() -> None:
    line = Line()
    for _ in range(3):
        line.add(None)
    line.start_next()
    named = line.add("anna")
    assert line.order()[0] == named.arrival


def test_accounts_that_are_gone_are_forgotten() -> None:
    line = Line()
    stays = line.add("stays", prompt=1)
    line.start(stays)
    for number in range(3000):
        line.add(f"visitor {number}", prompt=300)
        line.finish(line.start_next())
        assert line.shares.num_accounts <= 8
    line.finish(stays)
    assert line.shares.num_accounts == 0


def test_a_preempted_request_goes_before_any_later_one_of_its_class() -> None:
    """vllm-project/vllm#41951: newer arrivals kept overtaking a preempted request."""
    line = Line()
    hog = line.add("hog", BOT, prompt=5000)
    line.start(hog)
    line.preempt(hog)
    line.now = 1.0
    later = [line.add("anna", BOT, prompt=1), line.add("bert", BOT, prompt=1)]
    person = line.add("cem", INTERACTIVE)
    assert line.order() == [person.arrival, hog.arrival, *numbers(later)]


def test_one_that_was_passed_often_enough_goes_next() -> None:
    """vllm-project/vllm#31731"""
    line = Line()
    blocked = line.add("hog", prompt=5000)
    line.add("anna", prompt=1)
    for _ in range(MAX_TIMES_PASSED):
        line.queue.count_pass(blocked)
    line.shares.serve(blocked.account, 10_000)
    assert line.order()[0] == blocked.arrival


def test_the_order_changes_nothing_and_is_the_same_again() -> None:
    line = Line()
    rng = random.Random(1)
    for _ in range(60):
        line.add(rng.choice("abc"), rng.choice(list(Priority)), rng.randint(1, 500))
    assert line.order() == line.order()
    assert sorted(line.order()) == list(range(60))


def test_a_request_that_does_not_wait_cannot_be_removed() -> None:
    line = Line()
    request = line.add()
    line.queue.remove(request)
    with pytest.raises(KeyError):
        line.queue.remove(request)
    with pytest.raises(KeyError):
        line.queue.remove(Request(9, 0.0, BOT, None, 1, num_preemptions=1))


events = st.lists(
    st.tuples(
        st.sampled_from(["arrive", "start", "skip", "preempt", "finish", "cancel", "time"]),
        st.integers(0, 3),
        st.sampled_from(list(Priority)),
        st.integers(1, 800),
    ),
    max_size=120,
)


@given(events)
@settings(max_examples=150, deadline=None)
def test_any_history_keeps_the_rules_of_the_order(history: list[tuple[str, int, Priority, int]]) -> None:
    line = Line()
    running: list[Request] = []
    for what, number, priority, amount in history:
        order = line.queue.in_order(line.now)
        check_rules(order, line.now)
        if what == "arrive":
            line.add([None, "anna", "bert", "cem"][number], priority, amount)
        elif what == "start" and order:
            line.start(order[0])
            running.append(order[0])
        elif what == "skip" and len(order) > 1:
            # The first one does not fit; the second starts, unless the first may not be passed.
            if not (order[0].num_preemptions or order[0].times_passed >= MAX_TIMES_PASSED):
                line.start(order[1])
                running.append(order[1])
                line.queue.count_pass(order[0])
        elif what == "preempt" and running:
            line.preempt(running.pop(amount % len(running)))
        elif what == "finish" and running:
            request = running.pop(amount % len(running))
            line.answer(request, amount)
            line.finish(request)
        elif what == "cancel" and order:
            request = order[amount % len(order)]
            line.queue.remove(request)
            line.finish(request)
        elif what == "time":
            line.now += amount / 40
        assert len(line.queue) == len(list(line.queue)) == sum(count for _, count in line.queue.count_by_priority())
    for request in [*running, *line.queue]:
        line.finish(request)
    assert line.shares.num_accounts == 0


def check_rules(order: list[Request], now: float) -> None:
    place = {id(request): position for position, request in enumerate(order)}
    assert len(place) == len(order)
    by_arrival = sorted(order, key=lambda request: request.arrival)
    for index, earlier in enumerate(by_arrival):
        for later in by_arrival[index + 1 :]:
            if earlier.priority is not later.priority:
                continue
            same_account = earlier.account == later.account
            if earlier.num_preemptions or (same_account and not later.num_preemptions and not later.times_passed):
                assert place[id(earlier)] < place[id(later)]


@given(st.integers(0, 2**32), st.integers(1, 6), st.floats(0.05, 8.0), st.floats(0.2, 2.0))
@settings(max_examples=60, deadline=None)
def test_nothing_starves_under_any_lasting_load(seed: int, accounts: int, service_s: float, load: float) -> None:
    """Once the first of a lane is overdue, each other lane starts at most one request before it."""
    rng = random.Random(seed)
    line = Line()
    may_start_before: dict[Request, int] = {}
    for step in range(150):
        while line.arrivals < load * step:
            user = f"user {rng.randrange(accounts)}" if rng.random() < 0.8 else f"guest {line.arrivals}"
            line.add(user, rng.choices(list(Priority), [6, 2, 1])[0], rng.randint(1, 3000))
        for lane in line.queue._lanes.values():
            first = lane.sequences[0]
            if line.now - max(first.queued_at, lane.last_start_at) >= overdue_after_s(first.priority):
                may_start_before.setdefault(first, len(line.queue._lanes) - 1)
        if len(line.queue):
            started = line.start_next()
            line.finish(started)
            may_start_before.pop(started, None)
            for overdue in may_start_before:
                may_start_before[overdue] -= 1
            assert min(may_start_before.values(), default=0) >= 0
        line.now += service_s
