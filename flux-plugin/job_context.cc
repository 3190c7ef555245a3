// See job_context.h.
#include "job_context.h"

#include <errno.h>
#include <pwd.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "format/journal_place.h"
#include "format/redaction.h"
#include "format/settings.h"
#include "policy.h"
#include "rundir.h"

namespace tailrace::flux {
namespace {

bool check_event(const JobContext &job, Writer &fault) {
  json_t *version = member(job.event.get(), "version");
  string_view library = text_of(member(job.event.get(), "library"));
  if (!json_is_integer(version) || json_integer_value(version) != kEventVersion) {
    fault << "the event " << kEventName << " is of another version than this plugin, " TAILRACE_VERSION
          << ": install both plugins from one release";
    return false;
  }
  if (library.empty() || library[0] != '/' || !json_is_object(member(job.event.get(), "tags")) ||
      text_of(member(job.event.get(), "run")).empty()) {
    fault << "the event " << kEventName << " is incomplete";
    return false;
  }
  if (access(library.data(), R_OK) == 0) return true;
  fault << library << " can't be read on this node: install tailrace there, or set `library` in [tailrace]";
  return false;
}

// FLUX_JOB_ID_PATH. In an instance that a script started, the enclosing job's path is missing there, or is not enough
// to tell two such instances apart: the event then has the instance's own path, <the job's path>/<a name>.
CString full_path(const JobContext &job) {
  string_view path(job.flux_path.get()), within = text_of(member(job.event.get(), "within"));
  if (within.empty()) return CString(strdup(path.data()));
  size_t slash = within.rfind('/');
  string_view outer = slice(within, 0, slash == string_view::npos ? 0 : slash);
  if (starts_with(path, outer) && path.size() > outer.size() && path[outer.size()] == '/') {
    path = slice(path, outer.size(), path.size() - outer.size());
  }
  return formatted("%s%s", within.data(), path.data());
}

// The path in ASCII (f1/f2), usable as a file name.
CString plain_path(const char *path) {
  Json out(json_string(""));
  CString copy(strdup(path)), plain(strdup(""));
  char *rest = nullptr;
  for (char *part = strtok_r(copy.get(), "/", &rest); part; part = strtok_r(nullptr, "/", &rest)) {
    flux_jobid_t id;
    char text[64];
    bool is_id = flux_job_id_parse(part, &id) == 0 && flux_job_id_encode(id, "f58plain", text, sizeof text) == 0;
    plain = formatted("%s%s%s", plain.get(), *plain.get() ? "/" : "", is_id ? text : part);
  }
  return plain;
}

// Adds Flux's tags; those of the event take precedence.
bool complete_tags(flux_shell_t *shell, JobContext &job, Writer &fault) {
  json_t *tags = member(job.event.get(), "tags");
  const char *given = flux_shell_getenv(shell, "FLUX_JOB_ID_PATH");
  job.flux_path.reset(strdup(given ? given : ""));
  job.path = full_path(job);
  const char *path = job.path.get();
  CString plain = plain_path(path);
  if (!member(tags, "task") && *plain.get()) json_object_set_new(tags, "task", json_string(plain.get()));
  if (*path) json_object_set_new(tags, "job", json_string(path));
  // An instance is one workflow with everything in it, unless a name is given. One that a script started has the
  // script's.
  size_t outermost = strcspn(plain.get(), "/");
  bool started = member(job.event.get(), "within");
  if (!started && outermost && (plain.get()[outermost] || job.nested) && !member(tags, "workflow")) {
    json_object_set_new(tags, "workflow", json_stringn(plain.get(), outermost));
  }
  char canonical[kMaxTagsBytes + 1];
  Writer out(canonical, sizeof canonical);
  if (!encode_tags(tags, out, fault)) return false;
  job.tags.reset(strdup(out.c_str()));
  return true;
}

// `command` of run.json. Jobs of one workflow share a run, so it names the workflow, not one of the jobs.
Json describe_command(const JobContext &job, const char *named_workflow) {
  const json_t *task = json_array_get(member(job.jobspec.get(), "tasks"), 0);
  bool of_one_job = text_of(member(job.event.get(), "run")).find("id") != string_view::npos &&
                    text_of(member(job.event.get(), "run")).find("{{") != string_view::npos;
  if (named_workflow && !of_one_job) return Json(json_pack("[s s s]", "flux:", "workflow", named_workflow));
  Json name = job_name(job.jobspec.get());
  if (job.nested && name) return Json(json_pack("[s s O]", "flux:", "batch", name.get()));
  return Json::share(member(task, "command"));
}

// The command line as it may be recorded, by the job's TAILRACE_REDACT.
Json redact_command(const json_t *command, const char *mode) {
  Redactor redactor(parse_redaction(mode ? mode : ""));
  Json out(json_array());
  size_t i;
  const json_t *word;
  json_array_foreach(const_cast<json_t *>(command), i, word) {
    string_view text = text_of(word);
    size_t room = text.size() * (kRedacted.size() + 1) + kRedacted.size();
    CString buffer(static_cast<char *>(malloc(room + 1)));
    if (!buffer) return Json(json_array());
    Writer w(buffer.get(), room);
    redactor.write(w, text, [](Writer &to, string_view part) { to << part; });
    json_array_append_new(out.get(), json_stringn(buffer.get(), w.size()));
  }
  return out;
}

// What the user database says of the user, who can't choose it.
struct User {
  CString name;  // the number of one without a name
  CString home;
};

User find_user() {
  struct passwd entry, *found = nullptr;
  char buffer[4096];
  bool known = getpwuid_r(geteuid(), &entry, buffer, sizeof buffer, &found) == 0 && found;
  bool is_named = known && !strchr(found->pw_name, '/') && found->pw_name[0] != '.';
  User user;
  user.name = is_named ? CString(strdup(found->pw_name)) : formatted("%u", static_cast<unsigned>(geteuid()));
  user.home.reset(strdup(known && found->pw_dir[0] == '/' ? found->pw_dir : "/nonexistent"));
  return user;
}

// The template with `value` for each `word`, as {user}. {{user}} would be one of Flux's own.
CString with_value(CString text, string_view word, const char *value) {
  size_t room = strlen(text.get()) + 1;
  for (const char *at = strstr(text.get(), word.data()); at; at = strstr(at + 1, word.data())) room += strlen(value);
  CString expanded(static_cast<char *>(malloc(room)));
  if (!expanded) return nullptr;
  Writer out(expanded.get(), room);
  for (const char *p = text.get(); *p;) {
    bool whole = starts_with(p, word) && (p == text.get() || p[-1] != '{') && p[word.size()] != '}';
    out << (whole ? string_view(value) : string_view(p, 1));
    p += whole ? word.size() : 1;
  }
  out.c_str();
  return expanded;
}

CString with_user(const char *text) {
  User user = find_user();
  CString named = text ? with_value(CString(strdup(text)), "{user}", user.name.get()) : nullptr;
  return named ? with_value(static_cast<CString &&>(named), "{home}", user.home.get()) : nullptr;
}

// `batch` of run.json. Flux's word for the account is bank.
Json describe_batch(const JobContext &job, const json_t *system) {
  Json out(json_pack("{s:s s:s}", "system", "flux", "job", job.path.get()));
  json_t *account = member(system, "bank"), *queue = member(system, "queue");
  if (!text_of(account).empty()) json_object_set(out.get(), "account", account);
  if (!text_of(queue).empty()) json_object_set(out.get(), "queue", queue);
  return out;
}

bool make_run(flux_shell_t *shell, JobContext &job, const char *named_workflow, Writer &fault, Writer &warning) {
  const json_t *system = member(member(job.jobspec.get(), "attributes"), "system");
  const char *cwd = json_string_value(member(system, "cwd"));
  CString of_user = with_user(json_string_value(member(job.event.get(), "run")));
  CString wanted(of_user ? flux_shell_mustache_render(shell, of_user.get()) : nullptr);
  if (!wanted) {
    fault << "can't expand the template of the run directory: " << strerror(errno);
    return false;
  }
  if (wanted.get()[0] != '/') wanted = formatted("%s/%s", cwd ? cwd : "/", wanted.get());
  const char *redaction = flux_shell_getenv(shell, "TAILRACE_REDACT");
  if (parse_redaction(redaction ? redaction : "") == Redaction::kPaths) {
    fault << "Flux jobs can't be traced with TAILRACE_REDACT=paths, since names of jobs and files would not be hashed: "
             "run `tailrace run` in the job";
    return false;
  }
  Json command = describe_command(job, named_workflow);
  Json recorded = redact_command(command.get(), redaction);
  string_view journals = chosen_journal_directory(shell, job);
  if (journals == default_journal_directory()) journals = {};
  Json batch = describe_batch(job, system);
  RunDescription description{recorded.get(), cwd ? cwd : "/", job.tags.get(), journals, batch.get()};
  return make_run_directory(wanted.get(), description, job.run, fault, warning);
}

// The flux command on PATH and the one this plugin was built with, separated by a colon.
CString flux_programs(flux_shell_t *shell) {
  const char *path = flux_shell_getenv(shell, "PATH");
  CString copy(strdup(path ? path : ""));
  char *rest = nullptr;
  for (char *part = strtok_r(copy.get(), ":", &rest); part; part = strtok_r(nullptr, ":", &rest)) {
    CString program = formatted("%s/flux", part);
    if (*part == '/' && strcmp(program.get(), TAILRACE_FLUX_PROGRAM) != 0 && access(program.get(), X_OK) == 0) {
      return formatted("%s:%s", program.get(), TAILRACE_FLUX_PROGRAM);
    }
  }
  return CString(strdup(TAILRACE_FLUX_PROGRAM));
}

}  // namespace

string_view default_journal_directory() {
  return kSettings[static_cast<size_t>(Setting::TAILRACE_JOURNAL_DIR)].fallback;
}

string_view chosen_journal_directory(flux_shell_t *shell, const JobContext &job) {
  const char *chosen = flux_shell_getenv(shell, "TAILRACE_JOURNAL_DIR");
  if (!chosen) chosen = json_string_value(member(job.event.get(), "journal-dir"));
  return chosen ? string_view(chosen) : default_journal_directory();
}

bool prepare_job(flux_shell_t *shell, JobContext &job, Writer &fault, Writer &warning) {
  Json named = Json::share(member(member(job.event.get(), "tags"), "workflow"));
  if (!check_event(job, fault) || !complete_tags(shell, job, fault) ||
      !make_run(shell, job, json_string_value(named.get()), fault, warning)) {
    return false;
  }
  Writer clock(job.clock, sizeof job.clock);
  write_clock_reference(clock);
  clock.c_str();
  Writer device(job.journal_device, sizeof job.journal_device);
  int64_t bytes_read = 0;
  if (!write_journal_device(device, bytes_read)) device.truncate(0);
  device.c_str();
  job.untraced = flux_programs(shell);
  return true;
}

}  // namespace tailrace::flux
