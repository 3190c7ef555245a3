// The C API (tailrace/tailrace.h), and the library's beginning and end.
#include "tailrace/tailrace.h"

#include <errno.h>
#include <stdlib.h>

#include "format/build_info.h"
#include "hooks/attach.h"
#include "hooks/process_exit.h"
#include "hooks/rings.h"
#include "hooks/stream.h"
#include "layers/annotations.h"
#ifdef TAILRACE_CUPTI
#include "layers/cupti.h"
#endif
#include "layers/layers.h"
#include "layers/native_functions.h"
#include "layers/python_functions.h"
#include "linker/real.h"
#include "session/ledger.h"
#include "session/processor_account.h"
#include "session/record.h"
#include "session/region.h"
#include "session/segment.h"
#include "session/stacks.h"

using namespace tailrace;

#define TAILRACE_API extern "C" __attribute__((visibility("default")))

namespace {

__attribute__((constructor)) void library_begins(int, char **argv, char **) {
  start_session(argv);
  // Garbage collectors call it in signal handlers, where no look-up is possible.
  find_real(Fn::f_mprotect);
  if (enter()) handle_exit();
  begin_stacks();
  find_layers();
  find_python();
  begin_native_functions();
  find_annotations();
#ifdef TAILRACE_CUPTI
  find_gpu_activity();
#endif
}

Context *make_context(string_view over_text) {
  TagSet base, over;
  size_t at;
  char message[256], merged[kMaxTagsBytes + 1];
  Writer faults(message, sizeof message), out(merged, sizeof merged);
  if (!parse_tags(over_text, over, at, faults)) return nullptr;
  if (!parse_tags(current_context()->tags(), base, at, faults, TagsOf::kCore)) return nullptr;
  if (!merge_tags(base, over, out)) return nullptr;
  Locked lock(g_wiped.table);
  return intern_context(out.view());
}

Context *context_of(tailrace_context id) {
  Locked lock(g_wiped.table);
  return find_context(id);
}

// Of the calling thread; of a context that is no task's it is left out, since to ask takes longer than a scope.
ProcessorTime time_in(const Context *c) {
  const bool is_task = !each_part(c->tags(), ',', [](string_view tag) { return !starts_with(tag, "task="); });
  return is_task ? time_of_caller() : ProcessorTime{};
}

// What a task does before its first call, and after its last one, is the task's, too: both ends are events. The kernel
// is asked in between, so that what it says is never more than the time.
void tell_begin(Thread *t, Context *c) {
  if (c->entered.exchange(1, std::memory_order_relaxed)) return;
  const uint64_t now = now_ticks();
  record_context(t, Fn::kEnter, c, now, time_in(c));
}

void end_context(Thread *t, uint32_t id) {
  Context *c = context_of(id);
  if (!c || c->finished.load(std::memory_order_relaxed)) return;
  const ProcessorTime time = time_in(c);
  record_context(t, Fn::kLeave, c, now_ticks(), time);
  Locked lock(g_wiped.table);
  finish_context(c);
}

}  // namespace

TAILRACE_API int tailrace_active() { return enter() != nullptr; }
TAILRACE_API const char *tailrace_version() { return TAILRACE_VERSION; }
TAILRACE_API const char *tailrace_build_info() { return build_info(); }

TAILRACE_API tailrace_context tailrace_context_enter(const char *tags) {
  Thread *t = tags ? enter() : nullptr;
  Context *c = t ? make_context(tags) : nullptr;
  if (!c) return 0;
  tailrace_context_switch(c->id);
  tell_begin(t, c);
  return c->id;
}

TAILRACE_API tailrace_context tailrace_context_current() { return enter() ? current_context()->id : 0; }

TAILRACE_API tailrace_context tailrace_context_switch(tailrace_context id) {
  Thread *t = enter();
  if (!t) return 0;
  Context *before = current_context();
  Context *next = id ? context_of(id) : nullptr;
  t_context = next;
  // So that a stage's events are in the run directory soon after its end.
  if (next != before && is_worth_a_block(t)) pass_on(t);
  return before->id;
}

TAILRACE_API void tailrace_context_finish(tailrace_context id) {
  Thread *t = enter();
  if (!t) return;
  end_context(t, id);
  // A block of the few records of a short task costs more than the task.
  if (is_worth_a_block(t) || is_due_for_sealing(t)) pass_on(t);
}

// Not in tailrace.h: a scope of tailrace.context. The first two never seal, so that they can be called with the
// interpreter's lock held: to give it up for a fraction of a microsecond, and to get it back, takes longer than a
// scope.

