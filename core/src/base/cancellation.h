// Disables thread cancellation for a scope. The core has no exceptions, so a cancelled call would skip its clean-up.
#pragma once

#include <pthread.h>

namespace tailrace {

class CancellationOff {
 public:
  CancellationOff() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~CancellationOff() { pthread_setcancelstate(before_, nullptr); }
  CancellationOff(const CancellationOff &) = delete;
  CancellationOff &operator=(const CancellationOff &) = delete;

 private:
  int before_;
};

}  // namespace tailrace
