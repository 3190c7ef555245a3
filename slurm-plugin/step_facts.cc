// See step_facts.h.
#include "step_facts.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "environment.h"
#include "files.h"
#include "format/tags.h"
#include "protocol.h"

namespace tailrace::slurm {
namespace {

constexpr size_t kNameBytes = 40;

// A tag with a value of the environment; nothing where there is none.
std::string tag(const char *key, std::string_view value) {
  if (value.empty()) return "";
  std::vector<char> room(3 * kMaxTagValueBytes);
  Writer w(room.data(), room.size());
  encode_tag_value(value, w);
  return w.size() ? std::string(key) + "=" + std::string(w.view()) : "";
}

// Canonical tags as a map of decoded values.
std::map<std::string, std::string> values_of(const std::string &tags) {
  TagSet set;
  size_t at;
  char sentence[256];
  Writer ignored(sentence, sizeof sentence);
  std::map<std::string, std::string> found;
  if (!parse_tags(tags, set, at, ignored)) return found;
  for (size_t i = 0; i < set.count; ++i) {
    char text[kMaxTagValueBytes];
    Writer w(text, sizeof text);
    decode_tag_value(set.tags[i].value, w);
    found[std::string(set.tags[i].key)] = w.view();
  }
  return found;
}

std::string value_of(const std::map<std::string, std::string> &found, const char *key) {
  const auto at = found.find(key);
  return at != found.end() ? at->second : "";
}

// For a name of a directory.
std::string file_name(const std::string &given) {
  std::string text = launcher::file_word(given, kNameBytes);
  if (!text.empty() && text[0] == '.') text[0] = '_';
  return text.empty() ? "job" : text;
}

// The user's name, or number without one, and home directory, as the user database has them.
std::pair<std::string, std::string> user_entry() {
  struct passwd entry, *found = nullptr;
  char buffer[16 * 1024];
  const bool known = ::getpwuid_r(::getuid(), &entry, buffer, sizeof buffer, &found) == 0 && found != nullptr;
  const std::string name = known ? found->pw_name : "", home = known ? found->pw_dir : "";
  const bool usable = !name.empty() && name[0] != '.' && name.find('/') == std::string::npos;
  return {usable ? name : std::to_string(::getuid()), home[0] == '/' ? home : "/nonexistent"};
}

void name_job(StepFacts &facts) {
  facts.tries = std::max(0, std::atoi(variable("SLURM_RESTART_COUNT").c_str()));
  // The parts of a heterogeneous job have numbers of their own, but their tasks are one step's: they are told the
  // first's.
  const std::string told = variable("SLURM_JOB_ID");
  facts.id = facts.job = facts.family = told.empty() ? facts.word("job") : told;
  if (!facts.word("array").empty()) {
    facts.family = facts.word("array");
    facts.job = facts.family + "_" + facts.word("index");
  }
  const std::string step = facts.word("step");
  facts.is_script = step.empty();
  facts.label = facts.job + (step.empty() ? "" : step == "-1" ? ".interactive" : "." + step);
}

void find_surroundings(StepFacts &facts) {
  facts.known_run = variable(kRunVariable);
  const std::string job = variable(kJobVariable);
  // --trace-run of this step or job is not what it has inherited.
  const std::string asked = facts.word("asked");
  if (!asked.empty() && asked != variable(kAskedVariable)) facts.known_run.clear();
  facts.in_traced_job = !facts.is_script && job == facts.id;
  if (facts.in_traced_job) facts.parent = variable(kTaskVariable);
  facts.outer_tags = variable(kTagsVariable);
}

void make_tags(StepFacts &facts) {
  using launcher::merge_tags;
  std::string own = tag("job", facts.job);
  for (const std::string &one :
       {tag("stage", variable("SLURM_JOB_NAME")), tag("task", facts.label), tag("array", facts.word("index")),
        facts.tries == 0 ? std::string() : tag("try", std::to_string(facts.tries))}) {
    if (!one.empty()) own += "," + one;
  }
  const auto outer = values_of(facts.outer_tags);
  // The stage and the task of the manager that submitted the job are those of its task.
  std::string around;
  for (const auto &[key, value] : outer) {
    if (key != "job" && key != "rank") (around += around.empty() ? "" : ",") += tag(key.c_str(), value);
  }
  const std::string stage = facts.word("stage");
  std::string tags = merge_tags(facts.word("policy-tags"), own);
  for (const std::string &over :
       {around, variable("TAILRACE_TAGS"), stage.empty() ? "" : "stage=" + stage, facts.word("tags")})
    tags = merge_tags(tags, over);
  facts.tags = tags;
  const auto found = values_of(tags);
  facts.stage = value_of(found, "stage");
  facts.task = value_of(found, "task");
  facts.workflow = value_of(found, "workflow");
  facts.is_declared_elsewhere = outer.count("task") != 0 || facts.task == facts.parent;
}

void replace(std::string &text, const std::string &name, const std::string &value) {
  for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + value.size()))
    text.replace(at, name.size(), value);
}

}  // namespace

std::string variable(const char *name) {
  const char *value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::string StepFacts::word(const char *key) const {
  const auto found = words.find(key);
  return found != words.end() ? found->second : "";
}

std::string StepFacts::run() const {
  if (!known_run.empty()) return known_run;
  if (!word("asked").empty()) return word("asked");
  std::string path = word("run");
  replace(path, "{jobid}", family);
  const auto [user, home] = user_entry();
  replace(path, "{user}", user);
  replace(path, "{home}", home);
  replace(path, "{cluster}", file_name(variable("SLURM_CLUSTER_NAME")));
  // Last: a name may contain braces.
  replace(path, "{name}", file_name(variable("SLURM_JOB_NAME")));
  return path;
}

StepFacts read_step(int count, char **words) {
  StepFacts facts;
  for (int i = 1; i < count; ++i) {
    const char *equals = std::strchr(words[i], '=');
    if (equals == nullptr) continue;
    const std::string key(words[i], static_cast<size_t>(equals - words[i]));
    if (key == "word") {
      facts.command.emplace_back(equals + 1);
    } else if (key.compare(0, 9, "TAILRACE_") == 0) {
      facts.settings[key] = equals + 1;
    } else {
      facts.words[key] = equals + 1;
    }
  }
  name_job(facts);
  facts.is_first_node = facts.word("node") == "0" && facts.id == facts.word("job");
  find_surroundings(facts);
  make_tags(facts);
  return facts;
}

}  // namespace tailrace::slurm
