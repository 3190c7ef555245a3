// See request.h.
#include "request.h"

#include <string.h>

namespace tailrace::flux {

namespace {

constexpr const char *kNamedTags[] = {"workflow", "stage", "task"};
constexpr size_t kLongestPath = 4000;

// A tag's value as text: a string, or an integer, to which `--setattr` converts digits.
bool put_tag(json_t *tags, const char *where, const char *key, const json_t *value, Writer &fault) {
  char digits[24];
  string_view text = text_of(value);
  if (json_is_integer(value)) {
    text = {digits, static_cast<size_t>(put_signed(digits, json_integer_value(value)) - digits)};
  } else if (!json_is_string(value)) {
    fault << where << '.' << key << " is " << type_of(value) << ": give a string or an integer";
    return false;
  }
  json_object_set_new(tags, key, json_stringn(text.data(), text.size()));
  return true;
}

bool read_free_tags(json_t *given, json_t *tags, Writer &fault) {
  constexpr const char *kWhere = "attributes.user.trace.tags";
  if (!json_is_object(given)) {
    fault << kWhere << " is " << type_of(given) << ": give a table of KEY = VALUE";
    return false;
  }
  const char *key;
  json_t *value;
  json_object_foreach(given, key, value) {
    string_view name(key);
    for (const char *named : kNamedTags) {
      if (name == named) {
        fault << kWhere << '.' << key << ": give it as attributes.user.trace." << key;
        return false;
      }
    }
    if (name == "job" || name == "rank") {
      fault << kWhere << '.' << key << " is set by Flux: remove it";
      return false;
    }
    if (!put_tag(tags, kWhere, key, value, fault)) return false;
  }
  return true;
}

bool read_trace(json_t *trace, Request &out, Writer &fault) {
  constexpr const char *kWhere = "attributes.user.trace";
  const char *key;
  json_t *value;
  json_object_foreach(trace, key, value) {
    string_view name(key);
    if (name == "workflow" || name == "stage" || name == "task") {
      if (!put_tag(out.tags.get(), kWhere, key, value, fault)) return false;
    } else if (name == "tags") {
      if (!read_free_tags(value, out.tags.get(), fault)) return false;
    } else if (name == "run") {
      if (!json_is_string(value) || text_of(value).empty() || text_of(value).size() > kLongestPath) {
        fault << kWhere << ".run is " << (json_is_string(value) ? "empty or too long" : type_of(value))
              << ": give the path of a directory";
        return false;
      }
      out.run = json_string_value(value);
    } else {
      fault << kWhere << " has no key ";
      fault.json(slice(name, 0, name.size() < 64 ? name.size() : 64)) << ": give stage, workflow, task, tags or run";
      return false;
    }
  }
  return true;
}

string_view base_name(string_view path) {
  size_t slash = path.rfind('/');
  return slash == string_view::npos ? path : slice(path, slash + 1, path.size() - slash - 1);
}

bool is_one_of(string_view word, std::initializer_list<string_view> words) {
  for (string_view one : words) {
    if (word == one) return true;
  }
  return false;
}

// The options of flux-broker(1) and flux-start(1) whose value may be the next word.
bool takes_next(string_view word) {
  return is_one_of(word, {"-S", "-c", "-o", "-s", "--setattr", "--config-path", "--conf", "--broker-opts", "--wrap",
                          "--test-size", "--test-hosts", "--test-exit-timeout", "--test-exit-mode", "--test-start-mode",
                          "--test-rundir", "--test-pmi-clique", "--killer-timeout"});
}

bool stands_alone(string_view word) {
  constexpr string_view kLetters = "Scosvr";  // followed by their values
  bool is_short = word[1] != '-';
  return is_short
             ? kLetters.find(word[1]) != string_view::npos || word == "-X"
             : word.find('=') != string_view::npos ||
                   is_one_of(word, {"--verbose", "--recovery", "--sysconfig", "--noexec", "--test-rundir-cleanup"});
}

// The first word of a command line of one word, as the broker gives it to a shell.
string_view first_word(string_view line) {
  size_t end = 0;
  while (end < line.size() && line[end] != ' ' && line[end] != '\t' && line[end] != '\n') ++end;
  return slice(line, 0, end);
}

// On a broken rule writes a sentence about the first such tag, with the attribute.
bool check_tags(const json_t *tags, Writer &fault) {
  char text[kMaxTagsBytes + 1], sentence[512];
  Writer canonical(text, sizeof text), reason(sentence, sizeof sentence);
  if (encode_tags(tags, canonical, reason)) return true;
  fault << "attributes.user.trace: " << reason.view();
  return false;
}

}  // namespace

bool encode_tags(const json_t *tags, Writer &out, Writer &fault) {
  char quoted[kMaxTagsBytes + 1];
  Writer pairs(quoted, sizeof quoted);
  const char *key;
  json_t *value;
  json_object_foreach(const_cast<json_t *>(tags), key, value) {
    if (pairs.size()) pairs << ',';
    quote_tag_text(key, pairs);
    pairs << '=';
    quote_tag_text(text_of(value), pairs);
  }
  if (pairs.overflowed()) {
    fault << "the tags are longer than 8192 bytes";
    return false;
  }
  static const TagSet none;
  TagSet set;
  size_t at;
  // Of a process that may be in a region.
  if (!parse_tags(pairs.view(), set, at, fault, TagsOf::kJob)) return false;
  return merge_tags(none, set, out);
}

bool read_request(const json_t *jobspec, bool plain, Request &out, Writer &fault) {
  out.tags = Json(json_object());
  json_t *user = member(member(jobspec, "attributes"), "user");
  json_t *trace = member(user, "trace");
  if (plain) {
    for (const char *key : kNamedTags) {
      json_t *value = member(user, key);
      if (value && !put_tag(out.tags.get(), "attributes.user", key, value, fault)) return false;
    }
  }
  if (json_is_object(trace)) {
    out.tracing = Request::Tracing::kRequested;
    if (!read_trace(trace, out, fault)) return false;
  } else if (json_is_boolean(trace)) {
    out.tracing = json_is_true(trace) ? Request::Tracing::kRequested : Request::Tracing::kRefused;
  } else if (trace) {
    fault << "attributes.user.trace is " << type_of(trace)
          << ": give true, false or a table like {\"stage\": \"NAME\"}";
    return false;
  }
  return json_object_size(out.tags.get()) == 0 || check_tags(out.tags.get(), fault);
}

bool asks_for_tracing(const json_t *jobspec) {
  const json_t *trace = member(member(member(jobspec, "attributes"), "user"), "trace");
  return trace && !json_is_false(trace);
}

int find_initial_program(const json_t *command, int &unknown) {
  int n = static_cast<int>(json_array_size(command)), i = 2;
  while (i < n) {
    string_view word = text_of(json_array_get(command, static_cast<size_t>(i)));
    if (word == "--") return i + 1 < n ? i + 1 : -1;
    if (word.size() < 2 || word[0] != '-') return i;
    if (!takes_next(word) && !stands_alone(word)) {
      unknown = i;
      return -1;
    }
    i += takes_next(word) ? 2 : 1;
  }
  return -1;
}

// Of a job without a name: its program, or that which an instance starts.
static string_view program_of(const json_t *jobspec) {
  const json_t *command = member(json_array_get(member(jobspec, "tasks"), 0), "command");
  int unknown;
  int at = starts_instance(jobspec) ? find_initial_program(command, unknown) : -1;
  string_view initial = at < 0 ? string_view() : first_word(text_of(json_array_get(command, static_cast<size_t>(at))));
  return initial.empty() ? text_of(json_array_get(command, 0)) : initial;
}

Json job_name(const json_t *jobspec) {
  string_view name = text_of(member(member(member(member(jobspec, "attributes"), "system"), "job"), "name"));
  bool given = !name.empty();
  if (!given) name = program_of(jobspec);
  // flux-batch(1) names a job by the path of its script; other names may contain '/'.
  if (!given || starts_with(name, "/") || starts_with(name, "./") || starts_with(name, "../")) name = base_name(name);
  char encoded[3 * kMaxTagValueBytes], decoded[kMaxTagValueBytes];
  Writer kept(encoded, sizeof encoded), text(decoded, sizeof decoded);
  encode_tag_value(name, kept);
  decode_tag_value(kept.view(), text);
  return Json(text.size() ? json_stringn(text.view().data(), text.size()) : nullptr);
}

bool starts_instance(const json_t *jobspec) {
  json_t *command = member(json_array_get(member(jobspec, "tasks"), 0), "command");
  string_view program = text_of(json_array_get(command, 0)), sub = text_of(json_array_get(command, 1));
  return base_name(program) == "flux" && (sub == "broker" || sub == "start");
}

}  // namespace tailrace::flux
