// What a seccomp filter does to the core's own system calls. A filter is a small program without loops (seccomp(2),
// "SECCOMP_SET_MODE_FILTER"). It is interpreted here for each of these calls, along every path that the call's unknown
// arguments allow.
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

// The number of filters that this thread is under, by the kernel; -1 where it doesn't report one, LONG_MAX where the
// query was refused. Makes only system calls that the dynamic linker has made to load this library: openat, read,
// close. Adds the bytes read to `read_bytes`.
long count_filters(long &read_bytes);

}  // namespace tailrace
