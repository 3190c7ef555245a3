// See dftracer_line.h.
#include "dftracer_line.h"

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <unordered_map>

#include "numbers.h"

namespace tailrace::native::dftracer {

namespace {

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

Phase phase_of(const Value &value) {
  if (value.text == "X" || value.text == "1") return Phase::kCall;
  if (value.text == "M" || value.text == "4") return Phase::kMetadata;
  if (value.text == "3") return Phase::kAggregated;
  if (value.text == "C" || value.text == "2") return Phase::kCounter;
  return Phase::kOther;
}

}  // namespace

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

}  // namespace tailrace::native::dftracer
