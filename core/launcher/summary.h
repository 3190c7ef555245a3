// What a run recorded, by the headers of its blocks.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "command.h"
#include "format/seal.h"

namespace tailrace::launcher {

// Numbers by a name, in the order in which the names came.
class Counts {
 public:
  void add(const std::string &name, uint64_t number);
  const std::vector<std::pair<std::string, uint64_t>> &all() const { return rows_; }
  uint64_t sum() const;

 private:
  std::vector<std::pair<std::string, uint64_t>> rows_;
};

// Bytes are those moved by calls, each byte once.
struct Summary {
  int64_t events = 0;
  uint64_t processes = 0;
  int64_t read_bytes = 0;
  int64_t written_bytes = 0;
  uint64_t torn_bytes = 0;
  uint64_t alive = 0;                // processes that still run
  Counts lost;                       // by cause
  Counts without_journal;            // processes that recorded nothing, by why, in words
  uint64_t gave_way = 0;             // processes that ended recording (session/give_way.h)
  bool journals_removed = false;     // by somebody else, so that what killed processes lost can't be counted
  std::optional<std::string> fault;  // why tailrace could not do its part
  // The byte accounting of the command; none where it was not read.
  std::optional<CommandAccount> command;
  // By the coverage ledger (native/accounts.h): the processes without an account, and what is missing, in words. Empty:
  // the trace has what the kernel counted, of those with an account.
  uint64_t unaccounted = 0;
  std::string missing;

  void add_unrecorded(const SealedJournals &journals);
};

using Sizes = std::map<std::string, uint64_t>;  // path -> bytes

// The current size of each trace file.
Sizes trace_sizes(const std::string &run_dir);
// The same, but of a file of this node that a killed sealer left with half a block, the end of its last whole one: what
// is written to the file from now on begins there.
Sizes whole_sizes(const std::string &run_dir);
// Adds the blocks appended since `before`, and compares them with the kernel's accounts; with a `tag` (key=value,
// percent-encoded) those of which a context has it. Throws Fault (kTrace) for a damaged header.
void add_blocks(Summary &summary, const std::string &run_dir, const Sizes &before, const std::string &tag = "");
// In one line: events, processes, bytes, losses.
std::string describe(const Summary &summary);

// A process by its host, pid and start, as in a block's header.
struct ProcessName {
  std::string host, pid, start;
  bool operator<(const ProcessName &other) const;
};
// The processes with blocks in a trace file; by its name where that is one process's. Throws Fault (kTrace).
std::vector<ProcessName> processes_in(const std::string &trace_file);

}  // namespace tailrace::launcher
