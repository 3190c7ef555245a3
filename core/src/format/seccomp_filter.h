// What a seccomp filter does to the calls that the core makes itself. The filter is asked: it is a small program
// without loops (seccomp(2), "SECCOMP_SET_MODE_FILTER"), and is run here for each of these calls, along every way that
// it may take by what isn't known of the call, its arguments.
#pragma once

#include <linux/filter.h>
#include <stddef.h>

namespace tailrace {

struct FilterVerdict {
  bool deadly = false;   // some call of ours ends the process, disturbs it, or is said to be done and is not
  bool refuses = false;  // some call of ours fails
};

// `code` has been taken by the kernel, or will be: what it would not take is deadly.
FilterVerdict examine_filter(const struct sock_filter *code, size_t count);

// How many filters the kernel says that this thread is under; -1 where it doesn't say, more than any number where the
// question was refused. No more is called than the dynamic linker has called to load this library: openat, read, close.
// The bytes that were read are added to `read_bytes`.
long count_filters(long &read_bytes);

}  // namespace tailrace
