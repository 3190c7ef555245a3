// See layers/python_functions.h.
#include "layers/python_functions.h"

#include <dlfcn.h>

#include "base/arena.h"
#include "base/own_memory.h"
#include "format/path_patterns.h"
#include "layers/python_stacks.h"
#include "linker/real.h"
#include "session/function_calls.h"
#include "session/record.h"
#include "session/region.h"
#include "session/stacks.h"

// The parts of Python's stable ABI that are used, and PyEval_SetProfile, which has been the same since Python 2.
struct PyObject;
using PyFunction = PyObject *(*)(PyObject *self, PyObject *const *args, intptr_t count);
struct PyMethodDef {
  const char *name;
  PyFunction function;
  int flags;
  const char *doc;
};

namespace tailrace {

std::atomic<bool> g_python_waits;

namespace {

constexpr int kFastCall = 0x0080;                // METH_FASTCALL
constexpr int kCall = 0, kReturn = 3;            // PyTrace_CALL, PyTrace_RETURN
constexpr uint32_t kMostCodes = 1U << 15;        // of which the table keeps the interpreter's object
constexpr uint32_t kCodeSlots = 4 * kMostCodes;  // a power of two

using Profile = int (*)(PyObject *, PyObject *frame, int what, PyObject *argument);

#define PYTHON_FUNCTIONS(F)                                                         \
  F(Py_IsInitialized, int, ())                                                      \
  F(Py_AddPendingCall, int, (int (*)(void *), void *))                              \
  F(Py_IncRef, void, (PyObject *))                                                  \
  F(Py_DecRef, void, (PyObject *))                                                  \
  F(PyErr_Clear, void, ())                                                          \
  F(PySys_GetObject, PyObject *, (const char *))                                    \
  F(PyObject_GetAttrString, PyObject *, (PyObject *, const char *))                 \
  F(PyObject_CallFunction, PyObject *, (PyObject *, const char *, ...))             \
  F(PyObject_CallMethod, PyObject *, (PyObject *, const char *, const char *, ...)) \
  F(PyObject_IsTrue, int, (PyObject *))                                             \
  F(PyLong_AsLong, long, (PyObject *))                                              \
  F(PyCFunction_NewEx, PyObject *, (PyMethodDef *, PyObject *, PyObject *))         \
  F(PyUnicode_AsUTF8AndSize, const char *, (PyObject *, intptr_t *))                \
  F(PyEval_GetGlobals, PyObject *, ())                                              \
  F(PyDict_GetItemString, PyObject *, (PyObject *, const char *))                   \
  F(PyImport_ImportModule, PyObject *, (const char *))                              \
  F(PyFrame_GetCode, PyObject *, (PyObject *))                                      \
  F(PyEval_SetProfile, void, (Profile, PyObject *))

struct Python {
#define POINTER(name, result, parameters) result(*name) parameters;
  PYTHON_FUNCTIONS(POINTER)
#undef POINTER
  PyObject *none;
  PyObject *disable;  // sys.monitoring.DISABLE; null before 3.12
};
Python g_python;

// A code object that has run.
struct Code {
  PyObject *object;                    // ours: the address stays its
  const RegionDefinition *definition;  // null: it is not wanted
  uint32_t running, short_calls;
  bool is_left_out;
};
Code **g_codes;  // by address
uint32_t g_code_count;

// A call that has not returned, of this thread.
struct Running {
  Running *below;
  Code *code;
  Region region;
  RecordMark records;
};
__thread Running *t_running;
Running *g_free;

PyObject *kept(PyObject *object) {
  g_python.Py_IncRef(object);
  return object;
}

// A reference that is given back at the end of the scope.
class Reference {
 public:
  explicit Reference(PyObject *object) : object_(object) {}
  ~Reference() {
    if (object_) g_python.Py_DecRef(object_);
  }
  Reference(const Reference &) = delete;
  Reference &operator=(const Reference &) = delete;
  explicit operator bool() const { return object_ != nullptr; }
  PyObject *get() const { return object_; }

