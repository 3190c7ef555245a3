// See policy.h.
#include "policy.h"

#include <fnmatch.h>

#include "format/choices.h"

namespace tailrace::flux {
namespace {

enum class Kind { kWord, kPath, kBoolean, kReal, kList, kTags, kInteger, kPropagate, kDetail, kStages };

// Every key of the configuration, with its default in JSON. man/tailrace-jobtap.7 describes them; a test compares both.
struct Key {
  const char *name;
  Kind kind;
  const char *fallback;
};
constexpr Key kKeys[] = {
    {"jobs", Kind::kWord, "\"requested\""}, {"names", Kind::kList, "[]"},
    {"queues", Kind::kList, "[]"},          {"sample", Kind::kReal, "1.0"},
    {"guests", Kind::kBoolean, "true"},     {"user-attributes", Kind::kBoolean, "false"},
    {"choose-run", Kind::kBoolean, "true"}, {"run", Kind::kWord, "null"},
    {"workflow", Kind::kWord, "null"},      {"tags", Kind::kTags, "{}"},
    {"library", Kind::kPath, "null"},       {"journal-dir", Kind::kPath, "null"},
    {"block-age", Kind::kInteger, "null"},  {"propagate", Kind::kPropagate, "null"},
    {"memo", Kind::kBoolean, "true"},       {"within", Kind::kWord, "null"},
    {"detail", Kind::kDetail, "null"},      {"store", Kind::kPath, "null"},
    {"stages", Kind::kStages, "{}"},        {"stage-numbers", Kind::kBoolean, "true"},
};

const Key *find_key(string_view name) {
  for (const Key &key : kKeys) {
    if (name == key.name) return &key;
  }
  return nullptr;
}

bool is_true_word(string_view word) { return word == "true" || word == "yes" || word == "on" || word == "1"; }
bool is_false_word(string_view word) { return word == "false" || word == "no" || word == "off" || word == "0"; }

// "a,b" of a command line as a list; a list unchanged, if all its elements are strings that are not empty.
Json as_list(const json_t *value) {
  if (json_is_string(value)) {
    Json list(json_array());
    string_view all = text_of(value);
    for (size_t i = 0; i <= all.size();) {
      size_t end = i;
      while (end < all.size() && all[end] != ',') ++end;
      if (end > i) json_array_append_new(list.get(), json_stringn(all.data() + i, end - i));
      i = end + 1;
    }
    return list;
  }
  if (!json_is_array(value)) return Json();
  for (size_t i = 0; i < json_array_size(value); ++i) {
    if (text_of(json_array_get(value, i)).empty()) return Json();
  }
  return Json::share(const_cast<json_t *>(value));
}

// Blanks and colons separate the entries of LD_PRELOAD, and ld.so expands '$'.
bool is_preloadable(string_view path) {
  if (path.empty() || path[0] != '/') return false;
  for (char c : path) {
    if (c == ' ' || c == ':' || c == '$' || static_cast<unsigned char>(c) < 0x20) return false;
  }
  return true;
}

// `value` in the form of its kind, or null.
Json checked(Kind kind, const json_t *value) {
  auto *shared = const_cast<json_t *>(value);
  string_view text = text_of(value);
  switch (kind) {
    case Kind::kWord: return json_is_string(value) && !text.empty() ? Json::share(shared) : Json();
    case Kind::kPath: return json_is_string(value) && is_preloadable(text) ? Json::share(shared) : Json();
    case Kind::kBoolean:
      if (json_is_boolean(value)) return Json::share(shared);
      if (json_is_integer(value)) {
        json_int_t n = json_integer_value(value);
        return n == 0 || n == 1 ? Json(json_boolean(n)) : Json();
      }
      return is_true_word(text) || is_false_word(text) ? Json(json_boolean(is_true_word(text))) : Json();
    case Kind::kReal: {
      double share = json_number_value(value);
      return json_is_number(value) && share >= 0 && share <= 1 ? Json(json_real(share)) : Json();
    }
    case Kind::kInteger: return json_is_integer(value) && json_integer_value(value) > 0 ? Json::share(shared) : Json();
    case Kind::kList: return as_list(value);
    case Kind::kStages:
    case Kind::kTags: return json_is_object(value) ? Json(json_deep_copy(value)) : Json();
    case Kind::kPropagate: return is_propagation(text) ? Json::share(shared) : Json();
    case Kind::kDetail: {
      Detail detail;
      return parse_detail(text, detail) ? Json::share(shared) : Json();
    }
  }
  return Json();
}

const char *wanted(Kind kind) {
  switch (kind) {
    case Kind::kWord: return "text that is not empty";
    case Kind::kPath: return "an absolute path without blanks, ':' and '$'";
    case Kind::kBoolean: return "true or false";
    case Kind::kReal: return "a number from 0 to 1";
    case Kind::kInteger: return "a whole number above 0";
    case Kind::kList: return "a list of strings";
    case Kind::kStages: return "a table of \"PATTERN\" = \"STAGE\"";
    case Kind::kTags: return "a table of KEY = VALUE";
    case Kind::kPropagate: return "always or environment";
    case Kind::kDetail: return "full, totals, auto or auto:BYTES";
  }
  return "";
}

void name_fault(const char *origin, string_view key, Writer &fault) {
  fault << "tailrace: " << origin << ' ' << slice(key, 0, key.size() < 64 ? key.size() : 64);
}

bool override_settings(const json_t *given, const char *origin, json_t *settings, Writer &fault) {
  if (!given || json_is_null(given)) return true;
  if (!json_is_object(given)) {
    fault << "tailrace: " << origin << " is " << type_of(given) << ": give a table";
    return false;
  }
  const char *name;
  json_t *value;
  json_object_foreach(const_cast<json_t *>(given), name, value) {
    const Key *key = find_key(name);
    if (!key) {
      name_fault(origin, name, fault);
      fault << " is no key of tailrace: give one of";
      for (const Key &one : kKeys) fault << ' ' << one.name;
      return false;
    }
    Json good = checked(key->kind, value);
    if (!good) {
      name_fault(origin, name, fault);
      fault << " is ";
      CString shown(json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT));
      string_view text = shown ? string_view(shown.get()) : string_view("?");
      fault << slice(text, 0, text.size() < 64 ? text.size() : 64) << ": give " << wanted(key->kind);
      return false;
    }
    json_object_set_new(settings, name, good.release());
  }
  return true;
}

// Converts integers to text, as in a job's own tags, then applies the rules of tags.
bool check_tags(json_t *tags, Writer &fault) {
  const char *key;
  json_t *value;
  void *next;
  json_object_foreach_safe(tags, next, key, value) {
    if (json_is_integer(value)) {
      char digits[24];
      size_t n = static_cast<size_t>(put_signed(digits, json_integer_value(value)) - digits);
      json_object_set_new(tags, key, json_stringn(digits, n));
    } else if (!json_is_string(value)) {
      fault << "tailrace: tags." << key << " is " << type_of(value) << ": give a string or an integer";
      return false;
    }
    if (string_view(key) == "job" || string_view(key) == "rank") {
      fault << "tailrace: tags." << key << " is set by Flux: remove it";
      return false;
    }
  }
  char canonical[kMaxTagsBytes + 1], sentence[512];
  Writer out(canonical, sizeof canonical), reason(sentence, sizeof sentence);
  if (encode_tags(tags, out, reason)) return true;
  fault << "tailrace: tags: " << reason.view();
  return false;
}

bool check_stages(json_t *stages, Writer &fault) {
  const char *pattern;
  json_t *stage;
  json_object_foreach(stages, pattern, stage) {
    char canonical[kMaxTagsBytes + 1], sentence[512];
    Writer out(canonical, sizeof canonical), reason(sentence, sizeof sentence);
    Json tag(json_pack("{s:O}", "stage", stage));
    if (json_is_string(stage) && tag && encode_tags(tag.get(), out, reason)) continue;
    name_fault("stages", pattern, fault);
    fault << ": ";
    if (json_is_string(stage)) {
      fault << reason.view();
    } else {
      fault << "the stage is " << type_of(stage) << ": give text";
    }
    return false;
  }
  return true;
}

// `name` without a number at its end and what separates it: sim_12, sim-12, sim.12, sim12. As it is, if nothing is
// left.
string_view without_number(string_view name) {
  auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  size_t n = name.size();
  while (n && is_digit(name[n - 1])) --n;
  bool has_number = n < name.size();
  while (has_number && n && (name[n - 1] == '_' || name[n - 1] == '-' || name[n - 1] == '.')) --n;
  return has_number && n ? slice(name, 0, n) : name;
}

// The stage of a job of that name: by the first rule that it matches.
Json stage_of(const char *name, const json_t *stages, bool numbers) {
  const char *pattern;
  json_t *stage;
  json_object_foreach(const_cast<json_t *>(stages), pattern, stage) {
    if (fnmatch(pattern, name, 0) == 0) return Json::share(stage);
  }
  string_view kept = numbers ? string_view(name) : without_number(name);
  return Json(json_stringn(kept.data(), kept.size()));
}

bool matches(const json_t *patterns, const char *name) {
  for (size_t i = 0; i < json_array_size(patterns); ++i) {
    if (fnmatch(json_string_value(json_array_get(patterns, i)), name ? name : "", 0) == 0) return true;
  }
  return false;
}

}  // namespace

