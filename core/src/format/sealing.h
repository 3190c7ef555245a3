// One pass over a run's journals, or a look at one of them: what seal_dead_journals and the node's sealer share.
// format/seal_dead.cc has it.
#pragma once

#include "format/journal_use.h"
#include "format/node_file.h"
#include "format/seal.h"

namespace tailrace {

class UnmappedJournals;

// kEmpty: unused from now on. kBegun: its process ended before it had a header. kHanded: full, and its process waits
// for it to be sealed. kEnding: its process has left it and is not dead yet. kUnmapped: it takes a second look.
enum class Outcome { kSealed, kAlive, kFailed, kSkipped, kEmpty, kBegun, kHanded, kEnding, kUnmapped };

// What a look may cost. kQuick: only journals that were handed over or left can be more than kAlive.
enum class Look { kQuick, kThorough };

class Sealing {
 public:
  // `trace_directory`: only journals whose trace file is in it are sealed; empty: in any.
  Sealing(string_view trace_directory, SealedJournals &result);
  ~Sealing();
  Sealing(const Sealing &) = delete;
  Sealing &operator=(const Sealing &) = delete;

  // Where it becomes 1, sealing stops before the next block, which is then tried again.
  void cancel_by(const std::atomic<uint32_t> *canceled) { canceled_ = canceled; }
  // False without memory.
  bool is_ready() const { return scratch_ && copy_; }
  // Around what a thread does here: its processor time is accounted for in the blocks that are written meanwhile, and
  // what is left over in those of the next thread.
  void begin_account();
  void end_account();
  // The journals of all dead processes in the directory, which must be this user's, and of those that changed their
  // user.
  int seal_dead(const char *directory);

  // Those in a directory of this user's that has lost its path.
  void seal_dead_in(int parent, const char *name);

  // Below, `directory` is a descriptor of a checked directory, whose path may lead elsewhere by now.
  // `first`: of an earlier look at the name, if any; with kUnmapped the next look needs it.
  Outcome look(int directory, const char *name, unsigned uid, Look how, FirstLook &first,
               uint64_t *handed_ns = nullptr);
  // Seals it, if its process is dead, and removes it. It looks once.
  Outcome seal_one(int directory, const char *name, unsigned uid, FirstLook &first);
  // Tells the run that journals of this host were removed.
  void note_removed_journals() { node_file_.note_removed_journals(); }
  // Seals what a process has handed over.
  Outcome seal_handed(int directory, const char *name, unsigned uid);

 private:
  template <class Other>
  int seal_all(const char *directory, unsigned uid, Other other);
  template <class Other>
  int seal_in(int parent, const char *directory, unsigned uid, Other other);
  Outcome seal_second(int directory, const char *name, unsigned uid, FirstLook &first);
  void seal_or_keep(int directory, const char *name, unsigned uid, UnmappedJournals &unmapped);
  void seal_unmapped(int directory, unsigned uid, UnmappedJournals &unmapped);
  bool read_copy(int fd);
  SegmentHeader &copy() { return *static_cast<SegmentHeader *>(copy_); }
  Outcome seal_open(int fd, unsigned uid);
  Outcome seal_copy(int fd, bool apart, bool dead);
  void count(Outcome outcome);
  static int append(void *self, SegmentHeader &segment, string_view member, uint32_t next_slot);

  char trace_directory_[sizeof SegmentHeader{}.trace_path];
  size_t trace_directory_bytes_;
  SealedJournals &result_;
  SealScratch *scratch_;
  void *copy_;  // a journal
  int journal_fd_ = -1;
  bool dead_ = false;  // its process
  // Of the thread's clock: up to where it is accounted for; begin_account() counts on from there.
  uint64_t accounted_ns_ = 0, unaccounted_ns_ = 0;
  const std::atomic<uint32_t> *canceled_ = nullptr;
  NodeFile node_file_;
};

}  // namespace tailrace
