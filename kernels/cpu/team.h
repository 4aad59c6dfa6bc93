// The threads that compute one step together, from its first operation to its last.
//
// Operations split their work by `Share` and meet at `Team::wait`. One step enters one parallel region: waking threads for
// each of its two hundred operations would take longer than some of them.
#pragma once

#include <immintrin.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace kvasir {

struct Share {
  int thread;
  int threads;

  int64_t first(int64_t items) const { return items * thread / threads; }
  int64_t end(int64_t items) const { return items * (thread + 1) / threads; }
};

class Team {
 public:
  explicit Team(int threads) : threads_(threads) {}

  // Returns when all threads are here. What each wrote before is seen by all after.
  void wait() {
    if (threads_ == 1) return;
    const uint32_t round = round_.load(std::memory_order_relaxed);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) == threads_ - 1) {
      arrived_.store(0, std::memory_order_relaxed);
      round_.store(round + 1, std::memory_order_release);
      return;
    }
    for (int turns = 0; round_.load(std::memory_order_acquire) == round; ++turns) {
      // A thread that waits longer than any operation takes waits for one that is not running: let it.
      if (turns < SPINS) {
        asm volatile("" ::: "memory");
      } else {
        sched_yield();
      }
    }
  }

 private:
  static constexpr int SPINS = 4000;
  const int threads_;
  alignas(64) std::atomic<int> arrived_{0};
  alignas(64) std::atomic<uint32_t> round_{0};
};

}  // namespace kvasir
