// Functions of single files of hooks that other files of hooks call to make records.
#pragma once

#include <sys/uio.h>

#include "session/own_descriptors.h"
#include "session/record.h"

struct iocb;
struct io_event;

namespace tailrace {

// hooks/open.cc. A call that opens `path` (null where the descriptor has none); after a failure fd is negative.
void record_open(const Call &call, Fn fn, int fd, int dirfd, const char *path, int flags);
// A call that makes a descriptor without a named file.
void record_made(const Call &call, Fn fn, int fd);
// A call that duplicates a descriptor.
void record_dup(const Call &call, Fn fn, int oldfd, int newfd);
// Two new descriptors that are each other's peer.
void record_pair(const Call &call, Fn fn, const int fds[2], int ret);
// After F_SETFL: in append mode only the kernel has the position.
void set_appending(int fd, int flags);

// After close(2) failed: who closes what is not open may close what is ours (session/own_descriptors.h).
inline void note_failed_close(int fd) {
  if (fd >= 0 && errno == EBADF) note_sweep();
}

// hooks/meta.cc. A call on a file by name.
void record_named(const Call &call, Fn fn, int dirfd, const char *path, int64_t ret, Lookup lookup);

// hooks/locks.cc. A call of fcntl(2) that locks bytes of a file or releases them; `real` is the function that the
// program would have called. What waits tests for cancellation before.
using FcntlFunction = int(int, int, ...);
int lock_by_fcntl(Fn fn, int fd, int command, void *argument, FcntlFunction *real);
void record_flock(const Call &call, int fd, int operation, int64_t ret);

// hooks/map.cc. At the end of the process, with which its shared writable mappings end.
void record_remaining_maps();

// hooks/aio.cc. Results of asynchronous requests that the program has not asked for; before it ends or executes a
// program.
void settle_aio();

// hooks/libaio.cc. Before and after io_submit(2), with -errno as the result of a failure; and after io_getevents(2).
void expect_requests(const Call &call, long count, struct iocb **list);
void record_submit(const Call &call, long result);
void record_results(const Call &call, const struct io_event *results, long count);
// Copies memory of the program that may be unmapped; false if it is.
bool copy_if_readable(void *to, const struct iovec *from, size_t parts, size_t bytes);
// Whether what a call is given by this pointer is surely there: on the caller's stack.
bool is_on_callers_stack(const void *at, size_t bytes);

// hooks/uring.cc. After io_uring_setup(2).
void record_ring_setup(const Call &call, long fd);

// The bytes that a truncation cut off a file of `before` bytes.
inline uint64_t cut_off(int64_t before, int64_t size, int ret) {
  return ret == 0 && before > size ? static_cast<uint64_t>(before - size) : 0;
}

inline uint64_t bytes_of(const struct iovec *parts, uint64_t n, int64_t ret) {
  // After a failure the pointer may be bad.
  if (ret < 0) return kNoCount;
  uint64_t sum = 0;
  for (uint64_t i = 0; i < n && i < 1024; ++i) sum += parts[i].iov_len;
  return sum;
}

// The offset that a copying call got by pointer, as it was before the call advanced it. A call that moved nothing may
// not have read the pointer, so that it may be bad.
template <class Offset>
int64_t given_offset(const Offset *at, int64_t ret) {
  if (!at) return kHere;
  return ret > 0 ? static_cast<int64_t>(*at) - ret : kNowhere;
}

}  // namespace tailrace
