// See session/stacks.h.
#include "session/stacks.h"

#include "base/arena.h"
#include "base/own_memory.h"
#include "format/choices.h"
#include "linker/unwind.h"
#include "session/python_frames.h"

namespace tailrace {

StackSampling g_stacks;

// The mark of a module's file that was looked up before.
struct ModuleMark {
  uintptr_t begin, frame_header;
  char text[20];
  size_t bytes;
};
constexpr size_t kModuleMarks = 16;

struct StackRoom {
  UnwindRoom native;
  PythonRoom python;
  size_t native_count, python_count;
  ModuleMark marks[kModuleMarks];
  char path[4096];
};

namespace {

// Those of an extension and what it calls; the interpreter's own tell less than Python's functions.
constexpr size_t kMostBelowPython = 12;
uintptr_t g_own_module;

bool is_io(Fn fn) {
  switch (function(fn).shape) {
    case Shape::kStart:
    case Shape::kExit:
    case Shape::kExec:
    case Shape::kSpawn:
    case Shape::kThread:
    case Shape::kBlocked:
    case Shape::kPolled:
    case Shape::kJoined:
    case Shape::kWait:
    case Shape::kConfine:
    case Shape::kRegion: return false;
    default: return true;
  }
}

// By xorshift64 (Marsaglia 2003).
uint64_t next_random(uint64_t &state) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

// One call of each group, at random: each n-th would always be the same one of a loop's n or n / k calls.
bool is_chosen_of_group(Thread *t) {
  if (!t->group_calls) {
    if (!t->group_random) t->group_random = now_ticks() | 1;
    t->group_choice = next_random(t->group_random) % g_stacks.each;
  }
  const bool is_chosen = t->group_calls == t->group_choice;
  t->group_calls = (t->group_calls + 1) % g_stacks.each;
  return is_chosen;
}

bool is_wanted(Thread *t, uint64_t took) {
  const bool is_chosen = g_stacks.each && is_chosen_of_group(t);
  return is_chosen || took > g_stacks.slower_than_ticks;
}

__attribute__((noinline)) void take_native(StackRoom &room) {
  Registers here;
  TAILRACE_REGISTERS_HERE(here);
  const size_t most = room.python_count ? kMostBelowPython : kMostNativeFrames;
  room.native_count = unwind(here, g_own_module, g_session.pid, most, room.native);
}

uint64_t hash_of(const StackRoom &room) {
  uint64_t hash = fnv64(room.native.frames, room.native_count * sizeof(NativeFrame));
  for (size_t i = 0; i < room.python_count; ++i) {
    const PythonFrame &f = room.python.found[i];
    const uint64_t parts[] = {f.code, f.position, f.file, f.name, static_cast<uint64_t>(f.first_line)};
    hash = fnv64(parts, sizeof parts, hash);
  }
  return hash ? hash : 1;
}

// The file that a module was loaded from, with a zero behind it.
string_view path_of(const Module &module, StackRoom &room) {
  Writer path(room.path, sizeof room.path - 1);
  if (*module.name) {
    path << module.name;
  } else {
    const long n = sys::readlink("/proc/self/exe", room.path, sizeof room.path - 1);
    if (n > 0) path.extend(static_cast<size_t>(n));
  }
  const char *text = path.c_str();
  return {text, string_view(text).size()};
}

string_view mark_of(const Module &module, StackRoom &room) {
  ModuleMark &kept = room.marks[(module.begin >> 12) % kModuleMarks];
  if (kept.begin != module.begin || kept.frame_header != module.frame_header) {
    Writer mark(kept.text, sizeof kept.text);
    write_module_mark(mark, module, room.path, g_session.pid);
    kept.begin = module.begin;
    kept.frame_header = module.frame_header;
    kept.bytes = mark.size();
  }
  return {kept.text, kept.bytes};
}

void write_native_frame(Writer &out, const NativeFrame &frame, StackRoom &room) {
  const Module module = find_module(frame.address - 1);
  if (module.begin != frame.module_begin) return;
  const size_t before = out.size();
  for (char c : path_of(module, room)) out << (static_cast<unsigned char>(c) < 0x20 ? '?' : c);
  (out << "+0x").short_hex(frame.address - module.base) << " [" << mark_of(module, room) << "]\n";
  if (out.overflowed()) out.truncate(before);
}

}  // namespace

void begin_stacks() {
  StackChoice choice;
  const bool is_valid = parse_stacks(g_session.environment[Setting::TAILRACE_STACKS], choice);
  g_stacks = {};
  if (!is_valid || !choice.is_on() || g_session.hasher.is_on()) return;
  find_module_functions();
  g_own_module = find_module(reinterpret_cast<uintptr_t>(&begin_stacks)).begin;
  const auto ns = static_cast<unsigned __int128>(choice.slower_than_ns) << 32;
  g_stacks.slower_than_ticks =
      choice.slower_than_ns ? static_cast<uint64_t>(ns / g_session.reference_rate_q32) : UINT64_MAX;
  g_stacks.each = choice.each;
  g_stacks.on = true;
}

uint64_t take_stack(Thread *t, Fn fn, uint64_t t0, uint64_t t1) {
  if (!is_io(fn) || !is_wanted(t, t1 - t0)) return 0;
  sys::SignalsBlocked signals;
  if (!t->stack_room) t->stack_room = static_cast<StackRoom *>(own_memory::pages(sizeof(StackRoom)));
  if (!t->stack_room) return 0;
  StackRoom &room = *t->stack_room;
  const PythonInterpreter *python = g_python_interpreter.load(std::memory_order_acquire);
  room.python_count = python ? walk_python(*python, g_session.pid, room.python) : 0;
  take_native(room);
  return room.native_count || room.python_count ? hash_of(room) : 0;
}

void write_frames(Thread *t, Writer &out) {
  sys::SignalsBlocked signals;
  StackRoom &room = *t->stack_room;
  const PythonInterpreter *python = g_python_interpreter.load(std::memory_order_acquire);
  for (size_t i = 0; python && i < room.python_count; ++i) {
    const size_t before = out.size();
    const bool written = write_python_frame(out, *python, room.python.found[i], room.python);
    if (written) out << '\n';
    if (out.overflowed()) out.truncate(before);
  }
  for (size_t i = 0; i < room.native_count; ++i) write_native_frame(out, room.native.frames[i], room);
  if (out.size()) out.truncate(out.size() - 1);
}

}  // namespace tailrace
