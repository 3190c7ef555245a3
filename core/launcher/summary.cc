// See summary.h. A traced program may write into its run: a header is believed no more than it says of itself.
#include "summary.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <set>
#include <tuple>

#include "accounts.h"
#include "core_here.h"
#include "fault.h"
#include "files.h"
#include "format/host_facts.h"
#include "format/node_file.h"
#include "json_text.h"
#include "saturating.h"
#include "trace_file.h"
#include "words.h"

namespace tailrace::launcher {
namespace {

// Of the bytes that the kernel counted: where less was seen, the last line says how much, and why.
constexpr double kSaidShare = 0.99;

using native::JsonError;
using native::minus;
using native::plus;
using native::Value;

// So many headers are held in memory at once.
constexpr size_t kBlocksAtOnce = 4096;
constexpr char kTraceSuffix[] = ".pfw.gz";

int64_t number(const Value &value) {
  if (value.kind != Value::Kind::kNumber) throw JsonError("a number is expected");
  return native::integer_of(value.text);
}

std::string string(const Value &value) {
  std::string scratch;
  return std::string(value.kind == Value::Kind::kString ? native::text_of(value, &scratch) : value.text);
}

// [events that are lines of totals, records that they stand for]
std::pair<int64_t, int64_t> totals(const Value &value) {
  std::vector<int64_t> parts;
  native::each_element(value, [&](const Value &part) { parts.push_back(number(part)); });
  if (parts.size() != 2) throw JsonError("totals are two numbers");
  return {parts[0], parts[1]};
}

// What a block's header says.
struct Header {
  int64_t events = 0, read = 0, written = 0, t0 = 0, t1 = 0, order = 0;
  native::Counts2 uncounted = {};
  ProcessName process;
  std::string facts, exit, ledger, cut_off;  // members as they are in it
  std::vector<native::AccountedWait> reaped;
  std::vector<native::FoundObstacle> untraced;
  std::vector<std::pair<std::string, uint64_t>> lost;
  std::vector<std::string> contexts;
  bool has_tag(const std::string &tag) const {
    return std::any_of(contexts.begin(), contexts.end(), [&](const std::string &tags) {
      return ("," + tags + ",").find("," + tag + ",") != std::string::npos;
    });
  }
};

void take_reaped(Header &header, const Value &rows) {
  native::each_element(rows, [&](const Value &row) {
    std::vector<std::optional<int64_t>> parts;
    native::each_element(row, [&](const Value &part) { parts.push_back(native::whole(part)); });
    if (parts.size() < 4 || !parts[0] || !parts[1]) return;
    native::AccountedWait wait;
    wait.end.pid = *parts[0], wait.end.status = *parts[1];
    if (parts[2] && parts[3]) wait.totals = native::Counts2{*parts[2], *parts[3]};
    if (parts.size() > 4) wait.end.kind = parts[4].value_or(0);
    if (parts.size() > 5) wait.own_bytes = parts[5].value_or(0);
    header.reaped.push_back(std::move(wait));
  });
}

void take_untraced(Header &header, const Value &rows) {
  native::each_element(rows, [&](const Value &row) {
    std::vector<Value> parts;
    native::each_element(row, [&](const Value &part) { parts.push_back(part); });
    const auto pid = parts.size() == 3 ? native::whole(parts[0]) : std::nullopt;
    if (!pid) return;
    native::FoundObstacle obstacle;
    obstacle.pid = *pid, obstacle.why = string(parts[1]), obstacle.program = string(parts[2]);
    header.untraced.push_back(std::move(obstacle));
  });
}

Header parsed_header(const std::string &text) {
  Header out;
  size_t found = 0;
  int64_t totals_lines = 0, stood_for = 0, epoch = 0, slots = 0;
  native::each_member(native::padded(text).data(), [&](std::string_view key, const Value &value) {
    if (key == "events") out.events = number(value), ++found;
    if (key == "read") out.read = number(value), ++found;
    if (key == "written") out.written = number(value), ++found;
    if (key == "host") out.process.host = string(value), ++found;
    if (key == "pid") out.process.pid = std::to_string(number(value)), ++found;
    if (key == "start") out.process.start = string(value), ++found;
    if (key == "t0") out.t0 = number(value);
    if (key == "t1") out.t1 = number(value);
    if (key == "epoch") epoch = number(value);
    if (key == "slots") slots = number(value);
    if (key == "uncounted") out.uncounted = native::count_pair(value).value_or(native::Counts2{});
    if (key == "process") out.facts = value.text;
    if (key == "exit") out.exit = value.text;
    if (key == "ledger") out.ledger = value.text;
    if (key == "cut_off") out.cut_off = string(value);
    if (key == "reaped") take_reaped(out, value);
    if (key == "untraced") take_untraced(out, value);
    if (key == "totals") std::tie(totals_lines, stood_for) = totals(value);
    if (key == "contexts") native::each_element(value, [&](const Value &one) { out.contexts.push_back(string(one)); });
    if (key == "lost") {
      native::each_member(value.text.data(), [&](std::string_view cause, const Value &count) {
        out.lost.emplace_back(cause, static_cast<uint64_t>(std::max<int64_t>(0, number(count))));
      });
    }
  });
  if (found != 6) throw JsonError("events, read, written, host, pid or start is missing");
  // Lines of totals stand for others.
  out.events = plus(minus(out.events, totals_lines), stood_for);
  for (int64_t *one : {&out.events, &out.read, &out.written}) *one = std::max<int64_t>(0, *one);
  out.order = plus(native::times(std::clamp<int64_t>(epoch, 0, int64_t{1} << 32), 1 << 16),
                   std::clamp<int64_t>(slots, 0, 0xFFFF));
  return out;
}

bool is_gave_way(std::string_view cause) { return cause == kLossNames[static_cast<int>(Loss::kGaveWay)]; }

// The processes of the blocks, for the coverage ledger.
class Accounting {
 public:
  // `is_chosen`: the block is one of those that are summed up.
  void add(const Header &header, bool is_chosen) {
    const auto [place, is_new] = places_.emplace(header.process, processes_.size());
    if (is_new) {
      Known made;
      made.process.life.host = header.process.host;
      made.process.life.pid = std::atoll(header.process.pid.c_str());
      made.process.start = header.process.start;
      processes_.push_back(std::move(made));
    }
    Known &known = processes_[place->second];
    native::AccountedProcess &process = known.process;
    known.is_chosen = known.is_chosen || is_chosen;
    process.captured[0] = plus(process.captured[0], minus(header.read, header.uncounted[0]));
    process.captured[1] = plus(process.captured[1], minus(header.written, header.uncounted[1]));
    if (header.events != 0) {
      process.life.begin = process.life.begin == 0 ? header.t0 : std::min(process.life.begin, header.t0);
      process.life.end = std::max(process.life.end, header.t1);
    }
    for (const auto &[cause, count] : header.lost) (is_gave_way(cause) ? process.gave_way : process.is_lossy) = true;
    // The last block of a process counts, and of its ledger the last state.
    if (!header.facts.empty() && header.t1 >= known.began) known.began = header.t1, known.facts = header.facts;
    if (!header.exit.empty() && header.t1 >= known.ended) known.ended = header.t1, known.exit = header.exit;
    if (!header.ledger.empty() && header.order >= known.counted)
      known.counted = header.order, known.ledger = header.ledger;
    if (!header.cut_off.empty()) process.cut_off = header.cut_off;
    const auto by = static_cast<int64_t>(place->second);
    for (native::AccountedWait wait : header.reaped) {
      wait.end.host = header.process.host, wait.end.waiter = by, wait.end.at = header.t1;
      waits_.push_back(std::move(wait));
    }
    for (native::FoundObstacle obstacle : header.untraced) {
      obstacle.host = header.process.host, obstacle.by = by, obstacle.at = header.t1;
      obstacles_.push_back(std::move(obstacle));
    }
  }

