// See accounts.h.
#include "accounts.h"

#include <algorithm>
#include <csignal>
#include <map>
#include <set>
#include <utility>

#include "causes.h"

namespace tailrace::native {
namespace {

// Up to this much missing, and only reads: a file that libc read for itself in a call without a hook.
constexpr int64_t kLibcBytes = 8 * 1024;
// The longest message that libc itself writes when it ends a program.
constexpr int64_t kLastWordsBytes = 1024;
// A call that may move more is marked while it runs (session/record.h, LongCall).
constexpr int64_t kShortCallBytes = 64 * 1024;
constexpr int64_t kNotFound = 127;  // the exit code of the dynamic linker

constexpr char kNotTraced[] = "not traced: ";
constexpr char kWentOn[] = "went on as a program that is not traced: ";

// ChildKind, and Execution in a ledger.
constexpr int64_t kGiven = 1, kForked = 3;

struct Cause {
  std::string key, words;
};

Cause cause_of(std::string_view key) { return {std::string(key), cause_words(key)}; }

Cause cause_of(const char *prefix, std::string_view key) { return {std::string(key), prefix + cause_words(key)}; }

int64_t sum(const Counts2 &bytes) { return bytes[0] + bytes[1]; }

Counts2 missing(const Counts2 &kernel, const Counts2 &captured) {
  return {std::max<int64_t>(0, kernel[0] - captured[0]), std::max<int64_t>(0, kernel[1] - captured[1])};
}

double share_of(const Counts2 &kernel, const Counts2 &captured) {
  const int64_t all = sum(kernel);
  return all != 0 ? 1 - static_cast<double>(sum(missing(kernel, captured))) / static_cast<double>(all) : 1.0;
}

// By what a program that left no trace, though it had the library, has ended.
const char *key_of_end(int64_t status) {
  if ((status & 0x7F) != 0) return "began_not";
  return (status >> 8 & 0xFF) == kNotFound ? "library" : "linker";
}

using Place = std::pair<std::string, int64_t>;

class Ledgers {
 public:
  Ledgers(const std::vector<AccountedProcess> &processes, const std::vector<AccountedWait> &waits,
          const std::vector<FoundObstacle> &obstacles)
      : processes_(processes), waits_(waits) {
    for (const FoundObstacle &obstacle : obstacles) obstacles_[{obstacle.host, obstacle.pid}].push_back(&obstacle);
    std::vector<EndingProcess> lives;
    std::vector<SeenEnd> ends;
    for (const AccountedProcess &process : processes) lives.push_back(process.life);
    for (const AccountedWait &wait : waits) ends.push_back(wait.end);
    ends_ = match_ends(lives, ends, [&](const std::string &host, int64_t pid) {
      return obstacles_.count({host, pid}) != 0;
    });
    for (size_t i = 0; i < processes.size(); ++i) {
      const EndingProcess &one = lives[i];
      if (one.ppid) children_[{one.host, *one.ppid}].push_back(i);
    }
  }

  std::vector<AccountRow> rows(const std::function<std::string(const AccountedWait &)> &unreadable) {
    std::vector<AccountRow> out;
    for (size_t i = 0; i < processes_.size(); ++i) out.push_back(row(i));
    for (const size_t wait : ends_.unmatched) {
      if (auto one = untraced_row(waits_[wait], unreadable)) out.push_back(std::move(*one));
    }
    return out;
  }

 private:
  // What the kernel has added to the totals of a process that waited for this one.
  std::optional<Counts2> totals_of(size_t at) const {
    const AccountedProcess &p = processes_[at];
    if (const int64_t wait = ends_.of[at]; wait >= 0) return waits_[static_cast<size_t>(wait)].totals;
    if (!p.at_exit || !p.base || !p.own || !p.reaped) return std::nullopt;
    Counts2 out;
    for (size_t way = 0; way < 2; ++way)
      out[way] = (*p.base)[way] + (*p.own)[way] + (*p.reaped)[way] + (*p.at_exit)[way];
    out[0] += p.ahead + p.buffered + p.loaded_at_exit;
    out[1] -= p.unflushed;
    return out;
  }

  // The totals of the traced children of a process whose waits nothing recorded, as far as they ended before it.
  Counts2 unseen_waits(const Place &place, int64_t until) const {
    Counts2 out = {};
    const auto children = children_.find(place);
    if (children == children_.end()) return out;
    for (const size_t child : children->second) {
      const bool is_waited_for = ends_.of[child] >= 0 && waits_[static_cast<size_t>(ends_.of[child])].end.waiter >= 0;
      const auto totals = totals_of(child);
      if (is_waited_for || !totals || processes_[child].life.end > until) continue;
      for (size_t way = 0; way < 2; ++way) out[way] += std::max<int64_t>(0, (*totals)[way]);
    }
    return out;
  }

