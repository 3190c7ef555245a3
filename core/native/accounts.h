// The coverage ledger: the bytes in the trace of each process, compared with the kernel's account of it.
//
//   processes (exit, ledger) + waits (what their parents read of them) + blocks  -->  accounts()  -->  total()
//
// `tailrace run` computes it from the headers of the blocks that it has just sealed (core/launcher/summary.cc), the
// analyzer from its catalogue (analyzer/store/ledger.py): one figure, one cause.
//
// Invariants: bytes are those that the kernel counts (rchar, wchar of /proc/PID/io), so sockets' send and recv, splice
// and the like are left out of both sides, and mappings are in neither. Only a process with an account has a share. A
// process that was waited for and left no trace has a row, too. What libc read ahead of the program is in both sides.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "json_text.h"
#include "process_ends.h"

namespace tailrace::native {

// From this share on a process counts as fully seen.
constexpr double kCompleteShare = 0.999;

// Of a process's threads: on a processor; ready, waiting for one; on a processor of those whose time ready is known.
struct ProcessorTimes {
  std::optional<int64_t> run_ns, ready_ns, ready_of_ns;

  // What a process of one thread does not say at its end.
  void fill_from(const ProcessorTimes &waiter) {
    if (!run_ns) run_ns = waiter.run_ns;
    if (!ready_ns) ready_ns = waiter.ready_ns, ready_of_ns = waiter.ready_of_ns;
  }
};

// A traced process, by the members of its headers (docs/trace-format.md).
struct AccountedProcess {
  EndingProcess life;
  std::string exe, start;
  Counts2 captured = {};  // bytes in the trace that the kernel counts, too
  bool is_lossy = false;
  bool gave_way = false;  // it mapped memory over the tracer's
  std::string cut_off;    // the call in which it ended
  // Of its `exit`.
  std::optional<Counts2> at_exit;
  int64_t buffered = 0, unflushed = 0, loaded_at_exit = 0;
  ProcessorTimes time;
  // Of its `ledger`.
  std::optional<Counts2> base, own, reaped, done;
  int64_t ahead = 0, ahead_before = 0, loaded = 0, executing = 0;
  bool has_ring = false, has_untaken = false;
  // Of its `start`.
  bool is_go = false;
  std::string no_journal;  // why it has none, in words

  void take_exit(std::string_view json);
  void take_ledger(std::string_view json);
  void take_start(std::string_view json);
};

struct AccountedWait {
  SeenEnd end;
  std::optional<Counts2> totals;
  int64_t own_bytes = 0;
  ProcessorTimes time;
};

// A program that was started or executed, and can't be traced.
struct FoundObstacle {
  std::string host;
  int64_t pid = 0, at = 0;
  std::string why, program;
  int64_t by = -1;  // the process that reports it; -1: a launcher
};

struct AccountRow {
  int64_t process = -1;  // its place; -1: it left no trace
  std::string host;
  int64_t pid = 0;
  std::string exe, start;
  const char *source = nullptr;  // of the kernel's figures: "exit" (read at its end), "parent" (by its waiter)
  std::optional<int64_t> signal;
  std::optional<Counts2> kernel;
  Counts2 captured = {};
  int64_t ahead = 0;  // of both: read ahead by libc, and consumed by no call
  std::optional<double> share;
  std::string cause_key, cause;  // a row of format/causes.def, and its words; empty: it was fully seen
  ProcessorTimes time;           // by its own end, else by its waiter
};

// `waits` in the order of time. `unreadable(wait)`: what is wrong with the trace file that may have its process, in
// words; empty: nothing is known. Traced processes first, in their order.
std::vector<AccountRow> accounts(const std::vector<AccountedProcess> &processes,
                                 const std::vector<AccountedWait> &waits, const std::vector<FoundObstacle> &obstacles,
                                 const std::function<std::string(const AccountedWait &)> &unreadable);

struct AccountTotal {
  int64_t processes = 0, accounted = 0, untraced = 0, left_out = 0, below = 0;
  Counts2 kernel = {}, captured = {};
  int64_t ahead = 0;
  std::optional<double> share;  // none: there is no account
};
AccountTotal total(const std::vector<AccountRow> &rows);

// Whether a process with the row was not, or may not have been, fully seen.
bool is_short(const AccountRow &row);

// The rows that are short, by cause: those that miss most first.
struct CauseGroup {
  std::string cause_key, cause, advice;
  int64_t processes = 0, accounted_bytes = 0, missing_bytes = 0;
  std::string program;       // of the row that misses most; empty: it is not known
  std::vector<size_t> rows;  // those that miss most first
};
std::vector<CauseGroup> by_cause(const std::vector<AccountRow> &rows);

}  // namespace tailrace::native
