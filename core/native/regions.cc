// tailrace._regions: the begin and end of regions in Python (core/python/tailrace/regions.py).
//
//   thread state of the core   which region the records of this thread carry: one a thread
//   context variable           which region this code is in: one a coroutine or task, copied by asyncio.to_thread
//
// Where both agree, begin() nests as in C. Where they do not, other code has run on the thread since (a coroutine that
// waits in its region, a pool's thread), and the variable is right: the thread is moved to its region first.
//
// Rejected: context variables alone, as OpenTelemetry has them: calls are recorded by thread, and before Python 3.14
// nothing tells of a change of context.
//
// Invariants: in an untraced process begin() returns None after one load. No function here raises but for arguments.
#include <Python.h>

#include "tailrace/region.h"

#ifdef Py_LIMITED_API
// The limited API leaves them out; they have been the same since 3.7.
extern "C" {
PyAPI_FUNC(PyObject *) PyContextVar_New(const char *name, PyObject *otherwise);
PyAPI_FUNC(int) PyContextVar_Get(PyObject *variable, PyObject *otherwise, PyObject **value);
PyAPI_FUNC(PyObject *) PyContextVar_Set(PyObject *variable, PyObject *value);
}
#endif

namespace {

PyObject *g_variable;  // ContextVar: a Region, or None

// What Python code has last made the thread's region. Where the core has another one, native code has begun it.
struct ThreadState {
  bool known;
  uint64_t at_start, last;
};
thread_local ThreadState t_state;

struct Definition {
  PyObject_HEAD;
  tailrace_site site;
  PyObject *name, *category;
};

struct Region {
  PyObject_HEAD;
  tailrace_region region;
  tailrace_region before;  // the thread's state before the begin
  PyObject *outer;         // a Region or null: what the variable had
  unsigned long thread;
  bool moved, ended;
};

PyTypeObject *g_definition_type, *g_region_type;
Region *g_free;  // one, of the region that ended last

void definition_dealloc(PyObject *raw) {
  auto *self = reinterpret_cast<Definition *>(raw);
  PyTypeObject *type = Py_TYPE(raw);
  Py_CLEAR(self->name);
  Py_CLEAR(self->category);
  PyObject_Free(raw);
  Py_DECREF(type);
}

void region_dealloc(PyObject *raw) {
  auto *self = reinterpret_cast<Region *>(raw);
  Py_CLEAR(self->outer);
  if (g_free == nullptr) {
    g_free = self;
    return;
  }
  PyTypeObject *type = Py_TYPE(raw);
  PyObject_Free(raw);
  Py_DECREF(type);
}

Region *new_region() {
  Region *self = g_free;
  if (self != nullptr) {
    g_free = nullptr;
    PyObject_Init(reinterpret_cast<PyObject *>(self), g_region_type);
    Py_DECREF(g_region_type);  // it has kept the one of its first life
  } else {
    self = PyObject_New(Region, g_region_type);
  }
  if (self != nullptr) {
    self->outer = nullptr;
    self->moved = self->ended = false;
  }
  return self;
}

// The innermost region of this code that has not ended; borrowed, or null.
Region *region_of_code(PyObject *value) {
  while (value != nullptr && Py_TYPE(value) == g_region_type) {
    auto *region = reinterpret_cast<Region *>(value);
    if (!region->ended) return region;
    value = region->outer;
  }
  return nullptr;
}

// Moves the thread to the region that this code is in.
void agree(Region *code, Region *begun) {
  tailrace_regions->hold(&begun->before);
  const uint64_t now = begun->before.id;
  ThreadState &state = t_state;
  if (!state.known) state = {true, now, now};
  const bool by_python = now == state.last;
  if (!by_python || (code != nullptr ? code->region.id == now : now == state.at_start)) return;
  begun->moved = code != nullptr && code->thread != PyThread_get_thread_ident();
  tailrace_regions->switch_to(code != nullptr ? &code->region : nullptr);
}

void set_variable(PyObject *region) {
  PyObject *token = PyContextVar_Set(g_variable, region != nullptr ? region : Py_None);
  if (token == nullptr) PyErr_Clear();  // without memory regions are the thread's alone
  Py_XDECREF(token);
}

int64_t number_or_none(PyObject *value) {
  if (value == Py_None) return TAILRACE_NO_KEY;
  const long long number = PyLong_AsLongLong(value);
  return number == -1 && PyErr_Occurred() != nullptr ? TAILRACE_NO_KEY : number;
}

// Epoch, step and keys (bytes), from args[0] on.
struct Keys {
  int64_t epoch = TAILRACE_NO_KEY, step = TAILRACE_NO_KEY;
  const char *text = nullptr;

