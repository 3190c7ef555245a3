// The trace files that a node's sealers write: <host>.<n>.pfw.gz, with the blocks of all their processes in the order
// in which they are sealed. A file belongs to the sealer that has its lock (flock); a full one is followed by another.
//
// A sealer continues a file that an earlier one has left, so that thousands of launchers leave a few files. Which files
// these are is in a list, <host>.<boot id>.files in the run's manifest/, of this kernel's sealers alone: only between
// processes of one kernel a lock is sure to hold on every shared file system that grants one. Hosts may have equal
// names. The list has how much of a file is whole blocks; what follows, of a sealer that was killed, is looked at and
// cut by who continues the file. Where anything is not as expected, or there are no locks, a new file is begun.
//
// Rejected: appending to the processes' own files, which 10,000 short tasks make 10,000 of.
//
// So that no record is sealed twice where a sealer dies: the place of each block is in the journal (BlockPlan) before
// it is written. Whether it was written whole is to be seen there, and nowhere else.
#pragma once

#include "base/sys.h"
#include "format/seal.h"

namespace tailrace {

// Writes the members of a journal's copy from one to another to the journal.
template <class First, class Last>
bool write_back(int fd, const SegmentHeader &copy, const First &first, const Last &last) {
  auto *begin = reinterpret_cast<const char *>(&first), *end = reinterpret_cast<const char *>(&last) + sizeof last;
  long at = begin - reinterpret_cast<const char *>(&copy);
  return sys::call(SYS_pwrite64, fd, sys::pointer(begin), end - begin, at) == end - begin;
}
template <class Member>
bool write_back(int fd, const SegmentHeader &copy, const Member &member) {
  return write_back(fd, copy, member, member);
}

// How far a dead process's journal is sealed: in one call, for a sealer may be killed between two. The losses that a
// written block has are not to be counted again, nor to be taken off again for the plan of that block.
inline bool write_back_progress(int fd, const SegmentHeader &copy) {
  return write_back(fd, copy, copy.first_slot, copy.lost);
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
  // Adds the file, and how many blocks it has, to the run's manifest, where that has changed: so it is missed when it
  // is gone. To be called when the sealer ends; a sealer that is killed adds nothing.
  void add_to_manifest();
  // Adds that somebody removed this host's journals.
  void note_removed_journals();
  // Calls take(to, name, end) for each file of this node that is longer than its last sealer has said, since that one
  // was killed or is at it. `end`: of its last whole block. A killed sealer's next one cuts off what follows.
  void each_unfinished(void (*take)(void *, const char *name, uint64_t end), void *to);
  // In this node's files, about: those of other sealers may have grown since ours was opened.
  uint64_t bytes_in_all();
  // Appends a block that is made of a copy of the journal `journal_fd`, which may be written to. dead: its process no
  // longer does.
  int append(int journal_fd, bool dead, SegmentHeader &copy, string_view member, uint32_t next_slot);

 private:
  static constexpr uint64_t kUnknown = UINT64_MAX;
  struct Entry {  // of the list
    uint64_t number, inode, bytes, blocks;
  };
  bool write_name(uint64_t n);
  uint64_t find_free();
  int open_next();
  int make_next();
  bool continue_one();
  bool take_over(int fd, const Entry &entry);
  int open_in_manifest(string_view suffix, int flags);
  bool append_to_manifest(string_view line);
  int open_list(int flags = O_RDWR | O_CREAT);
  void add_to_list();
  void leave(uint64_t bytes);
  int write_block(string_view member);
  int flush();

  int directory_ = -2;  // -errno: there is none
  int fd_ = -1;
  uint64_t bytes_ = 0, blocks_ = 0, noted_blocks_ = 0;
  uint64_t others_bytes_ = kUnknown;  // in the node's other files
  uint64_t number_ = 0;
  int64_t entry_at_ = -1;  // our file's place in the list
  char name_[sizeof BlockPlan{}.file] = {};
};

constexpr uint64_t kNodeFileBytes = 1ULL << 30;

// Where the journal's plan for its present epoch was carried out, sets first_slot behind the block, whose losses are no
// more to be reported; a torn block there is cut off if its sealer is dead.
void apply_plan(SegmentHeader &segment, int trace_directory);

}  // namespace tailrace