bool is_propagation(string_view word) { return word == "always" || word == "environment"; }

bool Policy::read_jobs(Writer &fault) {
  string_view word = text_of(member(settings_.get(), "jobs"));
  constexpr string_view kWords[] = {"none", "requested", "all"};
  for (int i = 0; i < 3; ++i) {
    if (word == kWords[i]) {
      jobs_ = static_cast<Jobs>(i);
      return true;
    }
  }
  fault << "tailrace: jobs is ";
  fault.json(word) << ": give all, requested or none";
  return false;
}

bool Policy::parse(const json_t *table, const json_t *load, string_view library, Policy &out, Writer &fault) {
  Policy made;
  made.settings_ = Json(json_object());
  for (const Key &key : kKeys) {
    json_object_set_new(made.settings_.get(), key.name, json_loads(key.fallback, JSON_DECODE_ANY, nullptr));
  }
  if (!override_settings(table, "[tailrace]", made.settings_.get(), fault)) return false;
  if (!override_settings(load, "plugin's conf", made.settings_.get(), fault)) return false;
  if (!made.read_jobs(fault) || !check_tags(member(made.settings_.get(), "tags"), fault) ||
      !check_stages(member(made.settings_.get(), "stages"), fault)) {
    return false;
  }
  if (made.text("workflow")) {
    Json alone(json_pack("{s:O}", "workflow", member(made.settings_.get(), "workflow")));
    if (!check_tags(alone.get(), fault)) return false;
  }
  if (!made.text("library")) {
    if (!is_preloadable(library)) {
      fault << "tailrace: LD_PRELOAD can't contain " << library
            << ": set library to a path without blanks, ':' and '$'";
      return false;
    }
    json_object_set_new(made.settings_.get(), "library", json_stringn(library.data(), library.size()));
  }
  out = static_cast<Policy &&>(made);
  return true;
}

