// The name of a file that was just opened: the kernel's (/proc/self/fd), which is asked for only where the path that was
// opened is not known to be the same. Asking costs more than the open.
//
//   the path as opened ─► absolute, without "." and "//"
//      ├─ the kernel has given this name to this identity before                    ─► it is the name
//      ├─ its directory is one that the kernel has named, its last part is no link  ─► it is the name
//      └─ else the kernel is asked, and its answer is remembered
//
// Invariants:
// - A name leads to the file: the kernel has just found the file by it (an absolute path, or one below the working
//   directory, which the kernel tells), or is asked whether it would. The name of a descriptor's directory may be an old
//   one, so what is below it is always asked for.
// - A path with ".." is the kernel's to understand: it may have gone through a link.
// - What is remembered says only that a name is free of links. Where another process has put a link in the place of a
//   directory, a file has the name by which it was opened; where this process did, everything is forgotten.
// - What is remembered are single words, by their hash: threads and signal handlers read and replace them as they like.
//
// Asking takes 1,000 ns, to look at the last part (statx) 350. Rejected: the path as it was given, since half of all
// programs open /lib/..., which is /usr/lib/...; following chdir, since another process may rename the working
// directory; openat2 with RESOLVE_NO_SYMLINKS for the program's open, which is a cancellation point and may wait.
#pragma once

#include "format/journal.h"

namespace tailrace {

// How a descriptor came to be: by `path`, which the kernel has read, relative to `dirfd`, with `flags` (open(2)).
struct Opening {
  int dirfd;
  const char *path;  // null: by no path
  int flags;
};

// Writes the name of the open file `identity`, which has one, to `path` (kPathBytes) if the kernel needn't be asked for it,
// and its hash to `hash`. Returns its length, or 0.
size_t name_without_kernel(const Opening &opening, const FileIdentity &identity, char *path, uint64_t &hash);
// The kernel has called an open file so.
void remember_name(string_view name, const FileIdentity &identity, uint64_t hash);
// This process has put a link, or something that may hold links, in a directory.
void forget_names();

}  // namespace tailrace
