// The event of a call that libc answers from files of its own, which it opens and reads without a hook: it has the
// call's name and no file, and as its size the kernel's account of the thread around it (LibcCall).
#pragma once

#include <atomic>
#include <type_traits>

#include "session/ledger.h"
#include "session/record.h"

namespace tailrace {

// kBothWays: the bytes that the call moved against its own direction are an event "libc" beside it.
enum class Leave { kAlways, kIfItRead, kBothWays };

void record_libc_call(const Call &call, Fn fn, LibcCall &account, int64_t ret, Leave leave);

template <class T>
int64_t libc_value(T ret) {
  if constexpr (std::is_pointer_v<T>) {
    return ret != nullptr;
  } else {
    return static_cast<int64_t>(ret);
  }
}

template <class Real>
auto in_libc(Fn fn, Leave leave, Real &&real) -> decltype(real()) {
  Call call;
  Thread *t = call.thread();
  if (!t) return real();
  LibcCall account(t);
  if constexpr (std::is_void_v<decltype(real())>) {
    real();
    record_libc_call(call, fn, account, 0, leave);
  } else {
    auto ret = real();
    record_libc_call(call, fn, account, libc_value(ret), leave);
    return ret;
  }
}

// Tells the first call, or the first few, in the process: later ones do not read.
class FirstTimes {
 public:
  explicit constexpr FirstTimes(int times) : times_(times) {}
  bool take() {
    if (__builtin_expect(taken_.load(std::memory_order_relaxed) >= times_, 1)) return false;
    return taken_.fetch_add(1, std::memory_order_relaxed) < times_;
  }
  bool are_over() const { return taken_.load(std::memory_order_relaxed) >= times_; }

 private:
  const int times_;
  std::atomic<int> taken_{0};
};

}  // namespace tailrace