  void add(const CommandAccount &command) {
    native::AccountedWait wait;
    wait.end = {-1, std::string(HostName().view()), command.pid, command.status, command.ns};
    wait.totals = native::Counts2{command.read, command.written};
    if (!command.untraced.empty())
      obstacles_.push_back({wait.end.host, command.pid, command.ns, command.untraced, command.program, -1});
    waits_.push_back(std::move(wait));
  }

  void finish(Summary &summary) {
    std::vector<native::AccountedProcess> processes;
    for (Known &known : processes_) {
      known.process.take_exit(known.exit);
      known.process.take_ledger(known.ledger);
      known.process.take_start(known.facts);
      processes.push_back(known.process);
      if (known.is_chosen && !known.process.no_journal.empty())
        summary.without_journal.add(known.process.no_journal, 1);
    }
    std::stable_sort(waits_.begin(), waits_.end(), [](const auto &a, const auto &b) { return a.end.at < b.end.at; });
    auto rows = native::accounts(processes, waits_, obstacles_, [](const auto &) { return std::string(); });
    const auto is_elses = [&](const native::AccountRow &row) {
      return row.process >= 0 ? !processes_[static_cast<size_t>(row.process)].is_chosen : is_of_tag_;
    };
    rows.erase(std::remove_if(rows.begin(), rows.end(), is_elses), rows.end());
    for (const native::AccountRow &row : rows) summary.unaccounted += row.cause_key == "no_account";
    summary.missing = missing_words(rows);
  }

