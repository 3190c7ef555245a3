// See session/python_frames.h. Fields: Include/cpython and Include/internal of CPython; lines: Objects/lnotab_notes.txt
// (3.10), Objects/locations.md (from 3.11 on).
#include "session/python_frames.h"

namespace tailrace {

std::atomic<const PythonInterpreter *> g_python_interpreter;

namespace {

constexpr int kNone = -1;
constexpr PythonLayout kLayouts[] = {
    {10, 24, kNone, 32, 24, 96, kNone, 40, 104, 112, 120, kNone},
    {11, 56, 8, 32, 48, 56, kNone, 72, 112, 128, 136, 184},
    {12, 56, 0, 0, 8, 56, 70, 68, 112, 128, 136, 192},
    {13, 72, kNone, 0, 8, 56, 70, 68, 112, 128, 136, 200},
};
constexpr char kInterpretersOwn = 3;  // FRAME_OWNED_BY_CSTACK
constexpr uintptr_t kObjectType = 8, kObjectSize = 16, kBytes = 32;
constexpr size_t kFrameBytes = 104;

template <class T>
T field(const char *object, int at) {
  T value;
  memcpy(&value, object + at, sizeof value);
  return value;
}

// Completes the frames up to the first whose code is no code object; returns how many there are. One system call reads
// all.
size_t read_codes(const PythonInterpreter &python, int pid, PythonRoom &room, size_t count) {
  struct iovec here = {room.codes, count * kPythonCodeBytes}, there[kMostPythonFrames];
  for (size_t i = 0; i < count; ++i) there[i] = {reinterpret_cast<void *>(room.found[i].code), kPythonCodeBytes};
  const long read =
      sys::call(SYS_process_vm_readv, pid, sys::pointer(&here), 1, sys::pointer(there), static_cast<long>(count), 0);
  const size_t whole = read > 0 ? static_cast<size_t>(read) / kPythonCodeBytes : 0;
  const PythonLayout &l = *python.layout;
  for (size_t i = 0; i < count; ++i) {
    const char *code = room.codes[i];
    if (i >= whole || field<uintptr_t>(code, kObjectType) != python.code_type) return i;
    PythonFrame &frame = room.found[i];
    frame.position -= l.instructions == kNone ? 0 : frame.code + static_cast<uintptr_t>(l.instructions);
    frame.first_line = field<int32_t>(code, l.first_line);
    frame.file = field<uintptr_t>(code, l.file);
    frame.name = field<uintptr_t>(code, l.name);
    frame.lines = field<uintptr_t>(code, l.lines);
  }
  return count;
}

// The table of lines, byte by byte.
class LineTable {
 public:
  LineTable(PythonRoom &room, uintptr_t bytes) : room_(room), at_(bytes + kBytes) {
    int64_t size = 0;
    if (room.objects.read(bytes + kObjectSize, size) && size > 0) end_ = at_ + static_cast<uintptr_t>(size);
  }
  bool more() const { return at_ < end_; }
  uint8_t byte() {
    uint8_t value = 0;
    if (at_ >= end_ || !room_.objects.read(at_++, value)) end_ = 0;
    return value;
  }
  uint64_t number() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 60; shift += 6) {
      const uint8_t part = byte();
      value |= static_cast<uint64_t>(part & 0x3F) << shift;
      if (!(part & 0x40)) break;
    }
    return value;
  }
  int64_t signed_number() {
    const uint64_t value = number();
    return value & 1 ? -static_cast<int64_t>(value >> 1) : static_cast<int64_t>(value >> 1);
  }

 private:
  PythonRoom &room_;
  uintptr_t at_, end_ = 0;
};

// 0: no line. Python 3.10: pairs of bytes, how far the range goes and how many lines on it is.
int64_t line_by_pairs(LineTable &table, int64_t line, uint64_t position) {
  constexpr int8_t kNoLine = -128;
  for (uint64_t end = 0; table.more();) {
    end += table.byte();
    const auto lines = static_cast<int8_t>(table.byte());
    if (lines != kNoLine) line += lines;
    if (position < end) return lines == kNoLine ? 0 : line;
  }
  return 0;
}

