// Binds the core: tags, settings, the clock's reference, the tables of hooks.
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "format/build_info.h"
#include "format/choices.h"
#include "format/functions.h"
#include "format/redaction.h"
#include "format/seal.h"
#include "format/setting_values.h"
#include "format/settings.h"
#include "format/tags.h"
#include "format/time_kinds.h"
#include "name_key.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace tailrace::native {
namespace {

std::optional<std::string> tag_error(const std::string &tags, bool of_core) {
  TagSet set;
  size_t at;
  char text[512];
  Writer message(text, sizeof text);
  if (parse_tags(tags, set, at, message, of_core ? TagsOf::kCore : TagsOf::kUser)) return std::nullopt;
  return std::string(message.view());
}

std::string merge(const std::string &base, const std::string &over) {
  TagSet a, b;
  size_t at;
  char text[512];
  Writer message(text, sizeof text);
  if (!parse_tags(base, a, at, message, TagsOf::kCore) || !parse_tags(over, b, at, message)) {
    throw nb::value_error(std::string(message.view()).c_str());
  }
  std::vector<char> buffer(2 * kMaxTagsBytes);
  Writer out(buffer.data(), buffer.size());
  if (!merge_tags(a, b, out)) throw nb::value_error("together the tags are more than 64 or longer than 8192 bytes");
  return std::string(out.view());
}

std::string clock_reference() {
  char text[96];
  Writer w(text, sizeof text);
  write_clock_reference(w);
  return std::string(w.view());
}

std::string setting_choices(const SettingWords &setting) {
  char room[512];
  Writer out(room, sizeof room);
  write_setting_choices(setting, out);
  return std::string(out.view());
}

nb::list settings() {
  nb::list rows;
  for (size_t i = 0; i < kSettingWordsCount; ++i) {
    const SettingWords &row = kSettingWords[i];
    rows.append(nb::make_tuple(std::string(row.name), std::string(row.fallback), setting_choices(row),
                               std::string(row.values), std::string(row.doc), row.of_core));
  }
  return rows;
}

bool is_setting(const std::string &name, const std::string &value) {
  const SettingWords *setting = find_setting(name);
  return setting != nullptr && is_valid_setting(*setting, value);
}

std::vector<std::tuple<std::string, std::string, std::string>> hooks() {
  std::vector<std::tuple<std::string, std::string, std::string>> rows;
  for (size_t i = 1; i < kFunctionCount; ++i) {
    const Function &f = function(static_cast<Fn>(i));
    if (!f.symbol.empty()) rows.emplace_back(f.symbol.view(), f.name.view(), f.category.view());
  }
  return rows;
}

// An event has the bits of its name and those of its category. A name whose rows differ has the time of the first one
// that is any.
std::tuple<std::map<std::string, uint32_t>, std::map<std::string, uint32_t>> meanings() {
  std::map<std::string, uint32_t> names, categories;
  constexpr uint32_t kMeanings = ~trait::kUncounted;
  for (const CategoryRow &row : kCategories) categories[std::string(row.name)] = row.traits & kMeanings;
  for (size_t i = 1; i < kFunctionCount; ++i) {
    const Function &f = function(static_cast<Fn>(i));
    uint32_t &bits = names[std::string(f.name)];
    bits |= f.traits & ((bits & trait::kTimeKind) == 0 ? kMeanings : kMeanings & ~trait::kTimeKind);
  }
  return {names, categories};
}

// A name whose rows differ has the first one's that is a time.
std::map<std::string, std::string> time_kinds() {
  std::map<std::string, std::string> kinds;
  for (size_t i = 1; i < kFunctionCount; ++i) {
    const Function &f = function(static_cast<Fn>(i));
    std::string &kind = kinds[std::string(f.name)];
    if (kind.empty()) kind = kTimeKindNames[f.time_kind];
  }
  return kinds;
}

std::optional<std::string> journal_trace_file(const std::string &path) {
  char text[4096];
  Writer w(text, sizeof text);
  if (!write_trace_file_of(path.c_str(), w)) return std::nullopt;
  return std::string(w.view());
}

// A hasher with its patterns.
class Hasher {
 public:
  Hasher(std::string key, std::string kept) : kept_(std::move(kept)) {
    if (!hasher_.set_key(key, kept_)) throw nb::value_error("a key has 32 hex digits");
  }
  Hasher(const Hasher &) = delete;
  Hasher &operator=(const Hasher &) = delete;

