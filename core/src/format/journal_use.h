// Whether a process may still write to a journal. In the caller's own pid namespace the pid tells; in another one, and
// of reserve segments, which have no process of their own, a lease on the file does.
//
// Invariant: by leases a journal is unused only when it was unmapped at two looks that lie kBetweenLooksNs apart,
// because a process has no mappings for a moment during execve. No look waits for the next one: its caller does, once
// for as many journals as it has (format/unmapped_journals.h).
#pragma once

#include "format/journal.h"

namespace tailrace {

// A read lease (fcntl(2)). The kernel grants it only where no process, in whatever namespace, has the file mapped or
// open for writing, and who opens it for writing then waits until the lease is given back.
class ReadLease {
 public:
  explicit ReadLease(int read_only_fd);
  ~ReadLease();
  ReadLease(const ReadLease &) = delete;
  ReadLease &operator=(const ReadLease &) = delete;
  // False also where it can't be told.
  bool is_granted() const { return is_granted_; }

 private:
  int fd_;
  bool is_granted_ = false;
};

// Whether any process has the file mapped or open for writing; true where it can't be told.
bool is_mapped(int read_only_fd);

constexpr uint64_t kBetweenLooksNs = 20'000'000;

// Of a journal that was unmapped. Its path may be another file's at the second look.
struct FirstLook {
  uint64_t at_ns = 0;  // monotonic; 0: there was none
  uint64_t dev = 0;
  uint64_t ino = 0;
  int64_t btime_ns = 0;
};

// kUnmapped: it takes a second look.
enum class Use { kNone, kUnmapped, kInUse };

// `first`: of an earlier look; where that is none, of another file, or not long enough ago, kUnmapped in the place of
// kNone. Then it is the one that the next look has to keep its distance from; it is none where the pid tells.
Use use_of(const SegmentHeader &segment, int read_only_fd, FirstLook &first);

// Whether the open file is that of the look.
bool was_looked_at(const FirstLook &look, int fd);

// Until a second look may be made.
void wait_between_looks(uint64_t first_look_ns);

}  // namespace tailrace
