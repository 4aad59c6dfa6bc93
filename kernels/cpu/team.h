// The threads that compute one step together, from its first operation to its last.
//
// A step wakes its threads once (`workers.h`): to do so for each of its two hundred operations would take longer than some of
// them. From there on an operation's items are an equal share for each thread, one after the other as they lie in memory, and each
// share is claimed in small runs, by its thread and then by whoever has finished his own. The operation is over when all its
// items are done. So a thread that the system has put to sleep holds up the others by the run it has claimed, and not by its
// share of everything; when it comes back it skips what has been done without it.
#pragma once

#include <immintrin.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

namespace kvasir {

struct Share {
  int64_t first, end;
};

class Team {
 public:
  Team(int threads, int64_t operations) : threads_(threads), next_(operations * threads), done_(operations) {}

  int threads() const { return threads_; }

  // The items of a thread's own share: what it begins with.
  Share share_of(int thread, int64_t items) const { return {items * thread / threads_, items * (thread + 1) / threads_}; }

  // `work(first, end)` for runs of the items of operation number `operation`; returns when all items are done, and what was
  // written for them is seen. All threads call it for the same operations in the same order.
  template <class Work>
  void share(int thread, int64_t operation, int64_t items, const Work& work) {
    for (int turn = 0; turn < threads_; ++turn) {
      const int whose = (thread + turn) % threads_;
      const Share share = share_of(whose, items);
      const int64_t run = std::max<int64_t>(1, (share.end - share.first) / RUNS_EACH);
      std::atomic<int64_t>& next = next_[operation * threads_ + whose].count;
      for (int64_t first; (first = share.first + next.fetch_add(run, std::memory_order_relaxed)) < share.end;) {
        const int64_t end = std::min(first + run, share.end);
        work(first, end);
        if (done_[operation].count.fetch_add(end - first, std::memory_order_seq_cst) + end - first == items) wake();
      }
    }
    wait(done_[operation], items);
  }

 private:
  static constexpr int RUNS_EACH = 4;
  // About 30 microseconds: longer than a run takes, so whoever still waits waits for a thread that is not running. Asleep, it
  // leaves that one its core.
  static constexpr uint64_t SPIN_CYCLES = 100'000;

  struct alignas(64) Counter {
    std::atomic<int64_t> count{0};
  };

  void wait(const Counter& done, int64_t items) {
    const auto is_done = [&] { return done.count.load(std::memory_order_seq_cst) >= items; };
    if (is_done()) return;
    const uint64_t begun = __rdtsc();
    while (__rdtsc() - begun < SPIN_CYCLES) {
      if (is_done()) return;
    }
    sleepers_.fetch_add(1);
    while (true) {
      const uint32_t seen = finished_.load();
      if (is_done()) break;
      syscall(SYS_futex, &finished_, FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
    }
    sleepers_.fetch_sub(1);
  }

  void wake() {
    finished_.fetch_add(1);
    if (sleepers_.load() > 0) syscall(SYS_futex, &finished_, FUTEX_WAKE_PRIVATE, threads_, nullptr, nullptr, 0);
  }

  const int threads_;
  std::vector<Counter> next_, done_;
  alignas(64) std::atomic<uint32_t> finished_{0};
  alignas(64) std::atomic<int> sleepers_{0};
};

}  // namespace kvasir