bool Policy::selects(const Job &job) const {
  const json_t *system = member(member(job.jobspec, "attributes"), "system");
  const json_t *names = member(settings_.get(), "names"), *queues = member(settings_.get(), "queues");
  if (json_array_size(names)) {
    Json name = job_name(job.jobspec);
    if (!matches(names, json_string_value(name.get()))) return false;
  }
  if (json_array_size(queues) && !matches(queues, json_string_value(member(system, "queue")))) return false;
  // By the id, so that every plugin decides the same, also after a restart.
  double share = json_real_value(member(settings_.get(), "sample"));
  return share >= 1 || static_cast<double>(fnv64(&job.id, sizeof job.id) >> 11) * 0x1p-53 < share;
}

Json Policy::make_event(const Job &job, const Request &request) const {
  Json tags(json_deep_copy(member(settings_.get(), "tags")));
  if (const char *workflow = text("workflow")) json_object_set_new(tags.get(), "workflow", json_string(workflow));
  Json name = job_name(job.jobspec);
  if (name && !member(tags.get(), "stage")) {
    Json stage = stage_of(json_string_value(name.get()), member(settings_.get(), "stages"),
                          json_is_true(member(settings_.get(), "stage-numbers")));
    json_object_set_new(tags.get(), "stage", stage.release());
  }
  json_object_update(tags.get(), request.tags.get());
  // Who asked looks for the run beside the job; nobody else's working directory gets files of ours.
  bool asked = request.tracing == Request::Tracing::kRequested;
  bool chosen = request.run && json_is_true(member(settings_.get(), "choose-run"));
  const char *configured = text("run") ? text("run") : asked ? kRunBesideJob : kRunOfUser;
  Json event(json_pack("{s:i s:O s:s s:O}", "version", kEventVersion, "library", member(settings_.get(), "library"),
                       "run", chosen ? request.run : configured, "tags", tags.get()));
  if (!posts_memo()) json_object_set_new(event.get(), "memo", json_false());
  for (const char *key : {"within", "store"}) {
    if (const char *word = text(key)) json_object_set_new(event.get(), key, json_string(word));
  }
  for (const ForwardedSetting &one : kForwardedSettings) {
    json_t *value = member(settings_.get(), one.key);
    if (!json_is_null(value)) json_object_set(event.get(), one.key, value);
  }
  return event;
}

Verdict Policy::judge(const Job &job, Json &event, Writer &fault) const {
  if (jobs_ == Jobs::kNone) return Verdict::kLeave;
  if (job.userid != job.owner && !json_is_true(member(settings_.get(), "guests"))) return Verdict::kLeave;
  Request request;
  bool plain = json_is_true(member(settings_.get(), "user-attributes"));
  if (!read_request(job.jobspec, plain, request, fault)) return Verdict::kReject;
  if (request.tracing == Request::Tracing::kRefused) return Verdict::kLeave;
  if (request.tracing == Request::Tracing::kUnspecified && (jobs_ != Jobs::kAll || !selects(job)))
    return Verdict::kLeave;
  event = make_event(job, request);
  char canonical[kMaxTagsBytes + 1], sentence[512];
  Writer out(canonical, sizeof canonical), reason(sentence, sizeof sentence);
  if (!event || !encode_tags(member(event.get(), "tags"), out, reason)) {
    fault << "with the configured tags: " << reason.view();
    return request.tracing == Request::Tracing::kRequested ? Verdict::kReject : Verdict::kLeave;
  }
  return Verdict::kTrace;
}

}  // namespace tailrace::flux