// Like tailrace_context_enter(). The context, and in the upper half the one before; 0 as there.
TAILRACE_API uint64_t tailrace_scope_begin(const char *tags) {
  Thread *t = tags ? enter() : nullptr;
  if (!t) return 0;
  const uint64_t outer = current_context()->id;
  Context *c = make_context(tags);
  if (!c) return 0;
  t_context = c;
  tell_begin(t, c);
  return outer << 32 | c->id;
}

// Goes back to the context before and, with `finish`, ends the other. Whether tailrace_pass_on() is to be called.
TAILRACE_API int tailrace_scope_end(uint64_t scope, int finish) {
  Thread *t = enter();
  if (!t) return 0;
  if (finish) end_context(t, static_cast<uint32_t>(scope));
  t_context = context_of(static_cast<uint32_t>(scope >> 32));
  return is_worth_a_block(t) || (finish && is_due_for_sealing(t));
}

TAILRACE_API void tailrace_pass_on() {
  if (Thread *t = enter()) pass_on(t);
}

TAILRACE_API void tailrace_flush() {
  Thread *t = enter();
  if (!t) return;
  seal_thread(t);
  seal_idle_threads();
}

// Not in tailrace.h: for the Python package, which seals and reads journals in processes that may be traced.
TAILRACE_API void tailrace_count_own(uint64_t read, uint64_t written) {
  count_own(static_cast<int64_t>(read), static_cast<int64_t>(written));
}

TAILRACE_API size_t tailrace_tag_error(const char *tags, char *message, size_t size) {
  TagSet set;
  size_t at = 0;
  char text[512];
  Writer w(text, sizeof text - 1);
  if (parse_tags(tags ? tags : "", set, at, w)) return 0;
  Writer out(message, size);
  string_view all = w.view();
  out << (all.size() < size ? all : slice(all, 0, size ? size - 1 : 0));
  out.c_str();
  return at + 1;
}

TAILRACE_API const char *tailrace_run_directory() {
  return g_session.state.load() == State::kOn ? g_session.environment[Setting::TAILRACE_RUN].data() : nullptr;
}

TAILRACE_API const char *tailrace_setting(const char *name) {
  if (g_session.state.load() != State::kOn || !name) return nullptr;
  for (size_t i = 0; i < kSettingCount; ++i) {
    if (kSettings[i].name == name) return g_session.environment[static_cast<Setting>(i)].data();
  }
  return nullptr;
}

// ---- regions (tailrace/region.h) ----

namespace {

string_view text_or_empty(const char *text) { return text ? string_view(text) : string_view(); }

const RegionDefinition *definition_of(const void *handle) { return static_cast<const RegionDefinition *>(handle); }

const RegionFunctions kRegionFunctions = {
    sizeof(RegionFunctions),
    [](const char *name, const char *category) -> const void * {
      return define_region(text_or_empty(name), text_or_empty(category));
    },
    [](Region *region, const void *definition, int64_t epoch, int64_t step, const char *keys) {
      begin_region(*region, definition_of(definition), {epoch, step, keys});
    },
    [](Region *region, int64_t epoch, int64_t step, const char *keys, int changed) {
      end_region(*region, {epoch, step, keys}, changed != 0);
    },
    [](const void *definition, int64_t epoch, int64_t step, const char *keys) {
      record_instant(definition_of(definition), {epoch, step, keys});
    },
    [](const void *definition, double value) { record_counter(definition_of(definition), value); },
    [](const Region *region) { switch_region(region); },
    [](Region *state) { hold_region(*state); },
    []() -> uint64_t { return enter() ? t_region : 0; },
};

}  // namespace

TAILRACE_API const RegionFunctions *tailrace_region_functions_v1() { return &kRegionFunctions; }

TAILRACE_API int tailrace_attach() {
  // TAILRACE_RUN may have been set since the library's constructor ran.
  State state = g_session.state.load();
  start_session(nullptr, state == State::kOff ? State::kOff : State::kNew);
  if (!enter()) return -1;
  watch_thread_end();
  if (state == State::kOff) handle_exit();
  begin_stacks();
  find_layers();
  find_python();
  begin_native_functions();
  find_annotations();
#ifdef TAILRACE_CUPTI
  find_gpu_activity();
#endif
  return attach_with_gotcha();
}

TAILRACE_API const char *tailrace_attach_error() {
  if (has_more_rights_than_its_caller()) return "a program with more privileges than its caller is not traced";
  if (g_session.state.load() != State::kOn) return "TAILRACE_RUN is not set in the environment";
  return attach_error();
}
