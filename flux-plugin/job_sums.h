// What the trace has of one shell's tasks, for the memo at the job's end: sums over the headers of the blocks that were
// written since the shell began (docs/trace-format.md, "Block header").
// The jobtap plugin adds up the shells' volatile memos: a file system is slower, and the leader's shell may end first.
#pragma once

#include <stdint.h>

#include "base/text.h"
#include "format/block.h"

namespace tailrace::flux {

struct JobSums {
  uint64_t events = 0, read_bytes = 0, written_bytes = 0, lost = 0;
};

// The trace files of this host, as far as they were written when the shell began. A run that thousands of jobs share
// has files that are long before the last of them begins.
class BlocksBefore {
 public:
  explicit BlocksBefore(const char *trace_directory);
  ~BlocksBefore();
  BlocksBefore(const BlocksBefore &) = delete;
  BlocksBefore &operator=(const BlocksBefore &) = delete;

  // Adds the blocks that were written since and have a context with both tags, canonical `KEY=VALUE`.
  void add_later(string_view job, string_view node, JobSums &sums) const;

 private:
  struct File {
    uint64_t inode, bytes;
  };
  File *find(uint64_t inode) const;

  char directory_[4096];
  File *files_ = nullptr;  // by inode
  size_t count_ = 0;
};

}  // namespace tailrace::flux
