// See layers/python_stacks.h.
#include "layers/python_stacks.h"

#include <dlfcn.h>

#include "base/own_memory.h"
#include "linker/real.h"
#include "session/python_frames.h"
#include "session/session.h"

struct PyObject;

namespace tailrace {
namespace {

#define PYTHON_FUNCTIONS(F)                                          \
  F(Py_GetVersion, const char *, ())                                 \
  F(PyGILState_GetThisThreadState, void *, ())                       \
  F(PyEval_GetFrame, PyObject *, ())                                 \
  F(PyFrame_GetBack, PyObject *, (PyObject *))                       \
  F(PyFrame_GetCode, PyObject *, (PyObject *))                       \
  F(PyFrame_GetLineNumber, int, (PyObject *))                        \
  F(PyObject_GetAttrString, PyObject *, (PyObject *, const char *))  \
  F(PyUnicode_AsUTF8AndSize, const char *, (PyObject *, intptr_t *)) \
  F(PyErr_Clear, void, ())                                           \
  F(Py_IncRef, void, (PyObject *))                                   \
  F(Py_DecRef, void, (PyObject *))

struct Python {
#define POINTER(name, result, parameters) result(*name) parameters;
  PYTHON_FUNCTIONS(POINTER)
#undef POINTER
};
Python g_python;
PythonInterpreter g_found;

void write_text(Writer &out, PyObject *object) {
  intptr_t bytes = 0;
  const char *text = object ? g_python.PyUnicode_AsUTF8AndSize(object, &bytes) : nullptr;
  if (text) out << string_view(text, static_cast<size_t>(bytes));
  if (object) g_python.Py_DecRef(object);
}

// What write_python_frame() should say of a frame.
void write_by_interpreter(Writer &out, PyObject *frame) {
  PyObject *code = g_python.PyFrame_GetCode(frame);
  write_text(out, g_python.PyObject_GetAttrString(code, "co_filename"));
  out << ':';
  out.number(g_python.PyFrame_GetLineNumber(frame)) << " (";
  PyObject *name = g_python.PyObject_GetAttrString(code, "co_qualname");
  write_text(out, name ? name : g_python.PyObject_GetAttrString(code, "co_name"));
  out << ')';
  g_python.Py_DecRef(code);
  g_python.PyErr_Clear();
}

// The frames that both see, the innermost ones.
bool are_same(PythonRoom &room) {
  const size_t count = walk_python(g_found, g_session.pid, room);
  PyObject *frame = g_python.PyEval_GetFrame();
  if (!count || !frame) return false;
  g_python.Py_IncRef(frame);
  bool same = true;
  for (size_t i = 0; same && i < count && i < 4 && frame; ++i) {
    char texts[2][2048];
    Writer ours(texts[0], sizeof texts[0]), theirs(texts[1], sizeof texts[1]);
    write_by_interpreter(theirs, frame);
    same = write_python_frame(ours, g_found, room.found[i], room) && ours.view() == theirs.view();
    PyObject *outer = g_python.PyFrame_GetBack(frame);
    g_python.Py_DecRef(frame);
    frame = outer;
  }
  if (frame) g_python.Py_DecRef(frame);
  return same;
}

// Of "3.11.2 (main, ...)" 11; 0: it is no Python 3.
int minor_version() {
  string_view text(g_python.Py_GetVersion());
  uint64_t minor;
  if (!starts_with(text, "3.")) return 0;
  text.remove_prefix(2);
  return take_decimal(text, minor) ? static_cast<int>(minor) : 0;
}

}  // namespace

void find_python_stacks() {
  bool has_all = true;
#define FIND(name, result, parameters)                                          \
  *reinterpret_cast<void **>(&g_python.name) = real_dlsym(RTLD_DEFAULT, #name); \
  has_all = has_all && g_python.name != nullptr;
  PYTHON_FUNCTIONS(FIND)
#undef FIND
  g_found.code_type = reinterpret_cast<uintptr_t>(real_dlsym(RTLD_DEFAULT, "PyCode_Type"));
  has_all = has_all && g_found.code_type;
  // The program's next dlerror() must not report these.
  if (!has_all) dlerror();
  g_found.layout = has_all ? find_python_layout(minor_version()) : nullptr;
  g_found.this_thread = g_python.PyGILState_GetThisThreadState;
}

void begin_python_stacks() {
  if (!g_found.layout) return;
  auto *room = static_cast<PythonRoom *>(own_memory::pages(sizeof(PythonRoom)));
  if (!room) return;
  if (are_same(*room)) g_python_interpreter.store(&g_found, std::memory_order_release);
  own_memory::release(room, sizeof *room);
}

}  // namespace tailrace
