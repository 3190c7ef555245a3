// What a job says about its own tracing: attributes.user.trace of the jobspec (tailrace-jobtap(7), "JOB ATTRIBUTES").
// Read by the jobtap plugin, and by a shell plugin that works without one.
#pragma once

#include "json.h"
#include "format/tags.h"

namespace tailrace::flux {

struct Request {
  enum class Ask { kNothing, kRefuses, kWants };
  Ask ask = Ask::kNothing;
  Json tags;                  // object: workflow, stage, task and free tags -> string; never null
  const char *run = nullptr;  // a view into the jobspec
};

// `plain`: attributes.user.workflow, .stage and .task count too, as tags but not as a wish to be traced. On a fault
// returns false and writes one sentence that names the attribute and the rule.
bool read_request(const json_t *jobspec, bool plain, Request &out, Writer &fault);

// The canonical form of an object of tags (string or integer values). False, with a sentence, when a rule is broken.
bool encode_tags(const json_t *tags, Writer &out, Writer &fault);

// attributes.system.job.name, else the name of the job's program, without folders, made to keep the rules of a tag;
// null without any.
Json job_name(const json_t *jobspec);

// The job is a Flux instance of its own: flux batch, flux alloc, flux broker.
bool starts_instance(const json_t *jobspec);

}  // namespace tailrace::flux
