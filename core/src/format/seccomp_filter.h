// What a seccomp filter does to the core's own system calls. A filter is a small program without loops (seccomp(2),
// "SECCOMP_SET_MODE_FILTER"). It is interpreted here for each of these calls, along every path that the call's unknown
// arguments allow.
//
// Rejected: to give up at any filter, since containers and sandboxes that only refuse calls would all be untraced.
#pragma once

#include <linux/filter.h>
#include <stddef.h>

namespace tailrace {

struct FilterVerdict {
  bool deadly = false;   // a call of the core ends the process, disturbs it, or is reported as done without being done
  bool refuses = false;  // a call of the core fails
};

// `code` must be a filter that the kernel accepts; any other is deadly.
FilterVerdict examine_filter(const struct sock_filter *code, size_t count);

// What the kernel says of this thread at the begin of its program (/proc/self/status).
struct ThreadStatus {
  long filters = -1;  // that it is under; -1: not told, LONG_MAX: the query was refused
  int tracer = 0;     // the process that traces it by ptrace(2); 0: none
};
// Makes only system calls that the dynamic linker has made to load this library: openat, read, close. Adds the bytes
// read to `read_bytes`.
ThreadStatus read_thread_status(long &read_bytes);

}  // namespace tailrace
