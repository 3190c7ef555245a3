// See dftracer.h.
#include "dftracer.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <optional>

#include "dftracer_line.h"
#include "foreign_lines.h"
#include "format/functions.h"
#include "json.h"
#include "numbers.h"

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

constexpr int kSniffLines = 8;

struct Call {
  std::string name, cat;
  Direction direction;
  Shape shape;
  uint32_t traits;
};

// The core's name of a libc function, by its symbol: open64 is open, __xstat is stat, waitpid is PROCESS's wait.
const Call *call_of(const std::string &symbol) {
  static const auto *const calls = [] {
    auto *made = new std::unordered_map<std::string, Call>;
    for (size_t i = 1; i < kFunctionCount; ++i) {
      const Function &f = function(static_cast<Fn>(i));
      if (f.symbol.empty()) continue;
      made->emplace(std::string(f.symbol),
                    Call{std::string(f.name), std::string(f.category), f.direction, f.shape, f.traits});
    }
    return made;
  }();
  const auto found = calls->find(symbol);
  return found == calls->end() ? nullptr : &found->second;
}

// open(2)'s flags for a mode of fopen(3); generic values (docs/trace-format.md).
int64_t flags_of_mode(const std::string &mode) {
  const bool update = mode.find('+') != std::string::npos;
  int64_t flags = update ? 2 : mode[0] == 'r' ? 0 : 1;
  if (mode[0] == 'w') flags |= 0100 | 01000;
  if (mode[0] == 'a') flags |= 0100 | 02000;
  return flags;
}

class Converter {
 public:
  Converter(const DFTracerNames &names, const DFTracerFile &file, const std::string &target)
      : names_(names), file_(file), writer_(target) {
    for (const auto &[pid, start] : file.starts) {
      if (const std::string *cwd = name("FH", start.cwd)) cwd_[pid] = *cwd;
    }
  }

  DFTracerResult run() {
    ForeignLines lines(file_.path);
    std::string_view text;
    Line line;
    uint64_t count = 0;
    while (lines.next(&text)) {
      const Parsed parsed = parse(text, &line);
      if (parsed == Parsed::kBroken) ++result_.losses["not_json"];
      if (parsed == Parsed::kObject) one(line);
      if ((++count & 0xFFF) == 0) names_.check_memory(file_.path, writer_.memory());
    }
    if (lines.torn()) ++result_.losses["torn"];
    names_.check_memory(file_.path, writer_.memory());
    result_.sums = writer_.finish();
    return std::move(result_);
  }

 private:
  void one(const Line &line) {
    switch (line.phase) {
      case Phase::kCall:
        if (is_hash_kind(line.name)) return;
        call(line);
        return;
      case Phase::kAggregated: call(line); return;
      case Phase::kMetadata: return;
      case Phase::kCounter: ++result_.losses["counters"]; return;
      case Phase::kOther: ++result_.losses["unknown"]; return;
    }
  }

  const std::string *name(const char *kind, const std::string &hash) const {
    return hash.empty() ? nullptr : names_.find(file_, kind + hash);
  }

  int64_t unit_of(int64_t pid) const {
    const auto found = file_.unit_ns.find(pid);
    if (found != file_.unit_ns.end()) return found->second;
    return file_.unit_ns.size() == 1 ? file_.unit_ns.begin()->second : 1000;
  }

  int32_t process(const Line &line, int64_t pid) {
    const std::string hash = text_in(line[Key::kHostHash]);
    if (pid == last_pid_ && hash == last_hash_ && last_process_ >= 0 && !line.has(Key::kHostName)) return last_process_;
    std::string host = text_in(line[Key::kHostName]);
    if (host.empty()) {
      const std::string *found = name("HH", hash);
      host = found != nullptr ? *found : only_host();
    }
    last_pid_ = pid;
    last_hash_ = hash;
    last_process_ = writer_.process(host, pid, "", "");
    if (with_facts_.emplace(last_process_, true).second) writer_.set_facts(last_process_, facts_of(pid));
    return last_process_;
  }

  // The host of events that name none: of a trace without arguments, where the file knows one host.
  const std::string &only_host() {
    if (only_host_) return *only_host_;
    only_host_.emplace();
    for (const auto &[key, value] : file_.names) {
      if (key.compare(0, 2, "HH") != 0) continue;
      if (!only_host_->empty() && *only_host_ != value) return only_host_.emplace();
      only_host_ = value;
    }
    return *only_host_;
  }

