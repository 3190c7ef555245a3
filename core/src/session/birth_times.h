// The birth times of files that were looked up by name. stat(2) tells all of an identity but the birth time, for which
// statx has to be called again; so it is kept by what stat tells: device, inode, and when the inode last changed (ctime).
//
// Invariants:
// - A birth time that is found is the file's. Only a file that was made after another one was removed can have its inode;
//   its ctime is that time or later, and the old file's was some seconds old when it was kept. Times of files have steps
//   of up to 2 s, and a file server's clock may go a little behind.
// - Nobody sets a ctime: it is the kernel's.
// - Threads and signal handlers read and write the table without a lock: an entry is a value and its key, exclusive-or'd
//   with the value, so that half of one entry and half of another are no entry.
//
// Rejected: statx in the place of the program's stat. The core would have to refuse bad pointers as the kernel does,
// FUSE would be asked for more, and a filter that allows stat may refuse statx.
#pragma once

#include <sys/stat.h>

#include "format/journal.h"

namespace tailrace {

// False where it is not known.
bool find_birth_time(const struct stat &file, int64_t &btime_ns);
void keep_birth_time(const struct stat &file, int64_t btime_ns);

}  // namespace tailrace
