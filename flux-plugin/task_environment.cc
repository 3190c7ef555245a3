// The tags and variables of a traced task, and the configuration of an inner instance. See job_context.h.
#include <string.h>

#include "job_context.h"
#include "nested.h"
#include "policy.h"

namespace tailrace::flux {

namespace {
constexpr const char *kModprobePath = "FLUX_MODPROBE_PATH_APPEND";
}

CString task_tags(const JobContext &job, int rank, int localid, int nodeid) {
  char own[96], canonical[kMaxTagsBytes + 1], sentence[256];
  Writer more(own, sizeof own), out(canonical, sizeof canonical), ignored(sentence, sizeof sentence);
  more << "rank=";
  more.number(rank) << ",localid=";
  more.number(localid) << ",nodeid=";
  more.number(nodeid);
  TagSet base, over;
  size_t at;
  if (!parse_tags(job.tags.get(), base, at, ignored, TagsOf::kCore) || !parse_tags(more.view(), over, at, ignored) ||
      !merge_tags(base, over, out)) {
    return CString(strdup(job.tags.get()));
  }
  return CString(strdup(out.c_str()));
}

Json task_variables(const JobContext &job, const char *tags, const flux_cmd_t *cmd) {
  const char *library = json_string_value(member(job.event.get(), "library"));
  const char *preloads = flux_cmd_getenv(cmd, "LD_PRELOAD");
  bool others = preloads && *preloads;
  Json list(json_array());
  auto add = [&](const char *name, const char *value) {
    json_array_append_new(list.get(), json_sprintf("%s=%s", name, value));
  };
  CString joined = formatted("%s%s%s", library, others ? ":" : "", others ? preloads : "");
  add("LD_PRELOAD", joined.get());
  add("TAILRACE_RUN", job.run.get());
  add("TAILRACE_TAGS", tags);
  add("TAILRACE_CLOCK", job.clock);
  if (*job.journal_device) add("TAILRACE_JOURNAL_DEVICE", job.journal_device);
  add("TAILRACE_UNTRACED", job.untraced.get());
  for (const ForwardedSetting &one : kForwardedSettings) {
    const json_t *value = member(job.event.get(), one.key);
    if (!value || flux_cmd_getenv(cmd, one.variable)) continue;
    CString number = formatted("%lld", static_cast<long long>(json_integer_value(value)));
    add(one.variable, json_is_string(value) ? json_string_value(value) : number.get());
  }
  return list;
}

void set_variables(flux_cmd_t *cmd, const json_t *list) {
  for (size_t i = 0; i < json_array_size(list); ++i) {
    CString entry(strdup(json_string_value(json_array_get(list, i))));
    char *equals = strchr(entry.get(), '=');
    *equals = 0;
    flux_cmd_setenvf(cmd, 1, entry.get(), "%s", equals + 1);
  }
}

// kInnerVariable. `script`: the instance is started by a script of the job, and is not the job itself.
static CString inner_settings(const JobContext &job, const flux_cmd_t *cmd, bool script) {
  Json tags(json_deep_copy(member(job.event.get(), "tags")));
  Json workflow = Json::share(member(tags.get(), "workflow"));
  for (const char *key : {"workflow", "stage", "task", "job", "rank"}) json_object_del(tags.get(), key);
  json_object_set_new(tags.get(), "parent", json_string(job.path.get()));
  Json conf(json_pack("{s:s s:s s:O s:O}", "jobs", "all", "run", job.run.get(), "library",
                      member(job.event.get(), "library"), "tags", tags.get()));
  if (workflow) json_object_set(conf.get(), "workflow", workflow.get());
  for (const ForwardedSetting &one : kForwardedSettings) {
    json_t *value = member(job.event.get(), one.key);
    if (value) json_object_set(conf.get(), one.key, value);
  }
  // Flux's commands in the script are untraced, so they do not pass this setting on.
  const char *propagation = flux_cmd_getenv(cmd, "TAILRACE_PROPAGATE");
  if (propagation && is_propagation(propagation)) {
    json_object_set_new(conf.get(), "propagate", json_string(propagation));
  }
  for (const char *key : {"within", "store"}) {
    if (json_t *word = member(job.event.get(), key)) json_object_set(conf.get(), key, word);
  }
  Json settings(json_pack("{s:s? s:s? s:s s:s s:b s:O}", "jobtap", job.jobtap.get(), "shell", job.shell_plugins.get(),
                          "job", job.path.get(), "flux-path", job.flux_path.get(), "script", script, "conf",
                          conf.get()));
  return CString(json_dumps(settings.get(), JSON_COMPACT));
}

// FLUX_MODPROBE_PATH_APPEND with our folder.
static CString modprobe_path(const JobContext &job, const flux_cmd_t *cmd) {
  const char *before = flux_cmd_getenv(cmd, kModprobePath);
  return formatted("%s%s%s", before ? before : "", before && *before ? ":" : "", job.modprobe.get());
}

void configure_inner_instance(const JobContext &job, flux_cmd_t *cmd) {
  CString text = inner_settings(job, cmd, false);
  if (!text) return;
  flux_cmd_setenvf(cmd, 1, kInnerVariable, "%s", text.get());
  if (job.modprobe) flux_cmd_setenvf(cmd, 1, kModprobePath, "%s", modprobe_path(job, cmd).get());
}

void configure_started_instances(const JobContext &job, flux_cmd_t *cmd) {
  // What the submitting script had of an enclosing instance leads to that one's job.
  flux_cmd_unsetenv(cmd, kInnerVariable);
  CString text = inner_settings(job, cmd, true);
  if (!text || !job.modprobe) return;
  flux_cmd_setenvf(cmd, 1, "TAILRACE_UNTRACED_VARIABLES", "%s=%s\n%s=%s", kInnerVariable, text.get(), kModprobePath,
                   modprobe_path(job, cmd).get());
}

}  // namespace tailrace::flux