  // The kernel's account over all programs that the process executed, and where it is from.
  std::pair<const char *, std::optional<Counts2>> kernel(size_t at, const AccountedWait *end) const {
    const AccountedProcess &p = processes_[at];
    const Counts2 done = p.done.value_or(Counts2{});
    if (p.at_exit) return {"exit", Counts2{done[0] + (*p.at_exit)[0], done[1] + (*p.at_exit)[1]}};
    if (end == nullptr || !end->totals || !p.base || !p.own || !p.reaped) return {nullptr, std::nullopt};
    Counts2 out;
    for (size_t way = 0; way < 2; ++way)
      out[way] = done[way] + (*end->totals)[way] - (*p.base)[way] - (*p.own)[way] - (*p.reaped)[way];
    out[0] -= p.ahead + p.loaded;
    // Its own waits are raw calls, or those of a program that is not traced.
    if (p.is_go || p.executing != 0) {
      const Counts2 waited = unseen_waits({p.life.host, p.life.pid}, end->end.at);
      for (size_t way = 0; way < 2; ++way) out[way] = std::max(p.captured[way], out[way] - waited[way]);
    }
    for (int64_t &bytes : out) bytes = std::max<int64_t>(0, bytes);
    return {"parent", out};
  }

  // Why the program that a traced process went on as can't be traced, as it said itself; empty: it said nothing.
  std::string last_obstacle(size_t at) const {
    const AccountedProcess &p = processes_[at];
    const auto known = obstacles_.find({p.life.host, p.life.pid});
    std::string why;
    if (known == obstacles_.end()) return why;
    for (const FoundObstacle *obstacle : known->second) {
      if (obstacle->by == static_cast<int64_t>(at)) why = obstacle->why;
    }
    return why;
  }

  AccountRow row(size_t at) const {
    const AccountedProcess &p = processes_[at];
    const AccountedWait *end = ends_.of[at] < 0 ? nullptr : &waits_[static_cast<size_t>(ends_.of[at])];
    AccountRow out;
    out.process = static_cast<int64_t>(at);
    out.host = p.life.host, out.pid = p.life.pid, out.exe = p.exe, out.start = p.start;
    out.captured = p.captured;
    out.time = p.time;
    if (end != nullptr) out.time.fill_from(end->time);
    if (end != nullptr && (end->end.status & 0x7F) != 0) out.signal = end->end.status & 0x7F;
    std::tie(out.source, out.kernel) = kernel(at, end);
    if (out.kernel) {
      out.ahead = std::max<int64_t>(0, p.ahead_before + p.ahead + p.buffered);
      (*out.kernel)[0] += out.ahead;
      out.captured[0] += out.ahead;
      out.share = share_of(*out.kernel, out.captured);
    }
    const Cause cause = cause_of_row(at, out, end);
    out.cause_key = cause.key, out.cause = cause.words;
    // Left out on the user's request: such a process has a row, and no share.
    if (cause.key == "left_out") out.share.reset();
    return out;
  }

  Cause cause_of_row(size_t at, const AccountRow &row, const AccountedWait *end) const {
    const AccountedProcess &p = processes_[at];
    if (p.gave_way) return cause_of("gave_way");
    if (!p.no_journal.empty()) return {"no_journal", p.no_journal};
    if (!row.share) return cause_of(ends_.went_on[at] ? "another" : "no_account");
    Cause cause;
    if (*row.share < kCompleteShare) cause = cause_of_short(at, row, end);
    const bool is_unclear = cause.key.empty() || cause.key == "own_calls" || cause.key == "libc";
    if (p.has_ring && is_unclear) return cause_of("ring");
    if (p.has_untaken && is_unclear) return cause_of("aio");
    return cause;
  }

  Cause cause_of_short(size_t at, const AccountRow &row, const AccountedWait *end) const {
    const AccountedProcess &p = processes_[at];
    const bool has_end = row.source == std::string_view("exit");
    const std::string obstacle = has_end ? "" : last_obstacle(at);
    if (obstacle == "confined") return cause_of(obstacle);
    if (!obstacle.empty()) return cause_of(kWentOn, obstacle);
    if (p.is_lossy) return cause_of("lost");
    if (!has_end && p.executing != 0) {
      return cause_of(kWentOn, p.executing == kGiven ? key_of_end(end->end.status) : "without_settings");
    }
    if (p.is_go) return cause_of("go_calls");
    return has_end || row.signal ? cause_of_calls(p, row, end) : cause_of("raw_exit");
  }