  bool read(PyObject *const *args, Py_ssize_t count) {
    if (count > 0) epoch = number_or_none(args[0]);
    if (count > 1) step = number_or_none(args[1]);
    if (count > 2 && args[2] != Py_None) text = PyBytes_AsString(args[2]);
    return PyErr_Occurred() == nullptr;
  }
};

bool is_a(PyObject *value, PyTypeObject *type) {
  if (Py_TYPE(value) == type) return true;
  PyErr_Format(PyExc_TypeError, "%R is expected, not %R", type, Py_TYPE(value));
  return false;
}

bool has(Py_ssize_t count, Py_ssize_t least) {
  if (count >= least) return true;
  PyErr_SetString(PyExc_TypeError, "too few arguments");
  return false;
}

PyObject *define(PyObject *, PyObject *const *args, Py_ssize_t count) {
  if (!has(count, 2)) return nullptr;
  const char *name = PyUnicode_AsUTF8AndSize(args[0], nullptr);
  const char *category = name != nullptr ? PyUnicode_AsUTF8AndSize(args[1], nullptr) : nullptr;
  if (category == nullptr) return nullptr;
  auto *self = PyObject_New(Definition, g_definition_type);
  if (self == nullptr) return nullptr;
  self->site = tailrace_site TAILRACE_SITE(name, category);
  Py_INCREF(args[0]);
  Py_INCREF(args[1]);
  self->name = args[0];
  self->category = args[1];
  return reinterpret_cast<PyObject *>(self);
}

// begin(definition, epoch=None, step=None, keys=None)
PyObject *begin(PyObject *, PyObject *const *args, Py_ssize_t count) {
  if (tailrace_regions == nullptr) Py_RETURN_NONE;
  Keys keys;
  if (!has(count, 1) || !is_a(args[0], g_definition_type) || !keys.read(args + 1, count - 1)) return nullptr;
  Region *self = new_region();
  if (self == nullptr) return nullptr;
  PyObject *value = nullptr;
  if (PyContextVar_Get(g_variable, Py_None, &value) < 0) {
    Py_DECREF(self);
    return nullptr;
  }
  Region *code = region_of_code(value);
  agree(code, self);
  Py_XINCREF(reinterpret_cast<PyObject *>(code));
  self->outer = reinterpret_cast<PyObject *>(code);
  Py_DECREF(value);
  self->thread = PyThread_get_thread_ident();
  auto *definition = reinterpret_cast<Definition *>(args[0]);
  tailrace_region_begin_with(&self->region, &definition->site, keys.epoch, keys.step, keys.text);
  if (self->region.id == 0) {
    Py_DECREF(self);
    Py_RETURN_NONE;
  }
  t_state.last = self->region.id;
  set_variable(reinterpret_cast<PyObject *>(self));
  return reinterpret_cast<PyObject *>(self);
}

// The region of a call (region, epoch, step, keys), which ends by it, and its keys; null: nothing ends, or an error is
// set.
Region *read_end(PyObject *const *args, Py_ssize_t count, Keys &keys) {
  if (tailrace_regions == nullptr || !has(count, 1) || args[0] == Py_None) return nullptr;
  if (!is_a(args[0], g_region_type) || !keys.read(args + 1, count - 1)) return nullptr;
  auto *self = reinterpret_cast<Region *>(args[0]);
  if (self->ended) return nullptr;
  self->ended = true;
  return self;
}

PyObject *none_without_error() {
  if (PyErr_Occurred() != nullptr) return nullptr;
  Py_RETURN_NONE;
}

// end(region), or with what has changed: end(region, epoch, step, keys)
PyObject *end(PyObject *, PyObject *const *args, Py_ssize_t count) {
  Keys keys;
  Region *self = read_end(args, count, keys);
  if (self == nullptr) return none_without_error();
  tailrace_regions->end(&self->region, keys.epoch, keys.step, keys.text, count > 1);
  if (self->moved && self->thread == PyThread_get_thread_ident()) tailrace_regions->switch_to(&self->before);
  t_state.last = tailrace_regions->current();
  set_variable(self->outer);
  Py_RETURN_NONE;
}

void go_back(const tailrace_region &state, PyObject *variable) {
  tailrace_regions->switch_to(&state);
  set_variable(variable);
  t_state.last = tailrace_regions->current();
}

// leave(region): the thread is again where it was before the region began, which goes on.
PyObject *leave(PyObject *, PyObject *region) {
  if (tailrace_regions == nullptr || region == Py_None) Py_RETURN_NONE;
  if (!is_a(region, g_region_type)) return nullptr;
  auto *self = reinterpret_cast<Region *>(region);
  go_back(self->before, self->outer);
  Py_RETURN_NONE;
}

// Where the thread is, for suspend(); new, or null.
Region *held_state() {
  Region *before = new_region();
  if (before == nullptr) return nullptr;
  before->ended = true;
  if (PyContextVar_Get(g_variable, Py_None, &before->outer) < 0) PyErr_Clear();
  before->thread = PyThread_get_thread_ident();
  tailrace_regions->hold(&before->region);
  return before;
}

// resume(region): the thread is in the region from now on; returns what suspend() takes.
PyObject *resume(PyObject *, PyObject *region) {
  if (tailrace_regions == nullptr || region == Py_None) Py_RETURN_NONE;
  if (!is_a(region, g_region_type)) return nullptr;
  Region *before = held_state();
  if (before == nullptr) return nullptr;
  auto *self = reinterpret_cast<Region *>(region);
  if (!self->ended) tailrace_regions->switch_to(&self->region);
  set_variable(region);
  t_state = {true, t_state.known ? t_state.at_start : before->region.id, tailrace_regions->current()};
  return reinterpret_cast<PyObject *>(before);
}

PyObject *suspend(PyObject *, PyObject *before) {
  if (tailrace_regions == nullptr || before == Py_None) Py_RETURN_NONE;
  if (!is_a(before, g_region_type)) return nullptr;
  auto *state = reinterpret_cast<Region *>(before);
  go_back(state->region, state->outer);
  Py_RETURN_NONE;
}

// start(definition, parent, epoch=None, step=None, keys=None): a region that the thread is not in.
PyObject *start(PyObject *, PyObject *const *args, Py_ssize_t count) {
  if (tailrace_regions == nullptr) Py_RETURN_NONE;
  Keys keys;
  if (!has(count, 2) || !is_a(args[0], g_definition_type) || !keys.read(args + 2, count - 2)) return nullptr;
  if (args[1] != Py_None && args[1] != Py_False && !is_a(args[1], g_region_type)) return nullptr;
  Region *self = new_region();
  if (self == nullptr) return nullptr;
  if (args[1] == Py_None) {
    PyObject *value = nullptr;
    if (PyContextVar_Get(g_variable, Py_None, &value) < 0) PyErr_Clear();
    agree(region_of_code(value), self);
    Py_XDECREF(value);
    self->moved = false;
  } else {
    auto *parent = args[1] != Py_False ? region_of_code(args[1]) : nullptr;
    tailrace_regions->hold(&self->before);
    tailrace_regions->switch_to(parent != nullptr ? &parent->region : nullptr);
  }
  self->thread = PyThread_get_thread_ident();
  auto *definition = reinterpret_cast<Definition *>(args[0]);
  tailrace_region_begin_with(&self->region, &definition->site, keys.epoch, keys.step, keys.text);
  tailrace_regions->switch_to(&self->before);
  if (self->region.id != 0) return reinterpret_cast<PyObject *>(self);
  Py_DECREF(self);
  Py_RETURN_NONE;
}

// finish(region, epoch=None, step=None, keys=None): ends it, by any thread, which stays in the region where it is.
PyObject *finish(PyObject *, PyObject *const *args, Py_ssize_t count) {
  Keys keys;
  Region *self = read_end(args, count, keys);
  if (self == nullptr) return none_without_error();
  tailrace_region state;
  tailrace_regions->hold(&state);
  tailrace_regions->end(&self->region, keys.epoch, keys.step, keys.text, count > 1);
  tailrace_regions->switch_to(&state);
  Py_RETURN_NONE;
}

// follow(value): the thread is in the region that a context's variable has, if it has one; returns what suspend()
// takes.
PyObject *follow(PyObject *module, PyObject *value) {
  if (tailrace_regions == nullptr) Py_RETURN_NONE;
  Region *code = region_of_code(value);
  return code != nullptr ? resume(module, reinterpret_cast<PyObject *>(code))
                         : reinterpret_cast<PyObject *>(held_state());
}

// instant(definition, epoch=None, step=None, keys=None)
PyObject *instant(PyObject *, PyObject *const *args, Py_ssize_t count) {
  if (tailrace_regions == nullptr) Py_RETURN_NONE;
  Keys keys;
  if (!has(count, 1) || !is_a(args[0], g_definition_type) || !keys.read(args + 1, count - 1)) return nullptr;
  tailrace_regions->instant(tailrace_definition(&reinterpret_cast<Definition *>(args[0])->site), keys.epoch, keys.step,
                            keys.text);
  Py_RETURN_NONE;
}

PyObject *counter(PyObject *, PyObject *const *args, Py_ssize_t count) {
  if (tailrace_regions == nullptr) Py_RETURN_NONE;
  if (!has(count, 2) || !is_a(args[0], g_definition_type)) return nullptr;
  const double value = PyFloat_AsDouble(args[1]);
  if (value == -1 && PyErr_Occurred() != nullptr) return nullptr;
  tailrace_regions->counter(tailrace_definition(&reinterpret_cast<Definition *>(args[0])->site), value);
  Py_RETURN_NONE;
}

PyObject *find(PyObject *, PyObject *) {
  tailrace_find_regions();
  return PyBool_FromLong(tailrace_regions != nullptr);
}

template <class Function>
PyCFunction as_method(Function function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

PyMethodDef g_methods[] = {
    {"define", as_method(define), METH_FASTCALL, "define(name, category): what begin() takes."},
    {"begin", as_method(begin), METH_FASTCALL,
     "begin(definition, epoch=None, step=None, keys=None): what end() takes."},
    {"end", as_method(end), METH_FASTCALL, "end(region), or with what has changed: end(region, epoch, step, keys)."},
    {"resume", resume, METH_O, "The thread is in the region from now on. Returns what suspend() takes."},
    {"leave", leave, METH_O, "The thread is again where it was before begin()."},
    {"suspend", suspend, METH_O, "The thread is again where it was before resume()."},
    {"start", as_method(start), METH_FASTCALL,
     "start(definition, parent, epoch=None, step=None, keys=None): a region that the thread is not in, below `parent`, "
     "the region of this code (None), or none (False)."},
    {"finish", as_method(finish), METH_FASTCALL, "Ends a region of start(); the thread stays where it is."},
    {"follow", follow, METH_O, "resume() for the region that is a value of `variable`, if there is one."},
    {"instant", as_method(instant), METH_FASTCALL, "instant(definition, epoch=None, step=None, keys=None)."},
    {"counter", as_method(counter), METH_FASTCALL, "counter(definition, value)."},
    {"find", find, METH_NOARGS, "Looks for the core again, after it was loaded. Whether it is there."},
    {nullptr, nullptr, 0, nullptr}};

PyTypeObject *new_type(const char *name, int bytes, destructor free_object) {
  PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void *>(free_object)}, {0, nullptr}};
  PyType_Spec spec = {name, bytes, 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  return reinterpret_cast<PyTypeObject *>(PyType_FromSpec(&spec));
}

PyModuleDef g_module = {PyModuleDef_HEAD_INIT,
                        "_regions",
                        "Regions of Python code: tailrace/regions.py.",
                        -1,
                        g_methods,
                        nullptr,
                        nullptr,
                        nullptr,
                        nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__regions() {
  g_definition_type = new_type("tailrace._regions.Definition", sizeof(Definition), definition_dealloc);
  g_region_type = new_type("tailrace._regions.Region", sizeof(Region), region_dealloc);
  g_variable = PyContextVar_New("tailrace.region", nullptr);
  if (g_definition_type == nullptr || g_region_type == nullptr || g_variable == nullptr) return nullptr;
  PyObject *module = PyModule_Create(&g_module);
  if (module == nullptr) return nullptr;
  if (PyModule_AddObjectRef(module, "Definition", reinterpret_cast<PyObject *>(g_definition_type)) < 0 ||
      PyModule_AddObjectRef(module, "Region", reinterpret_cast<PyObject *>(g_region_type)) < 0 ||
      PyModule_AddObjectRef(module, "variable", g_variable) < 0) {
    Py_CLEAR(module);
  }
  return module;
}