// From 3.11 on: entries of a head (kind, length) and numbers that depend on the kind.
int64_t line_by_entries(LineTable &table, int64_t line, uint64_t position) {
  for (uint64_t end = 0; table.more();) {
    const uint8_t head = table.byte();
    const unsigned kind = head >> 3 & 15;
    end += 2 * ((head & 7U) + 1);
    if (kind == 14) {
      line += table.signed_number();
      for (int i = 0; i < 3; ++i) table.number();
    } else if (kind == 13) {
      line += table.signed_number();
    } else if (kind >= 10 && kind <= 12) {
      line += kind - 10;
      table.byte();
      table.byte();
    } else if (kind < 10) {
      table.byte();
    }
    if (position < end) return kind == 15 ? 0 : line;
  }
  return 0;
}

void put_character(Writer &out, uint32_t c) {
  if (c < 0x20 || c == 0x7F || (c >= 0xD800 && c < 0xE000) || c > 0x10FFFF) {
    out << '?';
  } else if (c < 0x80) {
    out << static_cast<char>(c);
  } else {
    const int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    constexpr unsigned kHeads[] = {0, 0xC0, 0xE0, 0xF0};
    out << static_cast<char>(kHeads[more] | c >> (6 * more));
    for (int i = more - 1; i >= 0; --i) out << static_cast<char>(0x80 | (c >> (6 * i) & 0x3F));
  }
}

// A str of the usual, compact form. False: it is none, or too long.
bool put_text(Writer &out, const PythonLayout &l, uintptr_t text, PythonRoom &room) {
  constexpr uint64_t kMost = 1024;
  uint64_t length = 0;
  uint32_t state = 0;
  if (!room.objects.read(text + kObjectSize, length) || length > kMost) return false;
  if (!room.objects.read(text + 32, state)) return false;
  const uint32_t width = state >> 2 & 7;
  const bool compact = state >> 5 & 1, ascii = state >> 6 & 1;
  if (!compact || (width != 1 && width != 2 && width != 4)) return false;
  const uintptr_t header = l.version < 12 ? (ascii ? 48 : 72) : (ascii ? 40 : 56);
  for (uint64_t i = 0; i < length; ++i) {
    const char *at = room.objects.at(text + header + i * width, width);
    if (!at) return false;
    uint32_t c = 0;
    memcpy(&c, at, width);
    put_character(out, c);
  }
  return true;
}

}  // namespace

const PythonLayout *find_python_layout(int minor) {
  for (const PythonLayout &layout : kLayouts) {
    if (layout.version == minor) return &layout;
  }
  return nullptr;
}

size_t walk_python(const PythonInterpreter &python, int pid, PythonRoom &room) {
  const PythonLayout &l = *python.layout;
  room.frames.open(pid);
  room.objects.open(pid);
  const auto thread = reinterpret_cast<uintptr_t>(python.this_thread());
  uintptr_t at = 0;
  if (!thread || !room.objects.read(thread + static_cast<uintptr_t>(l.thread_frame), at)) return 0;
  if (l.indirect != kNone && !room.objects.read(at + static_cast<uintptr_t>(l.indirect), at)) return 0;
  size_t count = 0;
  for (size_t walked = 0; at && count < kMostPythonFrames && walked < 2 * kMostPythonFrames; ++walked) {
    const char *frame = room.frames.at(at, kFrameBytes, true);
    if (!frame) break;
    at = field<uintptr_t>(frame, l.previous);
    if (l.owner != kNone && frame[l.owner] == kInterpretersOwn) continue;
    PythonFrame &found = room.found[count];
    found.code = field<uintptr_t>(frame, l.code);
    found.position = l.instructions == kNone ? 2 * static_cast<uint64_t>(field<int32_t>(frame, l.position))
                                             : field<uintptr_t>(frame, l.position);
    ++count;
  }
  return read_codes(python, pid, room, count);
}

bool write_python_frame(Writer &out, const PythonInterpreter &python, const PythonFrame &frame, PythonRoom &room) {
  const size_t before = out.size();
  LineTable table(room, frame.lines);
  const int64_t line = python.layout->version < 11 ? line_by_pairs(table, frame.first_line, frame.position)
                                                   : line_by_entries(table, frame.first_line, frame.position);
  bool whole = put_text(out, *python.layout, frame.file, room);
  // Instructions of the compiler's own have none.
  if (line > 0) (out << ':').number(line);
  out << " (";
  whole = whole && put_text(out, *python.layout, frame.name, room);
  out << ')';
  if (!whole || out.overflowed()) out.truncate(before);
  return whole && out.size() > before;
}

}  // namespace tailrace
