// What a run has to know of a host so that files and times there can be compared with those of others: its mounts, its
// machine and its clocks (docs/trace-format.md, "Hosts"). The first process that makes a journal on a node writes it,
// so that it is there, too, where no launcher of ours was (srun, mpirun, ssh).
//
// Rejected: to look for the description in the run, a request to a shared file system at each start; that the maker of
// the journal directory is the first process, since containers of a machine may share that directory.
#pragma once

#include "base/clock.h"
#include "base/text.h"
#include "format/name_hashing.h"

namespace tailrace {

// What was read and written, for the account of the process's own I/O.
struct DescriptionBytes {
  int64_t read = 0, written = 0;
};

// An empty file beside the run's journals on a node: its host is described, or being described. Sealers remove it with
// the last journal (format/seal_dead.cc), launchers make it where they have described their host.
constexpr string_view kHostMarkSuffix = ".host";
// <journal directory>/<host>.host
void write_host_mark(Writer &out, string_view journal_directory, string_view host);
// False: it is there, or can't be made. One system call where it is there.
bool make_host_mark(const char *path);

// Writes <run_dir>/hosts/<host>.json unless there is one, which costs one system call. No allocator, no lock; whatever
// fails, the host is not described, and the caller goes on.
DescriptionBytes write_host_description(string_view run_dir, string_view host, const NameHasher &hasher,
                                        ClockKind kind);

}  // namespace tailrace