  // Of a process that ended by exit, whose account is its own, or by a signal.
  static Cause cause_of_calls(const AccountedProcess &p, const AccountRow &row, const AccountedWait *end) {
    const Counts2 gone = missing(row.kernel.value_or(Counts2{}), row.captured);
    const bool is_small_read = gone[1] == 0 && gone[0] <= kLibcBytes;
    // A signal after its exit was recorded, and its account taken, cost nothing.
    if (!row.signal || p.at_exit || end == nullptr) return cause_of(is_small_read ? "libc" : "own_calls");
    if (!p.cut_off.empty()) return {"cut_off", cause_words("cut_off") + ": " + p.cut_off};
    if ((end->end.status & 0x80) != 0 && gone[1] > 0) return cause_of("core_dump");
    if (is_small_read) return cause_of("read_ahead");
    if (*row.signal == SIGABRT && gone[0] == 0 && gone[1] <= kLastWordsBytes) return cause_of("last_words");
    return cause_of(sum(gone) <= kShortCallBytes ? "cut_off" : "own_calls");
  }

  // A process that was waited for and left no readable trace, without the bytes of its traced children.
  std::optional<AccountRow> untraced_row(const AccountedWait &wait,
                                         const std::function<std::string(const AccountedWait &)> &unreadable) const {
    if (!wait.totals) return std::nullopt;
    const Place place{wait.end.host, wait.end.pid};
    const Counts2 waited = unseen_waits(place, wait.end.at);
    Counts2 left;
    for (size_t way = 0; way < 2; ++way) left[way] = std::max<int64_t>(0, (*wait.totals)[way] - waited[way]);
    left[0] = std::max<int64_t>(0, left[0] - wait.own_bytes);
    if (sum(left) == 0) return std::nullopt;
    AccountRow out;
    out.host = wait.end.host, out.pid = wait.end.pid;
    out.source = "parent";
    out.kernel = left;
    out.time = wait.time;
    if ((wait.end.status & 0x7F) != 0) out.signal = wait.end.status & 0x7F;
    const Cause cause = cause_of_untraced(wait, left, unreadable, out.exe);
    out.cause_key = cause.key, out.cause = cause.words;
    if (cause.key != "left_out") out.share = 0.0;
    return out;
  }

  Cause cause_of_untraced(const AccountedWait &wait, const Counts2 &left,
                          const std::function<std::string(const AccountedWait &)> &unreadable,
                          std::string &program) const {
    const auto known = obstacles_.find({wait.end.host, wait.end.pid});
    const FoundObstacle *last = nullptr;
    if (known != obstacles_.end()) {
      for (const FoundObstacle *one : known->second) {
        if (one->at <= wait.end.at && (last == nullptr || one->at >= last->at)) last = one;
      }
    }
    if (last != nullptr) {
      program = last->program;
      return cause_of(kNotTraced, last->why);
    }
    if (std::string words = unreadable(wait); !words.empty()) return {"damaged", std::move(words)};
    if ((wait.end.status & 0x80) != 0 && left[1] > 0) return cause_of("core_dump");
    if (wait.end.kind == kGiven) return cause_of(kNotTraced, key_of_end(wait.end.status));
    return cause_of(kNotTraced, wait.end.kind == kForked ? "forked" : "without_settings");
  }