  std::string facts_of(int64_t pid) const {
    const auto found = file_.starts.find(pid);
    if (found == file_.starts.end()) return "";
    const DFTracerFile::Start &start = found->second;
    std::string out = "{";
    const auto add = [&out](const char *key) { out.append(out.size() > 1 ? "," : "").append(key); };
    if (start.ppid >= 0) {
      add("\"ppid\":");
      out.append(std::to_string(start.ppid));
    }
    if (const std::string *program = name("SH", start.program)) {
      add("\"exe\":");
      put_json(*program, &out);
    }
    if (const auto cwd = cwd_.find(pid); cwd != cwd_.end()) {
      add("\"cwd\":");
      put_json(cwd->second, &out);
    }
    if (const std::string *command = name("SH", start.command)) {
      add("\"argv\":[");
      size_t from = 0;
      for (;;) {  // words are joined by semicolons
        const size_t to = command->find(';', from);
        put_json(std::string_view(*command).substr(from, to == std::string::npos ? to : to - from), &out);
        if (to == std::string::npos) break;
        out.push_back(',');
        from = to + 1;
      }
      out.push_back(']');
    }
    return out.size() > 1 ? out + "}" : "";
  }

  std::string absolute(const std::string &path, int64_t pid) const {
    if (path.empty() || path[0] == '/') return path;
    const auto cwd = cwd_.find(pid);
    if (cwd == cwd_.end()) return path;
    size_t from = 0;
    while (path.compare(from, 2, "./") == 0) from += 2;
    return path.substr(from) == "." ? cwd->second : cwd->second + (cwd->second == "/" ? "" : "/") + path.substr(from);
  }

  // The file that a hash or a name means, -1: none.
  int32_t file_of(const Value &hash, const Value &plain, int64_t pid, bool failed) {
    std::string path;
    if (hash.kind != Value::Kind::kNull) {
      const std::string key = text_in(hash);
      const std::string *found = name("FH", key);
      if (found == nullptr) {
        if (file_.ambiguous.count("FH" + key) != 0) ++result_.losses["ambiguous"];
        return -1;
      }
      path = *found;
    } else if (plain.kind == Value::Kind::kString) {
      path = text_in(plain);
    }
    return path.empty() ? -1 : writer_.file(absolute(path, pid), failed ? "none" : "");
  }

  int32_t context_of(const Line &line) {
    constexpr std::pair<const char *, Key> kTags[] = {{"workflow", Key::kWorkflow},
                                                      {"stage", Key::kStage},
                                                      {"task", Key::kTask},
                                                      {"job", Key::kJob},
                                                      {"rank", Key::kRank}};
    std::string tags, members;
    for (const auto &[tag, key] : kTags) {
      if (line[key].kind != Value::Kind::kString) continue;
      std::string scratch;
      const std::string text(clean_utf8(text_in(line[key]), &scratch));
      if (text.empty()) continue;
      tags.append(tags.empty() ? "" : ",").append(tag).push_back('=');
      for (const char c : text) {
        if (std::isalnum(static_cast<unsigned char>(c)) != 0 || std::strchr("_.:/@+-", c) != nullptr) {
          tags.push_back(c);
        } else {
          constexpr char kDigits[] = "0123456789ABCDEF";
          const auto byte = static_cast<unsigned char>(c);
          tags.append({'%', kDigits[byte >> 4], kDigits[byte & 15]});
        }
      }
      members.append(",\"").append(tag).append("\":");
      put_json(text, &members);
    }
    return tags.empty() ? 0 : writer_.context(tags, members);
  }

  void call(const Line &line) {
    const int64_t pid = std::clamp<int64_t>(integer_in(line.pid).value_or(0), INT32_MIN, INT32_MAX);
    const int64_t unit = unit_of(pid);
    ForeignEvent e;
    const bool libc = line.cat == "POSIX" || line.cat == "STDIO";
    const Call *known = libc ? call_of(line.name) : nullptr;
    e.name = known != nullptr ? std::string_view(known->name) : std::string_view(line.name);
    e.cat = known != nullptr ? std::string_view(known->cat) : std::string_view(line.cat);
    e.tid = std::clamp<int64_t>(integer_in(line.tid).value_or(0), INT32_MIN, INT32_MAX);
    e.ts_ns = time_in(line.ts, unit);
    e.dur_ns = time_in(line.dur, unit);
    const int32_t process_number = process(line, pid);
    if (libc && !line.has_args) ++result_.losses["no_arguments"];
    const std::optional<int64_t> ret = integer_in(line[Key::kRet]);
    const bool aggregated = line.phase == Phase::kAggregated;
    const bool failed = libc && ret && *ret == -1 && !aggregated;
    e.file = file_of(line[Key::kFileHash], line[Key::kFileName], pid, failed);
    if (line.has(Key::kNewPath)) e.file2 = file_of(line[Key::kNewPath], Value(), pid, failed);
    if (aggregated) {
      aggregate(line, known, pid, unit, &e);
    } else {
      e.ret = ret;
      arguments(line, known, &e);
    }
    e.context = context_of(line);
    std::string more;
    if (line[Key::kRegion].kind == Value::Kind::kString) {
      more = ",\"region\":";
      put_json(text_in(line[Key::kRegion]), &more);
      e.more = more;
    }
    if (known != nullptr && known->name == "chdir" && !failed && e.file >= 0) changed_directory(line, pid);
    writer_.event(process_number, e);
  }

