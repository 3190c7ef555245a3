// See policy.h.
#include "policy.h"

#include <fnmatch.h>
#include <stdlib.h>

#include "format/choices.h"

namespace tailrace::slurm {
namespace {

constexpr size_t kPatternBytes = 256;

bool is_flag(string_view word, bool &value) {
  value = word == "yes";
  return value || word == "no";
}

// Blanks and colons separate the entries of LD_PRELOAD, and ld.so expands '$'.
bool is_preloadable(string_view path) {
  if (path.empty() || path[0] != '/') return false;
  for (char c : path) {
    if (c == ' ' || c == ':' || c == '$' || static_cast<unsigned char>(c) < 0x20) return false;
  }
  return true;
}

bool parse_share(string_view word, uint64_t &out) {
  char text[32], *end = nullptr;
  Writer w(text, sizeof text);
  const char *digits = (w << word).c_str();
  const double share = strtod(digits, &end);
  if (end == digits || *end != 0 || !(share >= 0 && share <= 1)) return false;
  out = share >= 1 ? UINT64_MAX : static_cast<uint64_t>(share * 0x1p64);
  return true;
}

bool parse_jobs(string_view word, Policy::Jobs &out) {
  constexpr string_view kWords[] = {"none", "requested", "all"};
  for (int i = 0; i < 3; ++i) {
    if (word != kWords[i]) continue;
    out = static_cast<Policy::Jobs>(i);
    return true;
  }
  return false;
}

bool is_number(string_view word) {
  uint64_t value = 0;
  return take_decimal(word, value) && word.empty() && value > 0;
}

bool is_template(string_view word) { return !word.empty() && word.size() < 2000; }

// Takes a word of the configuration. Returns what would be valid, or null when it is.
const char *take(string_view key, string_view value, Policy &policy, Writer &fault) {
  Detail detail;
  if (key == "jobs") return parse_jobs(value, policy.jobs) ? nullptr : "all, requested or none";
  if (key == "names") return policy.names = value, value.empty() ? "patterns, separated by commas" : nullptr;
  if (key == "partitions") return policy.partitions = value, value.empty() ? "patterns, separated by commas" : nullptr;
  if (key == "sample") return parse_share(value, policy.sample) ? nullptr : "a number from 0 to 1";
  if (key == "choose-run") return is_flag(value, policy.choose_run) ? nullptr : "yes or no";
  if (key == "summary") return is_flag(value, policy.summary) ? nullptr : "yes or no";
  if (key == "run") return policy.run = value, is_template(value) ? nullptr : "a path";
  if (key == "tags") return policy.tags = value, check_tags(value, fault) ? nullptr : "KEY=VALUE,KEY=VALUE";
  if (key == "library") {
    return policy.library = value, is_preloadable(value) ? nullptr : "an absolute path without blanks, ':' and '$'";
  }
  if (key == "journal-dir") return policy.journal_dir = value, starts_with(value, "/") ? nullptr : "an absolute path";
  if (key == "block-age") return policy.block_age = value, is_number(value) ? nullptr : "a whole number above 0";
  if (key == "propagate") {
    return policy.propagate = value, value == "always" || value == "environment" ? nullptr : "always or environment";
  }
  if (key == "detail") {
    return policy.detail = value, parse_detail(value, detail) ? nullptr : "full, totals, auto or auto:BYTES";
  }
  return "one of jobs names partitions sample run choose-run tags detail summary library journal-dir block-age "
         "propagate";
}

bool matches(string_view patterns, string_view name) {
  char text[kMaxTagValueBytes + 1];
  Writer w(text, sizeof text);
  const char *whole = (w << name).c_str();
  while (!patterns.empty()) {
    size_t end = patterns.find(',');
    if (end == string_view::npos) end = patterns.size();
    char one[kPatternBytes];
    Writer pattern(one, sizeof one);
    if (fnmatch((pattern << slice(patterns, 0, end)).c_str(), whole, 0) == 0) return true;
    patterns.remove_prefix(end < patterns.size() ? end + 1 : end);
  }
  return false;
}

}  // namespace

bool check_tags(string_view tags, Writer &fault) {
  TagSet set;
  size_t at;
  if (!parse_tags(tags, set, at, fault)) return false;
  for (const char *key : {"job", "rank"}) {
    if (!set.find(key)) continue;
    fault << "the tag " << key << " is set by Slurm: remove it";
    return false;
  }
  return true;
}

bool Policy::selects(string_view name, string_view partition, uint32_t job) const {
  if (!names.empty() && !matches(names, name)) return false;
  if (!partitions.empty() && !matches(partitions, partition)) return false;
  // By the id, so that all steps and nodes of a job decide the same.
  return sample == UINT64_MAX || fnv64(&job, sizeof job) < sample;
}

bool parse_policy(int count, char *const *words, Policy &out, Writer &fault) {
  Policy made;
  for (int i = 0; i < count; ++i) {
    const string_view word(words[i]);
    const size_t equals = word.find('=');
    const string_view key = slice(word, 0, equals == string_view::npos ? word.size() : equals);
    const string_view value =
        equals == string_view::npos ? string_view() : slice(word, equals + 1, word.size() - equals - 1);
    char sentence[512];
    Writer why(sentence, sizeof sentence);
    const char *wanted = take(key, value, made, why);
    if (!wanted) continue;
    fault << "plugstack.conf: " << slice(word, 0, word.size() < 128 ? word.size() : 128) << ": ";
    if (why.size()) fault << why.view() << ": ";
    fault << "give " << wanted;
    return false;
  }
  out = made;
  return true;
}

}  // namespace tailrace::slurm