  const std::vector<AccountedProcess> &processes_;
  const std::vector<AccountedWait> &waits_;
  std::map<Place, std::vector<const FoundObstacle *>> obstacles_;
  std::map<Place, std::vector<size_t>> children_;
  Ends ends_;
};

int64_t missing_bytes(const AccountRow &row) { return row.kernel ? sum(missing(*row.kernel, row.captured)) : 0; }

std::string program_of(const AccountRow &row) {
  const size_t slash = row.exe.rfind('/');
  return slash == std::string::npos ? row.exe : row.exe.substr(slash + 1);
}

}  // namespace

void AccountedProcess::take_exit(std::string_view json) {
  Counts2 bytes = {};
  bool has_read = false, has_written = false;
  std::optional<int64_t> user_ns, system_ns;
  each_member_of(json, [&](std::string_view key, const Value &value) {
    life.has_exit = true;
    if (key == "code") life.code = whole(value);
    const auto number = count(value);
    if (!number) return;
    if (key == "rchar") bytes[0] = *number, has_read = true;
    if (key == "wchar") bytes[1] = *number, has_written = true;
    if (key == "buffered") buffered = *number;
    if (key == "unflushed") unflushed = *number;
    if (key == "loaded") loaded_at_exit = *number;
    if (key == "utime") user_ns = number;
    if (key == "stime") system_ns = number;
    if (key == "run_ns") time.run_ns = number;
    if (key == "ready_ns") time.ready_ns = number;
    if (key == "ready_of_ns") time.ready_of_ns = number;
  });
  if (user_ns && system_ns) time.run_ns = *user_ns + *system_ns;
  at_exit = has_read && has_written ? std::optional(bytes) : std::nullopt;
}

void AccountedProcess::take_ledger(std::string_view json) {
  each_member_of(json, [&](std::string_view key, const Value &value) {
    if (key == "base") base = count_pair(value);
    if (key == "own") own = count_pair(value);
    if (key == "reaped") reaped = count_pair(value);
    if (key == "done") done = count_pair(value);
    const auto number = whole(value);
    if (!number || *number > kMostCounted || *number < -kMostCounted) return;
    if (key == "ahead") ahead = *number;
    if (key == "ahead_before") ahead_before = *number;
    if (key == "loaded") loaded = *number;
    if (key == "executing") executing = *number;
    if (key == "ring") has_ring = *number != 0;
    if (key == "untaken") has_untaken = *number != 0;
  });
}

void AccountedProcess::take_start(std::string_view json) {
  each_member_of(json, [&](std::string_view key, const Value &value) {
    if (key == "exe" && exe.empty() && value.kind == Value::Kind::kString) {
      std::string scratch;
      exe = text_of(value, &scratch);
    }
    if (key == "ppid" && !life.ppid) life.ppid = whole(value);
    if (key == "runtime") is_go = value.kind == Value::Kind::kString && value.text == "go";
    if (key == "no_journal" && value.kind == Value::Kind::kObject) no_journal = journal_reason(value.text);
  });
}

std::vector<AccountRow> accounts(const std::vector<AccountedProcess> &processes,
                                 const std::vector<AccountedWait> &waits, const std::vector<FoundObstacle> &obstacles,
                                 const std::function<std::string(const AccountedWait &)> &unreadable) {
  return Ledgers(processes, waits, obstacles).rows(unreadable);
}

AccountTotal total(const std::vector<AccountRow> &rows) {
  AccountTotal out;
  bool is_known = false;
  for (const AccountRow &row : rows) {
    const bool is_traced = row.process >= 0;
    out.processes += is_traced;
    out.accounted += is_traced && row.source != nullptr;
    out.left_out += row.source != nullptr && !row.share;
    if (!row.share) continue;
    is_known = true;
    out.untraced += !is_traced;
    out.below += *row.share < kCompleteShare;
    out.ahead += row.ahead;
    // Bytes in the trace beyond the kernel's account of one process don't offset missing bytes of another.
    const Counts2 kernel = row.kernel.value_or(Counts2{});
    for (size_t way = 0; way < 2; ++way) {
      out.kernel[way] += kernel[way];
      out.captured[way] += std::min(row.captured[way], kernel[way]);
    }
  }
  const int64_t moved = sum(out.kernel);
  if (is_known) out.share = moved != 0 ? static_cast<double>(sum(out.captured)) / static_cast<double>(moved) : 1.0;
  return out;
}

bool is_short(const AccountRow &row) {
  // Whatever the share is: the kernel's account has no part of it, or there is none of the calls.
  const bool hides = row.cause_key == "ring" || row.cause_key == "no_journal" || row.cause_key == "gave_way";
  return row.share && (*row.share < kCompleteShare || hides);
}

std::vector<CauseGroup> by_cause(const std::vector<AccountRow> &rows) {
  std::vector<size_t> order;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (is_short(rows[i])) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const int64_t x = missing_bytes(rows[a]), y = missing_bytes(rows[b]);
    return x != y ? x > y : std::tie(rows[a].host, rows[a].pid) < std::tie(rows[b].host, rows[b].pid);
  });
  std::vector<CauseGroup> out;
  std::map<std::pair<std::string, bool>, size_t> places;
  for (const size_t at : order) {
    const AccountRow &row = rows[at];
    // Causes of one kind may have words of their own: those of the one that misses most stand for all.
    const auto [place, is_new] = places.emplace(std::make_pair(row.cause_key, row.process >= 0), out.size());
    if (is_new) {
      CauseGroup group;
      group.cause_key = row.cause_key, group.cause = row.cause;
      out.push_back(std::move(group));
    }
    CauseGroup &group = out[place->second];
    ++group.processes;
    group.accounted_bytes += sum(row.kernel.value_or(Counts2{}));
    group.missing_bytes += missing_bytes(row);
    group.rows.push_back(at);
    if (group.program.empty()) group.program = program_of(row);
  }
  for (CauseGroup &group : out) {
    const CauseRow *row = find_cause(group.cause_key);
    group.advice = row != nullptr ? std::string(row->advice) : "";
    const std::string_view mark = "{program}";
    if (const size_t at = group.advice.find(mark); at != std::string::npos)
      group.advice.replace(at, mark.size(), group.program.empty() ? "PROGRAM" : group.program);
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const CauseGroup &a, const CauseGroup &b) { return a.missing_bytes > b.missing_bytes; });
  return out;
}

}  // namespace tailrace::native
