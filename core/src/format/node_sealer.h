// The node's sealer: while a launcher waits for its processes, a thread of its own, at the lowest priority, seals what they
// hand over (session/hand_over.h) and what ended ones have left.
//
//   processes                      <place>/tailrace-<uid>/<key>/                    sealer's thread
//   full segment: kHanded  ─────▶  *.tj  ─────────────────────────────────────────▶ copy, lines, block ─▶ <host>.<n>.pfw.gz
//   bell += 1              ─────▶  sealer.board: bells   ──── every 1 to 20 ms ───▶ which journals to look at
//   spare segment          ◀─────  *.tj: kSpare          ◀───────────────────────── sealed
//   is there a sealer?     ◀─────  sealer.board: heartbeat, has_room ◀───────────── at each look
//
// Invariants:
// - It may be killed or stopped at any instruction: nothing is lost or sealed twice. What it had begun is in the journal
//   (BlockPlan); the processes see its heartbeat stop and seal for themselves.
// - One sealer serves a journal directory: the one that has the board's lock. Others wait until that one ends.
// - It trusts a journal as little as seal_dead_journals does, and works by the same code on private copies.
// - It runs without the right to hold anything up: lowest priority, no lock that a process waits for.
//
// Rejected:
// - a ring of handed segments: a process that is killed between claiming a place and filling it blocks it for all;
// - a socket or futex: a system call for the thread;
// - mapping the journals: a program that cuts its journal would end the sealer by SIGBUS (a pread: 10 ns an event);
// - a sealer process, for which every `tailrace run` would wait;
// - a spare for another thread: a call that a signal handler interrupted may still write to a slot of it.
#pragma once

#include "format/sealer_board.h"
#include "format/sealing.h"
#include "format/unmapped_journals.h"

namespace tailrace {

class NodeSealer {
 public:
  // `directory`: of the run's journals of this user, in the place that is used first (format/journal_place.h).
  NodeSealer(string_view directory, string_view trace_directory);
  ~NodeSealer();
  NodeSealer(const NodeSealer &) = delete;
  NodeSealer &operator=(const NodeSealer &) = delete;

  // Puts the board up, so that processes that start from now on find it; where another sealer has one, this one waits.
  // Returns 0 or -errno: then there can be no sealer here.
  int begin();
  // Seals until stop(). To be called in a thread of its own.
  void run();
  // From any thread. The processes are told that no sealer is there.
  void stop();
  // When run() has returned: takes the board down, and seals the dead processes' journals in `directory`, another of the
  // places or our own.
  int seal_dead(const char *directory);

  // Of all that was sealed; alive and failed are those of the last seal_dead().
  const SealedJournals &result() const { return result_; }
  uint64_t processor_ns() const { return processor_ns_; }

 private:
  struct Work;
  int open_board();
  bool holds_board() const { return board_ >= 0; }
  void drop_board();
  bool is_board_in(string_view directory, int parent) const;
  // The last part of the path.
  const char *key() const { return directory_ + string_view(directory_).rfind('/') + 1; }
  void notice_removal();
  void say_no_sealer();
  void beat();
  void beat_again();
  void set_room();
  void write_board(const void *member, size_t bytes);
  bool pass();
  void refuse_for_a_while();
  Outcome seal_ended(int directory, const char *name, FirstLook &first);
  bool note(Outcome outcome, size_t bell);
  bool visit(int directory, const char *name, size_t bell, Look how, Work &work);
  bool is_due(uint64_t now) const;
  bool seal_unmapped(int directory);
  void seal_in_order(int directory, Work &work);
  void pause(uint64_t ns);

  char directory_[2048];
  SealedJournals result_;
  Sealing sealing_;
  UnmappedJournals unmapped_;  // in directory_; a later pass looks at them again, so that none waits
  int board_ = -1;
  int users_ = -1;               // the directory above directory_, with the board
  int covered_ = -1;             // the one of an earlier board, whose path leads elsewhere by now
  SealerBoard written_;          // what the board has of ours
  uint32_t bells_[kBells] = {};  // as of the last pass
  bool pending_[kBells] = {};
  uint64_t next_thorough_ns_ = 0;
  uint64_t refusing_until_ns_ = 0;
  uint64_t processor_ns_ = 0;
  std::atomic<uint32_t> stopping_{0};
};

}  // namespace tailrace
