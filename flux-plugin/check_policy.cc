// check-policy, for `tailrace flux check`: says of a configuration what the jobtap plugin would say, without Flux. It
// is the plugin's own code that judges.
//
// Standard input is an object of JSON: `table` ([tailrace]), `load` (the plugin's conf), `library`, and `jobs`, a list
// of jobspecs. Standard output is one, too: `fault`, a sentence, or `settings` and `jobs`, a list of objects: `verdict`
// (leave, trace, reject), and `event` or `fault`.
#include <stdio.h>

#include "policy.h"

namespace tailrace::flux {
namespace {

constexpr const char *kVerdicts[] = {"leave", "trace", "reject"};
// An id says only whether a job is in the sample.
constexpr uint64_t kSomeId = 1;

Json judge(const Policy &policy, const json_t *jobspec) {
  char sentence[1024];
  Writer fault(sentence, sizeof sentence);
  Job job;
  job.id = kSomeId;
  job.userid = job.owner = 0;
  job.jobspec = jobspec;
  Json event;
  Verdict verdict = policy.judge(job, event, fault);
  Json out(json_pack("{s:s}", "verdict", kVerdicts[static_cast<int>(verdict)]));
  if (verdict == Verdict::kTrace) json_object_set(out.get(), "event", event.get());
  if (verdict == Verdict::kReject) json_object_set_new(out.get(), "fault", json_string(fault.c_str()));
  return out;
}

Json answer(const json_t *asked) {
  char sentence[1024];
  Writer fault(sentence, sizeof sentence);
  Policy policy;
  if (!Policy::parse(member(asked, "table"), member(asked, "load"), text_of(member(asked, "library")), policy, fault)) {
    return Json(json_pack("{s:s}", "fault", fault.c_str()));
  }
  Json jobs(json_array());
  const json_t *list = member(asked, "jobs");
  for (size_t i = 0; i < json_array_size(list); ++i) {
    json_array_append_new(jobs.get(), judge(policy, json_array_get(list, i)).release());
  }
  return Json(json_pack("{s:O s:O}", "settings", const_cast<json_t *>(policy.settings()), "jobs", jobs.get()));
}

}  // namespace
}  // namespace tailrace::flux

int main() {
  using namespace tailrace::flux;
  json_error_t error;
  Json asked(json_loadf(stdin, 0, &error));
  if (!asked) {
    fprintf(stderr, "check-policy: %s\n", error.text);
    return 2;
  }
  Json out = answer(asked.get());
  return out && json_dumpf(out.get(), stdout, JSON_COMPACT) == 0 ? 0 : 2;
}
