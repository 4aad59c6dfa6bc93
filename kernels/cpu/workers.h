// Threads that help with a step, as far as they come to it.
//
// A parallel region of OpenMP ends when every thread has been in it: where another thread has a core, a step waits until the system
// gives that back, a timer tick of 4 ms and more, though nothing is left to do. Here whoever calls goes on as soon as its own part
// is over, which by `team.h` is when all of the work is. A helper that comes late finds it done, or no work at all.
//
// A system may wake a helper where the caller runs, though another core is idle, and it waits behind the caller until somebody looks
// for work, for as long as a short step takes: Linux in a virtual machine does, as KVM reports a core that sleeps as one that is taken
// away (`vcpu_is_preempted`). So helpers are kept off the core that the caller runs on.
#pragma once

#ifdef __linux__
#include <pthread.h>
#include <sched.h>
#endif

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace kvasir {

class Workers {
 public:
  using Work = std::function<void(int thread)>;

  Workers() = default;
  Workers(const Workers&) = delete;
  ~Workers() {
    {
      const std::lock_guard<std::mutex> held(mutex_);
      is_over_ = true;
    }
    changed_.notify_all();
    for (std::thread& helper : helpers_) helper.join();
  }

  // `work(0)` here, and `work(1)` to `work(threads - 1)` each by a thread of its own, if it comes before this returns. Such a
  // thread may still be within `work` then: what that needs must belong to it.
  void run(int threads, const std::shared_ptr<const Work>& work) {
    grow(threads);
    if (threads > 1) {
      keep_off_this_core();
      {
        const std::lock_guard<std::mutex> held(mutex_);
        work_ = work;
        threads_ = threads;
        ++number_;
      }
      changed_.notify_all();
    }
    (*work)(0);
    if (threads > 1) {
      const std::lock_guard<std::mutex> held(mutex_);
      work_ = nullptr;
    }
  }

 private:
  // There may be fewer threads than are asked for, and it works with any number.
  void grow(int threads) {
    try {
      for (int thread = (int)helpers_.size() + 1; thread < threads; ++thread) {
        helpers_.emplace_back([this, thread] { help(thread); });
      }
    } catch (const std::system_error&) {
    }
  }

  // Where there is a core for each. Asked once for each core that the caller comes to, as it costs a microsecond for each helper.
  void keep_off_this_core() {
#ifdef __linux__
    const int core = sched_getcpu();
    if (core < 0 || (core == core_ && kept_off_ == helpers_.size())) return;
    core_ = core;
    kept_off_ = helpers_.size();
    cpu_set_t cores;
    if (pthread_getaffinity_np(pthread_self(), sizeof cores, &cores) != 0) return;
    if ((size_t)CPU_COUNT(&cores) > helpers_.size()) CPU_CLR(core, &cores);
    for (std::thread& helper : helpers_) pthread_setaffinity_np(helper.native_handle(), sizeof cores, &cores);
#endif
  }

  void help(int thread) {
    uint64_t seen = 0;
    while (true) {
      std::shared_ptr<const Work> work;
      {
        std::unique_lock<std::mutex> held(mutex_);
        changed_.wait(held, [&] { return is_over_ || number_ != seen; });
        if (is_over_) return;
        seen = number_;
        if (thread < threads_) work = work_;
      }
      if (work != nullptr) (*work)(thread);
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<const Work> work_;
  int threads_ = 0;
  uint64_t number_ = 0;
  bool is_over_ = false;
  int core_ = -1;
  size_t kept_off_ = 0;
  std::vector<std::thread> helpers_;
};

}  // namespace kvasir
