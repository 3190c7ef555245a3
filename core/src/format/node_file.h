// The trace files that a node's sealer writes: <host>.<n>.pfw.gz, with the blocks of all its processes in the order in
// which they are sealed. A file belongs to the sealer that made it, which holds its lock (flock) while it lives; a full
// one is followed by the next number.
//
// So that no record is sealed twice where a sealer dies: the place of each block is in the journal (BlockPlan) before it
// is written. Whether it was written whole is to be seen there, and nowhere else.
#pragma once

#include "base/sys.h"
#include "format/seal.h"

namespace tailrace {

// Writes a member of a journal's copy to the journal.
template <class Member>
bool write_back(int fd, const SegmentHeader &copy, const Member &member) {
  long at = reinterpret_cast<const char *>(&member) - reinterpret_cast<const char *>(&copy);
  return sys::call(SYS_pwrite64, fd, sys::pointer(&member), sizeof member, at) == static_cast<long>(sizeof member);
}

class NodeFile {
 public:
  NodeFile() = default;
  ~NodeFile();
  NodeFile(const NodeFile &) = delete;
  NodeFile &operator=(const NodeFile &) = delete;

  // To be called first, while the path leads to the run: somebody may put another directory in its place later.
  void open_directory(const char *trace_directory);
  int directory() const { return directory_; }
  // Adds the file, and how many blocks it has, to the run's manifest, where that has changed: so it is missed when it is
  // gone. To be called when the sealer ends; a sealer that is killed adds nothing.
  void add_to_manifest();
  // Appends a block that is made of a copy of the journal `journal_fd`, which may be written to.
  int append(int journal_fd, SegmentHeader &copy, string_view member, uint32_t next_slot);

 private:
  bool write_name(uint64_t n);
  uint64_t find_free();
  int open_next();
  int write_block(string_view member);
  int flush();

  int directory_ = -2;  // -errno: there is none
  int fd_ = -1;
  uint64_t bytes_ = 0, blocks_ = 0, noted_blocks_ = 0;
  char name_[sizeof BlockPlan{}.file] = {};
};

constexpr uint64_t kNodeFileBytes = 1ULL << 30;

// Where the journal's plan for its present epoch was carried out, sets first_slot behind the block, whose losses are no more
// to be reported; a torn block there is cut off if its sealer is dead.
void apply_plan(SegmentHeader &segment, int trace_directory);

}  // namespace tailrace
