// A buffer for a path that is not on the caller's stack: a traced call may run on a signal stack of 8 KiB or in a
// thread with 16 KiB.
#pragma once

#include "format/journal.h"

namespace tailrace {

struct Thread;

constexpr unsigned kPathBuffersPerThread = 4;

// One of the thread's own, last in, first out (a signal handler takes the next); when all are in use, pages of its own.
// In a vfork child those of the thread that waits for it (after_vfork).
class PathBuffer {
 public:
  PathBuffer();
  // Of the thread that a task records beside.
  explicit PathBuffer(Thread *thread);
  ~PathBuffer();
  PathBuffer(const PathBuffer &) = delete;
  PathBuffer &operator=(const PathBuffer &) = delete;
  char *data() const { return data_; }

 private:
  Thread *thread_;
  char *data_;
};

}  // namespace tailrace
