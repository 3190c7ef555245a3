// See dftracer.h.
#include "dftracer.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "foreign_lines.h"
#include "format/functions.h"
#include "json.h"
#include "numbers.h"

namespace tailrace::native {

namespace {

constexpr size_t kNameBytes = 200;  // of a name in a table, without its characters
constexpr int kSniffLines = 8;

struct Unit {
  std::string_view metric;
  int64_t ns;
};
constexpr Unit kUnits[] = {{"NS", 1}, {"US", 1000}, {"MS", 1'000'000}, {"SEC", 1'000'000'000}};

// What a line is, by `ph`.
enum class Phase { kCall, kMetadata, kAggregated, kCounter, kOther };

enum class Key : uint8_t {
  kNone,
  kHostHash,
  kHostName,
  kFileHash,
  kFileName,
  kNewPath,
  kRet,
  kCount,
  kSize,
  kOffset,
  kLength,
  kFlags,
  kProt,
  kMode,
  kPpid,
  kCwd,
  kCommand,
  kProgram,
  kName,
  kValue,
  kCalls,
  kDur,
  kDurSum,
  kRetSum,
  kCountSum,
  kSizeMin,
  kSizeMax,
  kWorkflow,
  kStage,
  kTask,
  kJob,
  kRank,
  kRegion,
  kKeys
};

struct KeyRow {
  std::string_view text;
  Key key;
};
constexpr KeyRow kKeyRows[] = {
    {"hhash", Key::kHostHash},
    {"hostname", Key::kHostName},
    {"fhash", Key::kFileHash},
    {"fname", Key::kFileName},
    {"newpath_hash", Key::kNewPath},
    {"ret", Key::kRet},
    {"count", Key::kCount},
    {"size", Key::kSize},
    {"offset", Key::kOffset},
    {"length", Key::kLength},
    {"len", Key::kLength},
    {"flags", Key::kFlags},
    {"prot", Key::kProt},
    {"mode", Key::kMode},
    {"ppid", Key::kPpid},
    {"cwd", Key::kCwd},
    {"cmd_hash", Key::kCommand},
    {"exec_hash", Key::kProgram},
    {"name", Key::kName},
    {"value", Key::kValue},
    {"dft_cnt", Key::kCalls},
    {"dur", Key::kDur},
    {"dur_sum", Key::kDurSum},
    {"ret_sum", Key::kRetSum},
    {"count_sum", Key::kCountSum},
    {"size_min", Key::kSizeMin},
    {"size_max", Key::kSizeMax},
    {"workflow", Key::kWorkflow},
    {"stage", Key::kStage},
    {"task", Key::kTask},
    {"job", Key::kJob},
    {"rank", Key::kRank},
    {"region", Key::kRegion},
};

Key key_of(std::string_view text) {
  static const auto *const rows = [] {
    auto *made = new std::unordered_map<std::string_view, Key>;
    for (const KeyRow &row : kKeyRows) made->emplace(row.text, row.key);
    return made;
  }();
  const auto found = rows->find(text);
  return found == rows->end() ? Key::kNone : found->second;
}

// A line of the file, as far as it is needed.
struct Line {
  Phase phase = Phase::kOther;
  std::string name, cat;
  Value pid, tid, ts, dur;
  Value args[static_cast<size_t>(Key::kKeys)];
  bool has_args = false, complete = false;

  const Value &operator[](Key key) const { return args[static_cast<size_t>(key)]; }
  bool has(Key key) const { return (*this)[key].kind != Value::Kind::kNull; }
};

Phase phase_of(const Value &value) {
  if (value.text == "X" || value.text == "1") return Phase::kCall;
  if (value.text == "M" || value.text == "4") return Phase::kMetadata;
  if (value.text == "3") return Phase::kAggregated;
  if (value.text == "C" || value.text == "2") return Phase::kCounter;
  return Phase::kOther;
}

enum class Parsed { kObject, kEmpty, kBroken };

Parsed parse(std::string_view text, Line *line) {
  *line = Line();
  const char *p = text.data();
  const char *const end = p + text.size();
  while (p < end && std::strchr(" \t\r,[]", *p) != nullptr && *p != '\0') ++p;
  if (p == end) return Parsed::kEmpty;
  // The end of the file may be a line without a newline.
  std::string scratch;
  int seen = 0;
  bool has_args = false;
  try {
    p = each_member(p, [&](std::string_view key, const Value &value) {
      if (key == "name") {
        line->name = text_of(value, &scratch);
        ++seen;
      } else if (key == "cat") {
        line->cat = text_of(value, &scratch);
        ++seen;
      } else if (key == "ph") {
        line->phase = phase_of(value);
        ++seen;
      } else if (key == "pid") {
        line->pid = value;
        ++seen;
      } else if (key == "tid") {
        line->tid = value;
      } else if (key == "ts") {
        line->ts = value;
      } else if (key == "dur") {
        line->dur = value;
      } else if (key == "args" && value.kind == Value::Kind::kObject) {
        has_args = true;
        each_member(value.text.data(),
                    [&](std::string_view arg, const Value &of) { line->args[static_cast<size_t>(key_of(arg))] = of; });
      }
    });
    p = skip_blanks(p);
    while (p < end && std::strchr(" \t\r,]", *p) != nullptr && *p != '\0') ++p;
    if (p != end) return Parsed::kBroken;
  } catch (const JsonError &) {
    return Parsed::kBroken;
  }
  line->has_args = has_args;
  line->complete = seen == 4;
  return Parsed::kObject;
}

std::string text_in(const Value &value) {
  if (value.kind == Value::Kind::kNumber) return std::string(value.text);
  if (value.kind != Value::Kind::kString) return "";
  std::string scratch;
  return std::string(text_of(value, &scratch));
}

// A whole number, clamped; of a fraction the whole part. Numbers may be strings (version 0).
std::optional<int64_t> integer_in(const Value &value) {
  if (value.kind != Value::Kind::kNumber && value.kind != Value::Kind::kString) return std::nullopt;
  const std::string text(value.text);
  if (text.empty() || text.find_first_not_of("+-0123456789.eE") != std::string::npos) return std::nullopt;
  if (text.find_first_of(".eE") == std::string::npos && value.kind == Value::Kind::kNumber)
    return integer_of(value.text);
  char *end = nullptr;
  errno = 0;
  if (text.find_first_of(".eE") == std::string::npos) {
    const int64_t whole = std::strtoll(text.c_str(), &end, 10);  // clamps
    return *end == '\0' ? std::optional(whole) : std::nullopt;
  }
  const double number = std::strtod(text.c_str(), &end);
  if (*end != '\0' || !std::isfinite(number) || std::fabs(number) > 9e18) return std::nullopt;
  return static_cast<int64_t>(number);
}

// A time as ns; 0 for what is no number. A fraction keeps its decimals.
int64_t time_in(const Value &value, int64_t unit_ns) {
  const std::string_view text = value.text;
  const size_t point = text.find('.');
  if (value.kind == Value::Kind::kNumber && point != std::string_view::npos &&
      text.find_first_of("eE") == std::string_view::npos && unit_ns == 1000) {
    return decimal_us_to_ns(text);
  }
  const int64_t whole = integer_in(value).value_or(0);
  int64_t ns;
  if (__builtin_mul_overflow(whole, unit_ns, &ns)) ns = whole < 0 ? INT64_MIN : INT64_MAX;
  if (point != std::string_view::npos && unit_ns > 1 && value.kind != Value::Kind::kNull) {
    const double rest = std::strtod(("0" + std::string(text.substr(point))).c_str(), nullptr);
    if (std::isfinite(rest) && rest < 1) {
      ns = plus(ns, static_cast<int64_t>(rest * static_cast<double>(unit_ns)));
    }
  }
  return ns;
}

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

bool is_hash_kind(std::string_view name) { return name == "FH" || name == "HH" || name == "SH"; }

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