  explicit Accounting(bool is_of_tag) : is_of_tag_(is_of_tag) {}

 private:
  struct Known {
    native::AccountedProcess process;
    bool is_chosen = false;
    int64_t began = 0, ended = 0, counted = 0;
    std::string facts, exit, ledger;
  };

  static std::string missing_words(const std::vector<native::AccountRow> &rows) {
    const auto groups = native::by_cause(rows);
    const native::AccountTotal sums = native::total(rows);
    if (groups.empty() || !sums.share) return "";
    // What misses most is named, unless the kernel's numbers have no part of it.
    const native::CauseGroup &first = groups.front();
    const bool is_known = *sums.share < kSaidShare;
    if (!is_known && first.cause_key != "ring" && first.cause_key != "no_journal" && first.cause_key != "gave_way")
      return "";
    std::string out =
        is_known ? "coverage " + percent_text(sums.captured[0] + sums.captured[1], sums.kernel[0] + sums.kernel[1]) +
                       " of what the kernel counted: "
                 : "";
    out += first.processes == 1 && !first.program.empty()
               ? first.program
               : count_text(static_cast<uint64_t>(first.processes), "process", "es");
    out += ": " + first.cause;
    if (!first.advice.empty()) out += " (" + first.advice + ")";
    return out;
  }

  bool is_of_tag_;
  std::map<ProcessName, size_t> places_;
  std::vector<Known> processes_;
  std::vector<native::AccountedWait> waits_;
  std::vector<native::FoundObstacle> obstacles_;
};

void add_header(Summary &summary, const Header &header) {
  summary.events = plus(summary.events, header.events);
  summary.read_bytes = plus(summary.read_bytes, header.read);
  summary.written_bytes = plus(summary.written_bytes, header.written);
  for (const auto &[cause, count] : header.lost) {
    // How many events is not known.
    if (is_gave_way(cause)) {
      summary.gave_way += count;
    } else {
      summary.lost.add(cause, count);
    }
  }
}

// Scans the blocks from `start` on. Returns whether there were any.
template <class Take>
bool each_block(const std::string &path, uint64_t start, uint64_t &torn_bytes, Take take) {
  bool found = false;
  try {
    const OwnIo own;
    const native::TraceFile file(path);
    for (;;) {
      const native::Scan scan = native::scan_blocks(file, start, kBlocksAtOnce);
      torn_bytes += scan.torn_bytes;
      found = found || !scan.blocks.empty();
      for (const native::FoundBlock &block : scan.blocks) take(block.header_json);
      if (scan.blocks.size() < kBlocksAtOnce) return found;
      start = scan.blocks.back().offset + scan.blocks.back().member_bytes;
    }
  } catch (const native::TraceFault &fault) {
    throw Fault(Fault::Kind::kTrace, fault.what());
  }
}

// A process's own file: HOST-PID-START.
bool is_of_one_process(const std::string &name) { return std::count(name.begin(), name.end(), '-') == 2; }

}  // namespace

void Counts::add(const std::string &name, uint64_t number) {
  for (auto &row : rows_) {
    if (row.first != name) continue;
    row.second += number;
    return;
  }
  rows_.emplace_back(name, number);
}

uint64_t Counts::sum() const {
  uint64_t sum = 0;
  for (const auto &row : rows_) sum += row.second;
  return sum;
}

void Summary::add_unrecorded(const SealedJournals &journals) {
  for (int i = 0; i < static_cast<int>(Loss::kCount); ++i) {
    if (journals.unrecorded_lost[i] == 0) continue;
    if (i == static_cast<int>(Loss::kGaveWay)) {
      gave_way += journals.unrecorded_lost[i];
    } else {
      lost.add(kLossNames[i], journals.unrecorded_lost[i]);
    }
  }
  journals_removed = journals_removed || journals.removed != 0;
}

bool ProcessName::operator<(const ProcessName &other) const {
  return std::tie(host, pid, start) < std::tie(other.host, other.pid, other.start);
}

Sizes trace_sizes(const std::string &run_dir) {
  Sizes sizes;
  const std::string folder = run_dir + "/trace";
  std::vector<std::string> names;
  try {
    names = names_in(folder);
  } catch (const Fault &) {
    return sizes;  // removed meanwhile
  }
  const std::string inside = folder + "/";
  for (const std::string &name : names) {
    struct stat status;
    const std::string path = inside + name;
    if (ends_with(name, kTraceSuffix) && ::lstat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode))
      sizes[path] = static_cast<uint64_t>(status.st_size);
  }
  return sizes;
}

