// See format/setting_values.h.
#include "format/setting_values.h"

#include "base/clock.h"
#include "format/choices.h"
#include "format/tags.h"

namespace tailrace {

constexpr SettingWords kSettingWords[] = {
#define SETTING(name, fallback, values, doc) {#name, fallback, values, doc, true},
#define LAUNCHER_SETTING(name, fallback, values, doc) {#name, fallback, values, doc, false},
#include "format/settings.def"
#undef SETTING
};
const size_t kSettingWordsCount = sizeof kSettingWords / sizeof kSettingWords[0];

namespace {

bool is_path(string_view value) { return starts_with(value, "/"); }

bool is_number(string_view value) {
  uint64_t number;
  return take_decimal(value, number) && value.empty() && number > 0;
}

bool is_whole(string_view value) {
  uint64_t number;
  return take_decimal(value, number) && value.empty();
}

// Digits, and at most two behind a point.
bool is_rate(string_view value) {
  uint64_t whole = 0, part = 0;
  const bool begins = take_decimal(value, whole) && whole <= 100;
  if (!begins || value.empty()) return begins && whole > 0;
  if (value[0] != '.' || value.size() < 2 || value.size() > 3) return false;
  value = slice(value, 1, value.size() - 1);
  return take_decimal(value, part) && value.empty() && (whole > 0 || part > 0) && (whole < 100 || part == 0);
}

bool is_clock(string_view value) {
  return starts_with(value, "tsc:") && parse_clock_reference(value).kind == ClockKind::kTsc;
}

bool is_budget(string_view value) {
  Detail detail;
  return parse_detail(value, detail) && detail.kind == DetailKind::kAuto;
}

bool are_layers(string_view value) {
  uint32_t layers;
  return value != "all" && value != "none" && parse_layers(value, layers);
}

bool are_stacks(string_view value) {
  StackChoice choice;
  return parse_stacks(value, choice) && choice.is_on();
}

bool are_annotations(string_view value) {
  uint32_t chosen;
  return value != "all" && value != "none" && parse_annotations(value, chosen);
}

bool are_paths(string_view value) { return each_part(value, ':', is_path); }

bool are_patterns(string_view value) {
  return each_part(value, ':', [](string_view one) { return !one.empty(); });
}

bool are_variables(string_view value) {
  return each_part(value, '\n', [](string_view line) {
    const size_t equals = line.find('=');
    return line.empty() || (equals != string_view::npos && equals > 0);
  });
}

bool are_tags(string_view value) {
  TagSet tags;
  size_t at;
  char room[256];
  Writer fault(room, sizeof room);
  return parse_tags(value, tags, at, fault, TagsOf::kCore);
}

bool is_any(string_view) { return true; }

struct Kind {
  string_view name;
  string_view words;
  bool (*is_valid)(string_view value);
};
constexpr Kind kKinds[] = {
    {"<path>", "an absolute path", is_path},
    // Whether it can be used is the launcher's to find out.
    {"<node_directory>", "the absolute path of a directory of the node", is_any},
    {"<paths>", "absolute paths, separated by colons", are_paths},
    {"<patterns>", "patterns of paths, separated by colons (as in *.log:/tmp/*)", are_patterns},
    {"<functions>", "names, separated by colons (as in mypkg:other.io.read*)", are_patterns},
    {"<native_functions>", "names, separated by colons (as in solver::*:read_row:!solver::dot)", are_function_patterns},
    {"<microseconds>", "a whole number of microseconds", is_whole},
    {"<tags>", "key=value pairs, separated by commas", are_tags},
    {"<clock>", "tsc:TICKS:NS (of a launcher)", is_clock},
    {"<seconds>", "a whole number of seconds above 0", is_number},
    {"<rate>", "a number above 0 and up to 100, as in 10 or 0.2", is_rate},
    {"<budget>", "auto:BYTES (as in auto:16M)", is_budget},
#ifdef TAILRACE_CUPTI
    {"<layers>", "some of hdf5,mpiio,cupti", are_layers},
#else
    {"<layers>", "some of hdf5,mpiio", are_layers},
#endif
    {"<stacks>", "a duration, a number of calls, or both (as in 10ms, 1000 or 10ms,1000)", are_stacks},
    {"<annotations>", "some of nvtx,itt", are_annotations},
    {"<variables>", "NAME=VALUE, one a line", are_variables},
    {"<text>", "any text", is_any},
    {"<own>", "nothing: tailrace itself sets it", is_any},
};

const Kind *kind_of(string_view alternative) {
  for (const Kind &kind : kKinds) {
    if (kind.name == alternative) return &kind;
  }
  return nullptr;
}

}  // namespace

const SettingWords *find_setting(string_view name) {
  for (const SettingWords &row : kSettingWords) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

void write_setting_choices(const SettingWords &setting, Writer &out) {
  size_t count = 0, done = 0;
  each_part(setting.values, '|', [&](string_view) {
    ++count;
    return true;
  });
  each_part(setting.values, '|', [&](string_view alternative) {
    if (done) out << (done + 1 == count ? " or " : ", ");
    const Kind *kind = kind_of(alternative);
    out << (kind ? kind->words : alternative);
    ++done;
    return true;
  });
}

bool is_valid_setting(const SettingWords &setting, string_view value) {
  return !each_part(setting.values, '|', [&](string_view alternative) {
    const Kind *kind = kind_of(alternative);
    return !(kind ? kind->is_valid(value) : alternative == value);
  });
}

}  // namespace tailrace