  void changed_directory(const Line &line, int64_t pid) {
    const std::string *found = name("FH", text_in(line[Key::kFileHash]));
    if (found != nullptr) cwd_[pid] = absolute(*found, pid);
  }

  static std::string_view text_of_direction(Direction direction) {
    return direction == Direction::R ? "r" : direction == Direction::W ? "w" : direction == Direction::RW ? "rw" : "";
  }

  static std::optional<int64_t> times(std::optional<int64_t> a, std::optional<int64_t> b) {
    int64_t product;
    if (!a || !b || __builtin_mul_overflow(*a, *b, &product)) return std::nullopt;
    return product;
  }

  static bool moves(const Call *known) {
    return known != nullptr && known->direction != Direction::N &&
           (known->shape == Shape::kTransfer || known->shape == Shape::kItems || known->shape == Shape::kMessages);
  }

  static void arguments(const Line &line, const Call *known, ForeignEvent *e) {
    const std::optional<int64_t> count = integer_in(line[Key::kCount]), offset = integer_in(line[Key::kOffset]),
                                 length = integer_in(line[Key::kLength]);
    e->count = count ? count : length;
    e->offset = offset;
    e->flags = integer_in(line[Key::kFlags]);
    if (known == nullptr) return;
    if (moves(known)) {
      e->direction = text_of_direction(known->direction);
      if (e->ret) e->size = std::max<int64_t>(*e->ret, 0);
      if (known->shape == Shape::kItems) {
        const int64_t item = integer_in(line[Key::kSize]).value_or(1);
        e->size = times(e->size, item);
        e->count = times(e->count, item);
      }
    }
    if ((known->traits & trait::kOpens) != 0 && !e->flags && line[Key::kMode].kind == Value::Kind::kString) {
      const std::string mode = text_in(line[Key::kMode]);
      if (!mode.empty()) e->flags = flags_of_mode(mode);
    }
    if ((known->traits & trait::kTruncates) != 0) e->offset = length, e->count = std::nullopt;
    if (known->shape == Shape::kSeek) e->offset = e->ret;
  }

  // An aggregated event: the calls of a function in an interval, without their files.
  void aggregate(const Line &line, const Call *known, int64_t pid, int64_t unit, ForeignEvent *e) const {
    const int64_t calls = std::clamp<int64_t>(integer_in(line[Key::kCalls]).value_or(1), 1, INT32_MAX);
    e->lines = e->calls = calls;
    e->dur_ns = time_in(line.has(Key::kDurSum) ? line[Key::kDurSum] : line[Key::kDur], unit);
    int64_t end_ns = plus(e->ts_ns, file_.interval_ns);
    const auto start = file_.starts.find(pid);
    if (start != file_.starts.end()) {
      e->ts_ns = std::max(e->ts_ns, start->second.ts_ns);
      end_ns = std::min(end_ns, start->second.end_ns);
    }
    e->span_ns = end_ns > e->ts_ns ? minus(end_ns, e->ts_ns) : 0;
    const auto total = [&line](Key sum, Key one) { return integer_in(line.has(sum) ? line[sum] : line[one]); };
    const std::optional<int64_t> ret = total(Key::kRetSum, Key::kRet), count = total(Key::kCountSum, Key::kCount);
    if (!moves(known)) return;
    e->direction = text_of_direction(known->direction);
    if (ret) e->size = std::max<int64_t>(*ret, 0);
    e->count = count;
    if (known->shape == Shape::kItems) {
      // Items of different sizes can't be told apart.
      const std::optional<int64_t> least = total(Key::kSizeMin, Key::kSize), most = total(Key::kSizeMax, Key::kSize);
      const std::optional<int64_t> item = least == most ? least : std::nullopt;
      e->size = times(e->size, item);
      e->count = times(e->count, item);
    }
    if (calls == 1) e->ret = ret;
  }

  const DFTracerNames &names_;
  const DFTracerFile &file_;
  ForeignWriter writer_;
  DFTracerResult result_;
  std::unordered_map<int64_t, std::string> cwd_;
  std::unordered_map<int32_t, bool> with_facts_;
  std::optional<std::string> only_host_;
  int64_t last_pid_ = 0;
  std::string last_hash_;
  int32_t last_process_ = -1;
};

}  // namespace

DFTracerResult convert_dftracer(const DFTracerNames &names, const DFTracerFile &file, const std::string &target) {
  return Converter(names, file, target).run();
}

bool is_dftracer(const std::string &path) {
  ForeignLines lines(path);
  std::string_view text;
  Line line;
  int found = 0;
  for (int i = 0; i < kSniffLines && lines.next(&text); ++i) {
    const Parsed parsed = parse(text, &line);
    if (parsed != Parsed::kObject) continue;
    if (!line.complete) return false;
    ++found;
  }
  return found > 0;
}

}  // namespace tailrace::native