Sizes whole_sizes(const std::string &run_dir) {
  Sizes sizes = trace_sizes(run_dir);
  if (sizes.empty()) return sizes;
  const OwnIo own;
  const std::string folder = run_dir + "/trace";
  NodeFile node;
  node.open_directory(folder.c_str());
  std::pair<Sizes &, const std::string &> to(sizes, folder);
  const auto take = [](void *found, const char *name, uint64_t end) {
    auto &[known, where] = *static_cast<decltype(to) *>(found);
    const auto at = known.find(where + "/" + name);
    if (at != known.end()) at->second = std::min(at->second, end);
  };
  node.each_unfinished(take, &to);
  return sizes;
}

void add_blocks(Summary &summary, const std::string &run_dir, const Sizes &before, const std::string &tag) {
  std::set<ProcessName> processes;
  Accounting accounting(!tag.empty());
  for (const auto &[path, size] : trace_sizes(run_dir)) {
    const auto known = before.find(path);
    if (known != before.end() && known->second == size) continue;
    const bool found =
        each_block(path, known != before.end() ? known->second : 0, summary.torn_bytes, [&](const std::string &text) {
          try {
            const Header header = parsed_header(text);
            const bool is_chosen = tag.empty() || header.has_tag(tag);
            accounting.add(header, is_chosen);
            if (!is_chosen) return;
            add_header(summary, header);
            processes.insert(header.process);
          } catch (const JsonError &error) {
            throw Fault(Fault::Kind::kTrace, path + ": the header of a block is damaged: " + error.what());
          }
        });
    // A process's own file without a readable block is a process, too, unless nothing was ever written to it.
    summary.processes += !found && size != 0 && tag.empty() && is_of_one_process(last_part(path));
  }
  summary.processes += processes.size();
  if (summary.command) accounting.add(*summary.command);
  accounting.finish(summary);
}

// What of the run is not there; "nothing lost" only where the kernel's accounts say so.
static std::string describe_losses(const Summary &summary) {
  const uint64_t lost = summary.lost.sum();
  std::string out;
  if (lost != 0) {
    auto causes = summary.lost.all();
    std::stable_sort(causes.begin(), causes.end(), [](const auto &a, const auto &b) { return a.second > b.second; });
    std::string list;
    for (const auto &[cause, count] : causes) list += (list.empty() ? "" : ", ") + std::to_string(count) + " " + cause;
    out = ", " + count_text(lost, "event") + " LOST (" + list + ")";
  }
  if (!summary.missing.empty()) out += ", " + summary.missing;
  if (!out.empty() || !summary.without_journal.all().empty() || summary.gave_way != 0) return out;
  if (summary.processes == 0) return ", nothing recorded";
  if (summary.journals_removed) return ", journals removed";
  if (summary.unaccounted == 0) return ", nothing lost";
  return ", no loss known (" + count_text(summary.unaccounted, "process", "es") + " without byte accounting)";
}

std::string describe(const Summary &summary) {
  const auto amount = [](int64_t bytes) { return bytes_text(static_cast<uint64_t>(std::max<int64_t>(0, bytes))); };
  std::string out = count_text(static_cast<uint64_t>(std::max<int64_t>(0, summary.events)), "event") + " of " +
                    count_text(summary.processes, "process", "es") + ", " + amount(summary.read_bytes) + " read, " +
                    amount(summary.written_bytes) + " written";
  if (summary.alive != 0) out += ", " + count_text(summary.alive, "process", "es") + " still running";
  for (const auto &[reason, count] : summary.without_journal.all())
    out += ", " + count_text(count, "process", "es") + " recorded nothing (" + reason + ")";
  if (summary.gave_way != 0)
    out += ", " + count_text(summary.gave_way, "process", "es") + " recorded in part (memory mapped over the tracer's)";
  out += describe_losses(summary);
  if (summary.torn_bytes != 0) out += ", " + bytes_text(summary.torn_bytes) + " of torn blocks";
  return out;
}

std::vector<ProcessName> processes_in(const std::string &trace_file) {
  std::string name = last_part(trace_file);
  if (ends_with(name, kTraceSuffix)) name.resize(name.size() - (sizeof kTraceSuffix - 1));
  if (is_of_one_process(name)) {
    const size_t first = name.find('-'), second = name.rfind('-');
    return {{name.substr(0, first), name.substr(first + 1, second - first - 1), name.substr(second + 1)}};
  }
  std::set<ProcessName> found;
  uint64_t torn_bytes = 0;
  each_block(trace_file, 0, torn_bytes, [&](const std::string &header) {
    try {
      found.insert(parsed_header(header).process);
    } catch (const JsonError &) {
      return;  // of no process of ours
    }
  });
  return {found.begin(), found.end()};
}

}  // namespace tailrace::launcher
