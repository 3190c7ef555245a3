// The first pass over DFTracer's traces: names, units of times and starts of processes (see dftracer.h).
#include <algorithm>
#include <cstdlib>

#include "dftracer.h"
#include "dftracer_line.h"
#include "foreign_lines.h"

namespace tailrace::native {

using dftracer::integer_in;
using dftracer::is_hash_kind;
using dftracer::Key;
using dftracer::Line;
using dftracer::parse;
using dftracer::Parsed;
using dftracer::Phase;
using dftracer::text_in;
using dftracer::time_in;

namespace {

constexpr size_t kNameBytes = 200;  // of a name in a table, without its characters

struct Unit {
  std::string_view metric;
  int64_t ns;
};
constexpr Unit kUnits[] = {{"NS", 1}, {"US", 1000}, {"MS", 1'000'000}, {"SEC", 1'000'000'000}};

// The first value of "name" in a line, as it is spelled: enough to tell what need not be parsed for its metadata.
std::string_view spelled_name(std::string_view line) {
  constexpr std::string_view kKey = "\"name\"";
  const size_t at = line.find(kKey);
  if (at == std::string_view::npos) return {};
  size_t from = at + kKey.size();
  while (from < line.size() && (line[from] == ' ' || line[from] == ':')) ++from;
  if (from >= line.size() || line[from] != '"') return {};
  const size_t to = line.find('"', from + 1);
  return to == std::string_view::npos ? std::string_view() : line.substr(from + 1, to - from - 1);
}

}  // namespace

std::shared_ptr<DFTracerFile> DFTracerNames::scan(const std::string &path) const {
  auto file = std::make_shared<DFTracerFile>();
  file->path = path;
  ForeignLines lines(path);
  std::string_view text;
  Line line;
  while (lines.next(&text)) {
    const std::string_view spelled = spelled_name(text);
    const bool is_hash = is_hash_kind(spelled);
    if (!is_hash && spelled != "CM" && spelled != "start" && spelled != "end") continue;
    if (parse(text, &line) != Parsed::kObject) continue;
    const int64_t pid = integer_in(line.pid).value_or(0);
    if (is_hash && line.phase == Phase::kMetadata) {
      const std::string key = line.name + text_in(line[Key::kValue]), name = text_in(line[Key::kName]);
      const auto [at, is_new] = file->names.emplace(key, name);
      if (is_new) file->bytes += 2 * (key.size() + kNameBytes) + name.size();
      if (!is_new && at->second != name) file->ambiguous[key] = true;
      check_memory(path, file->bytes);
    } else if (spelled == "CM" && line.phase == Phase::kMetadata && text_in(line[Key::kName]) == "time_metric") {
      const std::string metric = text_in(line[Key::kValue]);
      const auto *unit =
          std::find_if(std::begin(kUnits), std::end(kUnits), [&](const Unit &u) { return u.metric == metric; });
      if (unit == std::end(kUnits)) {
        throw TraceFault(path + ": the unit of its times is \"" + metric + "\": NS, US, MS and SEC are known");
      }
      file->unit_ns[pid] = unit->ns;
    } else if (line.cat == "dftracer" && line.phase == Phase::kCall) {
      const auto unit = file->unit_ns.find(pid);
      const int64_t ts_ns = time_in(line.ts, unit == file->unit_ns.end() ? 1000 : unit->second);
      DFTracerFile::Start &start = file->starts[pid];
      if (spelled == "start") {
        start.cwd = text_in(line[Key::kCwd]);
        start.command = text_in(line[Key::kCommand]);
        start.program = text_in(line[Key::kProgram]);
        start.ppid = integer_in(line[Key::kPpid]).value_or(-1);
        start.ts_ns = ts_ns;
      } else {
        start.end_ns = ts_ns;
        constexpr std::string_view kInterval = "\"trace_interval_ms\":";
        const size_t at = text.find(kInterval);
        if (at != std::string_view::npos) {
          const int64_t ms = std::strtoll(text.data() + at + kInterval.size(), nullptr, 10);
          if (ms > 0 && ms < 86'400'000) file->interval_ns = ms * 1'000'000;
        }
      }
    }
  }
  for (const auto &[key, is_ambiguous] : file->ambiguous) file->names.erase(key);
  return file;
}

void DFTracerNames::add(const std::shared_ptr<DFTracerFile> &file) {
  bytes_ += file->bytes;
  check_memory(file->path, 0);
  files_.push_back(file);
  for (const auto &[key, name] : file->names) {
    const auto [at, is_new] = all_.emplace(key, &name);
    if (!is_new && at->second != nullptr && *at->second != name) at->second = nullptr;
  }
}

const std::string *DFTracerNames::find(const DFTracerFile &file, const std::string &key) const {
  const auto own = file.names.find(key);
  if (own != file.names.end()) return &own->second;
  if (file.ambiguous.count(key) != 0) return nullptr;
  const auto found = all_.find(key);
  return found == all_.end() ? nullptr : found->second;
}

void DFTracerNames::check_memory(const std::string &path, size_t bytes) const {
  if (bytes_ + bytes <= most_bytes_) return;
  throw TraceFault(path + ": reading it takes more than " + std::to_string(most_bytes_ / 1'000'000) +
                   " MB, half of the memory that is left: read it where there is more, or move it out of its folder");
}

}  // namespace tailrace::native
