// See summary.h. A traced program may write into its run: a header is believed no more than it says of itself.
#include "summary.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <set>
#include <tuple>

#include "core_here.h"
#include "fault.h"
#include "files.h"
#include "format/node_file.h"
#include "json.h"
#include "saturating.h"
#include "trace_file.h"
#include "words.h"

namespace tailrace::launcher {
namespace {

using native::JsonError;
using native::minus;
using native::plus;
using native::Value;

// So many headers are held in memory at once.
constexpr size_t kBlocksAtOnce = 4096;
constexpr char kTraceSuffix[] = ".pfw.gz";
constexpr int kMostErrno = 4096;

// A text in the form that native/json.h reads: in one line, with bytes behind it.
std::string padded(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  text += '\n';
  text.append(native::kPadBytes, '\0');
  return text;
}

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
  if (value.kind != Value::Kind::kArray) throw JsonError("totals are no list");
  const char *p = native::skip_blanks(value.text.data() + 1);
  Value parts[2];
  for (Value &part : parts) {
    p = native::skip_blanks(native::read_value(p, &part));
    if (*p == ',') p = native::skip_blanks(p + 1);
  }
  if (*p != ']') throw JsonError("totals are two numbers");
  return {number(parts[0]), number(parts[1])};
}

// Why a process could make no journal, by the fact of its start event.
// tailrace.analyzer.util.no_journal.reason() is the same for Python.
std::string journal_reason(std::string_view fact) {
  std::string place = "its directory";
  int64_t error = 0;
  native::each_member(padded(std::string(fact)).data(), [&](std::string_view key, const Value &value) {
    if (key == "errno" && value.kind == Value::Kind::kNumber) error = number(value);
    if (key != "dir" || value.kind != Value::Kind::kString) return;
    place = string(value);
    // Below the place are the user's directory and the run's.
    for (int i = 0; i < 2; ++i) {
      const size_t slash = place.rfind('/');
      place = slash == std::string::npos ? "." : place.substr(0, std::max<size_t>(slash, 1));
    }
  });
  const bool known = error > 0 && error < kMostErrno;
  return "no journal: " + place + ": " + (known ? std::strerror(static_cast<int>(error)) : "unknown error");
}

// Whether one of a block's contexts has the tag.
bool has_tag(const std::string &header, const std::string &tag) {
  bool found = false;
  const std::string text = padded(header);
  native::each_member(text.data(), [&](std::string_view key, const Value &value) {
    if (key != "contexts" || value.kind != Value::Kind::kArray) return;
    const char *p = native::skip_blanks(value.text.data() + 1);
    while (*p != ']') {
      Value context;
      p = native::skip_blanks(native::read_value(p, &context));
      found = found || ("," + string(context) + ",").find("," + tag + ",") != std::string::npos;
      if (*p == ',') p = native::skip_blanks(p + 1);
    }
  });
  return found;
}

// Adds a block; returns its process.
ProcessName add_header(Summary &summary, const std::string &header) {
  const std::string text = padded(header);
  int64_t events = 0, read = 0, written = 0, totals_lines = 0, stood_for = 0;
  std::vector<std::pair<std::string, uint64_t>> lost;
  std::optional<std::string> no_journal;
  ProcessName process;
  size_t found = 0;
  native::each_member(text.data(), [&](std::string_view key, const Value &value) {
    if (key == "events") events = number(value), ++found;
    if (key == "read") read = number(value), ++found;
    if (key == "written") written = number(value), ++found;
    if (key == "host") process.host = string(value), ++found;
    if (key == "pid") process.pid = std::to_string(number(value)), ++found;
    if (key == "start") process.start = string(value), ++found;
    if (key == "totals") std::tie(totals_lines, stood_for) = totals(value);
    if (key == "lost") {
      native::each_member(value.text.data(), [&](std::string_view cause, const Value &count) {
        lost.emplace_back(cause, static_cast<uint64_t>(std::max<int64_t>(0, number(count))));
      });
    }
    if (key == "process") {
      native::each_member(value.text.data(), [&](std::string_view fact, const Value &about) {
        if (fact == "no_journal" && about.kind == Value::Kind::kObject) no_journal = journal_reason(about.text);
      });
    }
  });
  if (found != 6) throw JsonError("events, read, written, host, pid or start is missing");
  // Lines of totals stand for others.
  events = plus(minus(events, totals_lines), stood_for);
  summary.events = plus(summary.events, std::max<int64_t>(0, events));
  summary.read_bytes = plus(summary.read_bytes, std::max<int64_t>(0, read));
  summary.written_bytes = plus(summary.written_bytes, std::max<int64_t>(0, written));
  for (const auto &[cause, count] : lost) {
    // Of how many events nobody knows.
    if (cause == kLossNames[static_cast<int>(Loss::kGaveWay)]) {
      summary.gave_way += count;
    } else {
      summary.lost.add(cause, count);
    }
  }
  if (no_journal) summary.without_journal.add(*no_journal, 1);
  return process;
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
  for (const auto &[path, size] : trace_sizes(run_dir)) {
    const auto known = before.find(path);
    if (known != before.end() && known->second == size) continue;
    const bool found =
        each_block(path, known != before.end() ? known->second : 0, summary.torn_bytes, [&](const std::string &header) {
          try {
            if (tag.empty() || has_tag(header, tag)) processes.insert(add_header(summary, header));
          } catch (const JsonError &error) {
            throw Fault(Fault::Kind::kTrace, path + ": the header of a block is damaged: " + error.what());
          }
        });
    // A process's own file without a readable block is a process, too.
    summary.processes += !found && tag.empty() && is_of_one_process(last_part(path));
  }
  summary.processes += processes.size();
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
  const uint64_t lost = summary.lost.sum();
  if (lost != 0) {
    auto causes = summary.lost.all();
    std::stable_sort(causes.begin(), causes.end(), [](const auto &a, const auto &b) { return a.second > b.second; });
    std::string list;
    for (const auto &[cause, count] : causes) list += (list.empty() ? "" : ", ") + std::to_string(count) + " " + cause;
    out += ", " + count_text(lost, "event") + " LOST (" + list + ")";
  } else if (summary.without_journal.all().empty() && summary.gave_way == 0) {
    const char *said = summary.journals_removed ? ", journals removed" : ", nothing lost";
    out += summary.processes != 0 ? said : ", nothing recorded";
  }
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
    Summary ignored;
    try {
      found.insert(add_header(ignored, header));
    } catch (const JsonError &) {
      return;  // of no process of ours
    }
  });
  return {found.begin(), found.end()};
}

}  // namespace tailrace::launcher
