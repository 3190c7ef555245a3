// A journal that is kept for another process: one segment, its own where it had one before it executed the program,
// written as the core writes its own (format/journal.h), so that the node's sealer, the launcher and `tailrace seal`
// seal it when that process is dead, and what was recorded outlives us.
//
// Invariants: a record is complete in the file before the followed process goes on. Only this process writes to it.
#pragma once

#include <map>
#include <string>
#include <unordered_set>
#include <utility>

#include "base/clock.h"
#include "format/choices.h"
#include "format/follow_request.h"
#include "format/journal.h"
#include "format/redaction.h"
#include "format/seal.h"
#include "format/sockets.h"

namespace tailrace::launcher {

// What all journals of a run on this node have in common.
struct JournalPlace {
  std::string directory, trace_directory, host;
  ClockReference clock;
  Detail detail;
  Redaction redaction;
  const NameHasher &hasher;
  std::string included, excluded;  // patterns of paths
  bool follows_unseen = false;     // format/program.h, FollowChoice
  std::string follows;
};

struct FileName {
  std::string path;
  FileIdentity identity;
  uint64_t hash = 0;
  Messages messages = Messages::kNone;
};

struct Record {
  Fn fn = Fn::kNone;
  uint64_t t0 = 0, t1 = 0;
  const FileName *file = nullptr, *file2 = nullptr;
  uint64_t number2 = 0;  // in the place of file2
  int64_t offset = -1;
  uint64_t count = 0;
  int64_t ret = 0;
};

class ForeignJournal {
 public:
  explicit ForeignJournal(const JournalPlace &place) : place_(place) {}
  ~ForeignJournal();
  ForeignJournal(const ForeignJournal &) = delete;
  ForeignJournal &operator=(const ForeignJournal &) = delete;

  // False where there can be no journal.
  bool begin(int pid, const std::string &tags, const EarlierImage &earlier);
  // False where the process's earlier programs have none.
  bool may_have_account() const { return has_account_; }
  void set_tags(const std::string &tags);
  // `members`: args of a start or exit event, as JSON members; `time`: of the child, with a wait.
  // Returns its slot; null: it is lost, and counted.
  Slot *add(int tid, const Record &record, const std::string *members = nullptr, const ProcessTime *time = nullptr);
  // A wait (journal.h, blocked_word), which is added to the last one of its kind that it follows closely, as
  // session/waits.h has it.
  void add_wait(int tid, const Record &record);
  // The process's only one, begun anew for this program.
  Ledger &ledger() { return (first_ != nullptr ? first_ : segment_)->ledger; }
  uint64_t now() const { return read_ticks(place_.clock.kind); }
  uint64_t ns_in(uint64_t ticks) const {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(ticks) * segment_->reference_rate_q32) >> 32);
  }

 private:
  // Consecutive slots, for names too; empties a full segment first. Null: the record is lost, and counted.
  Slot *reserve(uint32_t slots);
  void seal();
  bool add_text(RecordKind kind, const HeadSlot &head, const std::string &text);
  bool add_name(const FileName &name, const std::string &recorded);
  uint64_t recorded_hash(const FileName &name) const;
  bool add_context();

  bool adopt_ledger(const std::string &stem, int pid, const EarlierImage &earlier);
  bool adopt_segment(const std::string &path, int pid, const EarlierImage &earlier);
  bool make_segment(const std::string &path, int pid, const std::string &trace);
  void begin_times(const ClockSample &now, uint64_t start_ns);

  const JournalPlace &place_;
  SegmentHeader *segment_ = nullptr;
  SegmentHeader *first_ = nullptr;  // the header of an earlier program's segment that has the ledger
  bool has_account_ = true;
  SealScratch *scratch_ = nullptr;
  uint32_t used_ = 0;
  int tid_ = 0;
  std::string tags_;
  uint32_t context_ = 0;
  bool context_written_ = false;
  std::unordered_set<uint64_t> names_;          // of this epoch, as the next
  std::map<std::pair<int, Fn>, Slot *> waits_;  // the last of each thread and function
};

}  // namespace tailrace::launcher
