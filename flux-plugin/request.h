// A job's request for tracing: attributes.user.trace of the jobspec (tailrace-jobtap(7), "JOB ATTRIBUTES"). Read by the
// jobtap plugin, and by a shell plugin without one.
#pragma once

#include "format/tags.h"
#include "json.h"

namespace tailrace::flux {

struct Request {
  enum class Tracing { kUnspecified, kRefused, kRequested };
  Tracing tracing = Tracing::kUnspecified;
  Json tags;                  // object: workflow, stage, task and free tags -> string; never null
  const char *run = nullptr;  // points into the jobspec
};

// `plain`: attributes.user.workflow, .stage and .task are tags, too, but no request for tracing. On a fault returns
// false and writes a sentence that names the attribute and the rule.
bool read_request(const json_t *jobspec, bool plain, Request &out, Writer &fault);

// Whether attributes.user.trace requests tracing, be it well or not.
bool asks_for_tracing(const json_t *jobspec);

// The canonical form of an object of tags (string or integer values). On a broken rule returns false and writes a
// sentence.
bool encode_tags(const json_t *tags, Writer &out, Writer &fault);

// attributes.system.job.name, else the name of the job's program (of an instance, the one that it starts) without
// folders, adapted to the rules of tags; null without either.
Json job_name(const json_t *jobspec);

// Whether the job is a Flux instance: flux batch, flux alloc, flux broker, flux start.
bool starts_instance(const json_t *jobspec);

// The index of the initial program in `command`, a list of words: after `flux broker` or `flux start` and its options;
// or -1. `unknown` is set to the index of an option that we don't know.
int find_initial_program(const json_t *command, int &unknown);

}  // namespace tailrace::flux
