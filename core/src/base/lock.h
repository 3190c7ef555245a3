// A mutex of one word over futex(2). It is in memory that fork wipes (session/session.h), so a child never inherits a
// lock that another thread of its parent held. Take it only with signals blocked: Locked does both.
#pragma once

#include <linux/futex.h>

#include <atomic>

#include "base/sys.h"

namespace tailrace {

class Lock {
 public:
  void lock() {
    uint32_t expected = 0;
    if (word_.compare_exchange_strong(expected, 1, std::memory_order_acquire)) return;
    // 2: a thread may be sleeping; the unlocker of a 2 wakes one.
    while (word_.exchange(2, std::memory_order_acquire) != 0) {
      sys::futex(&word_, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 2);
    }
  }
  void unlock() {
    if (word_.exchange(0, std::memory_order_release) == 2) sys::futex(&word_, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1);
  }
  bool is_free() const { return word_.load(std::memory_order_relaxed) == 0; }

 private:
  std::atomic<uint32_t> word_{0};
};

class Locked {
 public:
  explicit Locked(Lock &lock) : lock_(lock) { lock_.lock(); }
  ~Locked() { lock_.unlock(); }
  Locked(const Locked &) = delete;
  Locked &operator=(const Locked &) = delete;

 private:
  sys::SignalsBlocked signals_;
  Lock &lock_;
};

}  // namespace tailrace