 private:
  PyObject *object_;
};

string_view text_of(PyObject *object) {
  intptr_t bytes = 0;
  const char *text = object ? g_python.PyUnicode_AsUTF8AndSize(object, &bytes) : nullptr;
  if (!text) g_python.PyErr_Clear();
  return text ? string_view(text, static_cast<size_t>(bytes)) : string_view();
}

bool is_wanted(string_view name) {
  const string_view patterns = g_session.environment[Setting::TAILRACE_PYTHON_FUNCTIONS];
  return !each_part(patterns, ':', [&](string_view pattern) {
    // A package or module alone is all of it.
    const bool is_in = starts_with(name, pattern) && name.size() > pattern.size() && name[pattern.size()] == '.';
    return pattern.empty() || !(is_in || matches_pattern(name, pattern));
  });
}

// "module.qualified name" of a function that runs now.
const RegionDefinition *definition_of(PyObject *code) {
  Reference qualified(g_python.PyObject_GetAttrString(code, "co_qualname"));
  if (!qualified) g_python.PyErr_Clear();
  Reference plain(qualified ? nullptr : g_python.PyObject_GetAttrString(code, "co_name"));
  PyObject *globals = g_python.PyEval_GetGlobals();
  char room[2 * kMostRegionNameBytes];
  Writer name(room, sizeof room);
  name << text_of(globals ? g_python.PyDict_GetItemString(globals, "__name__") : nullptr) << '.'
       << text_of(qualified ? qualified.get() : plain.get());
  return is_wanted(name.view()) ? define_region(name.view(), "python") : nullptr;
}

Code *&place_of(PyObject *object) {
  uint64_t hash = reinterpret_cast<uintptr_t>(object) * 0x9E3779B97F4A7C15ULL;
  for (uint64_t i = hash >> 32;; ++i) {
    Code *&place = g_codes[i % kCodeSlots];
    if (!place || place->object == object) return place;
  }
}

// Null: the table is full.
Code *code_of(PyObject *object) {
  Code *&place = place_of(object);
  if (place || g_code_count == kMostCodes) return place;
  const RegionDefinition *definition = definition_of(object);
  Code *made = nullptr;
  {
    Locked lock(g_wiped.table);
    made = static_cast<Code *>(arena_allocate(sizeof(Code)));
  }
  if (!made) return nullptr;
  made->object = kept(object);
  made->definition = definition;
  ++g_code_count;
  return place = made;
}

bool is_recorded(const Code *code) { return code && code->definition && !code->is_left_out; }

void begin(Code *code) {
  Running *running = g_free;
  if (running) {
    g_free = running->below;
  } else {
    Locked lock(g_wiped.table);
    running = static_cast<Running *>(arena_allocate(sizeof(Running)));
  }
  if (!running) return;
  running->below = t_running;
  running->code = code;
  begin_region(running->region, code->definition, {});
  if (const Thread *t = enter()) running->records = mark_records(t);
  t_running = running;
  ++code->running;
}

// A call that recorded nothing and was short leaves no region.
void end_running(Running *running) {
  Code *code = running->code;
  const Thread *t = enter();
  const bool is_alone = t && is_unchanged(t, running->records);
  const bool is_short = is_alone && now_ticks() - running->region.t0 < g_function_minimum_ticks;
  if (!is_short || !drop_region(running->region)) end_region(running->region, {}, false);
  --code->running;
  code->short_calls = is_short ? code->short_calls + 1 : 0;
  if (code->short_calls < kShortCalls || code->running) return;
  code->is_left_out = true;
  const string_view both = code->definition->both();
  record_instant(define_region(slice(both, 0, both.find('\0')), "left out"), {});
}

void end(const Code *code) {
  // Of a call that began before its function was recorded there is none.
  Running *running = t_running;
  if (!running || running->code != code) return;
  t_running = running->below;
  end_running(running);
  running->below = g_free;
  g_free = running;
}

// ---- sys.monitoring: callbacks (code, offset, ...) ----

PyObject *function_begins(PyObject *, PyObject *const *args, intptr_t) {
  if (!is_recording()) return kept(g_python.disable);
  Code *code = code_of(args[0]);
  if (!is_recorded(code)) return kept(g_python.disable);
  begin(code);
  return kept(g_python.none);
}

PyObject *function_ends(PyObject *, PyObject *const *args, intptr_t) {
  if (!is_recording()) return kept(g_python.disable);
  Code *code = place_of(args[0]);
  if (code && code->definition) end(code);
  return kept(is_recorded(code) || (code && code->running) ? g_python.none : g_python.disable);
}

// These two can't be disabled for one function.
PyObject *function_throws(PyObject *, PyObject *const *args, intptr_t) {
  if (!is_recording()) return kept(g_python.none);
  Code *code = place_of(args[0]);
  if (is_recorded(code)) begin(code);
  return kept(g_python.none);
}

PyObject *function_unwinds(PyObject *, PyObject *const *args, intptr_t) {
  if (!is_recording()) return kept(g_python.none);
  Code *code = place_of(args[0]);
  if (code && code->definition) end(code);
  return kept(g_python.none);
}

PyMethodDef g_begins = {"tailrace_begins", function_begins, kFastCall, nullptr};
PyMethodDef g_ends = {"tailrace_ends", function_ends, kFastCall, nullptr};
PyMethodDef g_throws = {"tailrace_throws", function_throws, kFastCall, nullptr};
PyMethodDef g_unwinds = {"tailrace_unwinds", function_unwinds, kFastCall, nullptr};

struct Callback {
  const char *event;
  PyMethodDef *function;
};
// A generator's and a coroutine's steps are calls: other code runs in between.
const Callback kCallbacks[] = {{"PY_START", &g_begins}, {"PY_RESUME", &g_begins},  {"PY_RETURN", &g_ends},
                               {"PY_YIELD", &g_ends},   {"PY_UNWIND", &g_unwinds}, {"PY_THROW", &g_throws}};

// A tool id that is not in use; -1: all are. Debuggers, coverage and profilers have 0, 1, 2 and 5.
int take_tool(PyObject *monitoring) {
  for (int tool : {4, 3}) {
    if (Reference(g_python.PyObject_CallMethod(monitoring, "use_tool_id", "is", tool, "tailrace"))) return tool;
    g_python.PyErr_Clear();
  }
  return -1;
}

void start_monitoring(PyObject *monitoring) {
  Reference events(g_python.PyObject_GetAttrString(monitoring, "events"));
  g_python.disable = g_python.PyObject_GetAttrString(monitoring, "DISABLE");
  const int tool = events && g_python.disable ? take_tool(monitoring) : -1;
  if (tool < 0) return;
  long set = 0;
  for (const Callback &callback : kCallbacks) {
    Reference event(g_python.PyObject_GetAttrString(events.get(), callback.event));
    Reference function(g_python.PyCFunction_NewEx(callback.function, nullptr, nullptr));
    if (!event || !function) return;
    const long bit = g_python.PyLong_AsLong(event.get());
    Reference before(g_python.PyObject_CallMethod(monitoring, "register_callback", "ilO", tool, bit, function.get()));
    set |= bit;
  }
  Reference done(g_python.PyObject_CallMethod(monitoring, "set_events", "il", tool, set));
}

// ---- the profile function, before 3.12 ----

int profile(PyObject *, PyObject *frame, int what, PyObject *) {
  if ((what != kCall && what != kReturn) || !is_recording()) return 0;
  Reference object(g_python.PyFrame_GetCode(frame));
  if (what == kCall) {
    Code *code = code_of(object.get());
    if (is_recorded(code)) begin(code);
  } else {
    Code *code = place_of(object.get());
    if (code && code->definition) end(code);
  }
  return 0;
}

// What threading.setprofile calls in a new thread for its first event: from then on the other one is called.
PyObject *thread_begins(PyObject *, PyObject *const *, intptr_t) {
  g_python.PyEval_SetProfile(profile, nullptr);
  return kept(g_python.none);
}

PyMethodDef g_thread_begins = {"tailrace_thread_begins", thread_begins, kFastCall, nullptr};

void start_profile() {
  Reference threading(g_python.PyImport_ImportModule("threading"));
  Reference function(g_python.PyCFunction_NewEx(&g_thread_begins, nullptr, nullptr));
  if (threading && function) {
    Reference done(g_python.PyObject_CallMethod(threading.get(), "setprofile", "O", function.get()));
  }
  g_python.PyErr_Clear();
  g_python.PyEval_SetProfile(profile, nullptr);
}

// Without a GIL nothing guards the tables.
bool has_gil() {
  PyObject *asks = g_python.PySys_GetObject("_is_gil_enabled");
  if (!asks) return true;
  Reference answer(g_python.PyObject_CallFunction(asks, nullptr));
  return answer && g_python.PyObject_IsTrue(answer.get()) == 1;
}

bool are_functions_wanted() { return !g_session.environment[Setting::TAILRACE_PYTHON_FUNCTIONS].empty(); }

int start(void *) {
  if (!enter() || !has_gil()) return 0;
  if (g_stacks.on) begin_python_stacks();
  if (!are_functions_wanted()) return 0;
  g_codes = static_cast<Code **>(own_memory::pages(kCodeSlots * sizeof(Code *)));
  if (!g_codes) return 0;
  if (PyObject *monitoring = g_python.PySys_GetObject("monitoring")) {
    start_monitoring(monitoring);
  } else {
    start_profile();
  }
  g_python.PyErr_Clear();
  return 0;
}

}  // namespace

void find_python() {
  if (!enter() || g_codes || !(are_functions_wanted() || g_stacks.on)) return;
#define FIND(name, result, parameters) *reinterpret_cast<void **>(&g_python.name) = real_dlsym(RTLD_DEFAULT, #name);
  PYTHON_FUNCTIONS(FIND)
#undef FIND
  g_python.none = static_cast<PyObject *>(real_dlsym(RTLD_DEFAULT, "_Py_NoneStruct"));
  bool has_all = g_python.none != nullptr;
#define CHECK(name, result, parameters) has_all = has_all && g_python.name != nullptr;
  PYTHON_FUNCTIONS(CHECK)
#undef CHECK
  // The program's next dlerror() must not report these.
  if (!has_all) dlerror();
  if (has_all && g_stacks.on) find_python_stacks();
  g_function_minimum_ticks = function_minimum_ticks();
  g_python_waits.store(has_all, std::memory_order_relaxed);
}

void start_python_functions() {
  if (!g_python.Py_IsInitialized() || !g_python_waits.exchange(false)) return;
  // Full is its queue of 32 never at the interpreter's start; then its next open file tries again.
  if (g_python.Py_AddPendingCall(start, nullptr) != 0) g_python_waits.store(true, std::memory_order_relaxed);
}

}  // namespace tailrace
