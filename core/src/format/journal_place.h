// The places where a run's journals may be on a node. The core uses the first one that it can use; the sealers look
// into all of them.
//
//   0  TAILRACE_JOURNAL_DIR
//   where that is the default, and it is missing, full, or another user has made our directory in it:
//   1  /run/user/<uid>
//   2  <run>/journals/<boot id>: of this node alone, and of all containers on it
//   In a container whose default place is its own, and gone when it ends, place 2 comes first.
//
// A process decides at its first segment: a launcher never sees some of the nodes. Rejected for containers: to seal
// more often, which loses less and costs more; to compare mount namespaces, since Slurm and Apptainer make one for each
// job and share /dev/shm.
#pragma once

#include "base/text.h"

namespace tailrace {

constexpr int kJournalPlaces = 3;

// Whether `chosen`, the value of TAILRACE_JOURNAL_DIR, is what it is by default.
bool is_default_place(string_view chosen);

// Writes the place's directory, in which <uid> has the directory tailrace-<uid>. False, with nothing useful written:
// there is no such place. `bytes_read` grows by what was read.
bool write_journal_place(Writer &out, int place, string_view chosen, unsigned uid, string_view run_dir,
                         int64_t &bytes_read);
// TAILRACE_JOURNAL_DEVICE: <major>:<minor>@<boot id>, of the default place's file system where the settings are made.
// False, with nothing useful written: it is not there.
bool write_journal_device(Writer &out, int64_t &bytes_read);
// Whether `device` was written on this machine, and the default place is another file system here: a container's own.
bool is_containers_own(string_view device, int64_t &bytes_read);

// How much of the place's directory must be there; the rest is made with the first journal.
size_t existing_part(int place, string_view directory, string_view run_dir);

// Removes the directories above a run's empty, removed `directory` of journals that were made in the run for it.
void remove_empty_place(string_view directory, string_view run_dir);

// Whether the path itself, no link, is a directory of this user. In a place that all users can write to, another user's
// is not to be trusted.
bool is_directory_of(const char *path, unsigned uid);

// Tries to keep a journal in `chosen` as the core would. Returns 0, or -errno: -EINVAL for a relative path, -EPERM
// where another user has made our directory.
int check_journal_directory(string_view chosen, unsigned uid);

}  // namespace tailrace