  nb::bytes path(const nb::bytes &path, bool exists) const {
    return written(path.size(), [&](Writer &w) { hasher_.write_path(w, view(path), exists); });
  }
  static bool is_public(const nb::bytes &path) { return NameHasher::is_public(view(path)); }
  nb::bytes tag(const nb::bytes &key, const nb::bytes &value) const {
    return written(value.size(), [&](Writer &w) { hasher_.write_tag_value(w, view(key), view(value)); });
  }
  std::string fingerprint() const {
    char digits[16];
    put_hex(digits, hasher_.fingerprint(), sizeof digits);
    return {digits, sizeof digits};
  }

 private:
  static string_view view(const nb::bytes &text) { return {text.c_str(), text.size()}; }
  template <class F>
  static nb::bytes written(size_t bytes, F write) {
    const std::string text = launcher::hashed_text(bytes, write);
    return nb::bytes(text.data(), text.size());
  }

  std::string kept_;
  NameHasher hasher_;
};

std::vector<nb::bytes> redact_command(const std::vector<nb::bytes> &command, const std::string &mode) {
  Redactor redactor(parse_redaction(mode));
  std::vector<nb::bytes> out;
  for (const nb::bytes &argument : command) {
    // A value of one byte becomes kRedacted.
    std::vector<char> buffer(argument.size() * (kRedacted.size() + 1) + kRedacted.size());
    Writer w(buffer.data(), buffer.size());
    redactor.write(w, {argument.c_str(), argument.size()}, [](Writer &to, string_view part) { to << part; });
    out.emplace_back(buffer.data(), w.size());
  }
  return out;
}

}  // namespace

void bind_core(nb::module_ &m) {
  m.def(
      "tag_error", &tag_error, "tags"_a, "of_core"_a = false,
      "None for valid tags, else a sentence that names the key and the rule. of_core: tags that the core has written,\n"
      "which may have the path of a region.");
  m.def("merge_tags", &merge, "base"_a, "over"_a,
        "The canonical form of `base` with the tags of `over` replaced or added; ValueError when a rule is broken.");
  m.def("clock_reference", &clock_reference,
        "The value of TAILRACE_CLOCK for processes that are started on this node.");
  m.def(
      "settings", &settings,
      "(name, default, valid values in words, the table's column of them, what it does, whether the core reads it) of\n"
      "every setting in the environment.");
  m.def("is_setting", &is_setting, "name"_a, "value"_a, "Whether there is such a setting, and this is a valid value.");
  m.def("hooks", &hooks, "(symbol, event name, category) of every hooked function.");
  m.def(
      "meanings", &meanings,
      "What the names and the categories of events mean for the dataflow: (event name -> bits, category -> bits), the\n"
      "bits of `bits`.");
  m.def(
      "time_kinds", &time_kinds,
      "What the time in a call is, by event name: data (of a file, pipe or socket), metadata, socket, flush, lock, "
      "sleep,\n"
      "polling, child, thread (a condition, semaphore, barrier or join), signal, process; \"\": it is no time of its\n"
      "thread. format/time_kinds.h has it from the tables of functions.");
  nb::class_<Hasher>(m, "NameHasher", "Names as a run with TAILRACE_REDACT=paths has them.")
      .def(nb::init<std::string, std::string>(), "key"_a, "kept"_a)
      .def("path", &Hasher::path, "path"_a, "exists"_a)
      .def_static("is_public", &Hasher::is_public, "path"_a)
      .def("tag", &Hasher::tag, "key"_a, "value"_a)
      .def("fingerprint", &Hasher::fingerprint);
  m.def("redact", &redact_command, "command"_a, "mode"_a,
        "The command line as it may be recorded; `mode` is the value of TAILRACE_REDACT.");
  m.def("journal_trace_file", &journal_trace_file, "path"_a,
        "The trace file that the journal at `path` is sealed into; None when it is no journal of this user's.");
  m.def(
      "build_info", [] { return std::string(build_info()); }, "What was compiled in: a JSON object.");
}

}  // namespace tailrace::native
