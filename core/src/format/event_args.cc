// See format/event_args.h.
#include "format/event_args.h"

#include "format/lock_kind.h"

namespace tailrace {

constexpr string_view kFieldTexts[] = {
    "",
    ",\"dur\":",
    ",\"args\":{\"ns\":",
    ",\"args\":{\"offset\":",
    ",\"ns\":",
    ",\"fhash\":\"",
    ",\"fhash2\":\"",
    ",\"flags\":",
    ",\"count\":",
    ",\"count\":null",
    ",\"dir\":\"r\"",
    ",\"dir\":\"w\"",
    ",\"dir\":\"rw\"",
    ",\"at_once\":1",
    ",\"calls\":",
    ",\"prot\":",
    ",\"status\":",
    ",\"rchar\":",
    ",\"wchar\":",
    ",\"size\":",
    ",\"ret\":",
    ",\"errno\":",
    ",\"region_id\":",
    ",\"parent_id\":",
    ",\"epoch\":",
    ",\"step\":",
    ",\"ahead\":",
    ",\"run_ns\":",
    ",\"ready_ns\":",
    ",\"ready_of_ns\":",
    ",\"timeout_ns\":",
    ",\"descriptors\":",
    ",\"thread\":",
    ",\"holder\":",
    ",\"span\":",
    "",
    ",\"untraced\":\"static\"",
    ",\"untraced\":\"musl\"",
    ",\"untraced\":\"machine\"",
    ",\"untraced\":\"setuid\"",
    ",\"untraced\":\"go\"",
    ",\"untraced\":\"left_out\"",
    ",\"untraced\":\"dropped\"",
    ",\"untraced\":\"too_long\"",
    ",\"untraced\":\"small_stack\"",
    ",\"untraced\":\"confined\"",
    ",\"untraced\":\"no_place\"",
    ",\"untraced\":\"unreachable\"",
    ",\"untraced\":\"unreadable\"",
    ",\"untraced\":\"no_descriptor\"",
};

namespace {

// What the call returned, for the shapes whose record keeps the size in its place.
int64_t returned(const Slot &slot, const Function &f, int64_t size) {
  if (slot.ret < 0) return f.shape == Shape::kItems || f.shape == Shape::kPointer || f.shape == Shape::kMap ? 0 : -1;
  switch (f.shape) {
    case Shape::kItems: return slot.file2 ? size / static_cast<int64_t>(slot.file2) : 0;
    case Shape::kPointer: return size > 0;
    case Shape::kStatus: return 1;
    case Shape::kMessages: return static_cast<int64_t>(slot.file2);
    case Shape::kObject:
    case Shape::kDone: return 0;
    default: return slot.ret;
  }
}

}  // namespace

Obstacle obstacle_in(uint64_t field) {
  return field < static_cast<uint64_t>(Obstacle::kCount) ? static_cast<Obstacle>(field) : Obstacle::kNone;
}

static void add_obstacle(LineFields &fields, uint64_t field) {
  Obstacle obstacle = obstacle_in(field);
  if (obstacle == Obstacle::kNone) return;
  fields.add(static_cast<LineField>(static_cast<uint8_t>(LineField::kUntraced) + static_cast<uint8_t>(obstacle)));
}

uint64_t second_file(const Slot &slot, const Function &f) {
  switch (f.shape) {
    case Shape::kItems:
    case Shape::kMap:
    case Shape::kMessages:
    case Shape::kWait:
    case Shape::kBlocked:
    case Shape::kPolled:
    case Shape::kJoined:
    case Shape::kLibc:
    case Shape::kRing:
    case Shape::kObject:
    case Shape::kRegion:
    case Shape::kLock:
    case Shape::kAllocate:
    case Shape::kExec: return 0;
    default: return slot.file2;
  }
}

int64_t moved_bytes(const Slot &slot, const Function &f) {
  if (f.direction == Direction::N || slot.ret < 0) return 0;
  return f.shape == Shape::kObject && slot.ret == kUnknownBytes ? 0 : slot.ret;
}

// `count`, `dir` and `size` of a call that moves bytes. A reader takes `size` for an absent count, and the name's
// direction for an absent `dir`, on lines that have a size.
static void add_moved(LineFields &fields, const Slot &slot, const Function &f, int64_t size, bool has_size) {
  const auto count = static_cast<int64_t>(slot.count);
  if (f.shape != Shape::kChars) {
    if (slot.count == UINT64_MAX) {
      if (has_size) fields.add(LineField::kNoCount);
    } else if (!has_size || count != size) {
      fields.add(LineField::kCount, count);
    }
  }
  static constexpr LineField kDirections[] = {LineField::kRead, LineField::kRead, LineField::kWritten,
                                              LineField::kCopied};
  if (!has_size || !f.named_direction) fields.add(kDirections[static_cast<int>(f.direction)]);
  if (has_size) fields.add(LineField::kSize, size);
}

void add_times(LineFields &fields, uint64_t start_ns, uint64_t duration, int64_t offset) {
  fields.add(LineField::kTime, static_cast<int64_t>(start_ns / 1000));
  fields.add(LineField::kDuration, static_cast<int64_t>(duration));
  if (offset >= 0) fields.add(LineField::kOffset, offset);
  fields.add(offset >= 0 ? LineField::kNanosecondsNext : LineField::kNanoseconds,
             static_cast<int64_t>(start_ns % 1000));
}

int64_t offset_of(const Slot &slot, const Function &f) {
  const bool has_offset = f.direction != Direction::N || f.shape == Shape::kMap || f.shape == Shape::kRange ||
                          f.shape == Shape::kAllocate || f.shape == Shape::kLock || f.shape == Shape::kSeek;
  return has_offset ? slot.offset : -1;
}

bool stands_for_several(const Slot &slot, const Function &f) {
  return is_wait(f.shape) && (blocked_calls(slot.file2) > 1 || blocked_not(slot.file2));
}

// Of several calls the time between the first and the last is the sealer's to add.
static void add_wait_args(LineFields &fields, const Slot &slot, const Function &f) {
  if (slot.count != UINT64_MAX) fields.add(LineField::kTimeout, static_cast<int64_t>(slot.count));
  if (const uint32_t number = blocked_number(slot.file2)) {
    fields.add(f.shape == Shape::kJoined ? LineField::kThread : LineField::kDescriptors, number);
  }
  if (!stands_for_several(slot, f)) return;
  fields.add(LineField::kCalls, blocked_calls(slot.file2));
  if (blocked_not(slot.file2)) fields.add(LineField::kAtOnce);
}

void add_time_args(LineFields &fields, const ProcessTime &time) {
  if (time.run_ns >= 0) fields.add(LineField::kRun, time.run_ns);
  if (time.ready_ns >= 0) fields.add(LineField::kReady, time.ready_ns);
  if (time.ready_of_ns >= 0) fields.add(LineField::kReadyOf, time.ready_of_ns);
}

void add_event_args(LineFields &fields, const Slot &slot, const Function &f, int64_t size) {
  const bool moves = f.direction != Direction::N;
  const auto count = static_cast<int64_t>(slot.count);
  switch (f.shape) {
    case Shape::kBlocked:
    case Shape::kPolled:
    case Shape::kJoined:
      add_wait_args(fields, slot, f);
      if (stands_for_several(slot, f)) return;
      break;
    case Shape::kThread: return add_time_args(fields, {count, slot.offset, kUnknownTime});
    case Shape::kOpen: fields.add(LineField::kFlags, count); break;
    case Shape::kRange: fields.add(LineField::kCount, count); break;
    case Shape::kAllocate:
      if (slot.file2) fields.add(LineField::kFlags, static_cast<int32_t>(slot.file2));
      fields.add(LineField::kCount, count);
      break;
    case Shape::kLock:
      if (!slot.file2) break;
      fields.add(LineField::kFlags, lock_kind_in(slot.file2));
      fields.add(LineField::kCount, count);
      if (const uint32_t holder = lock_holder_in(slot.file2)) fields.add(LineField::kHolder, holder);
      break;
    case Shape::kSeek:
    case Shape::kStream:
      if (count) fields.add(LineField::kAhead, count);
      break;
    case Shape::kChars: fields.add(LineField::kCalls, count); break;
    case Shape::kMap:
      fields.add(LineField::kProtection, static_cast<int32_t>(slot.file2));
      fields.add(LineField::kFlags, static_cast<int32_t>(slot.file2 >> 32));
      fields.add(LineField::kCount, count);
      break;
    case Shape::kConfine:
    case Shape::kSpawn: add_obstacle(fields, slot.count); break;
    case Shape::kObject:
      if (!moves && slot.count && slot.count != UINT64_MAX) fields.add(LineField::kCount, count);
      break;
    case Shape::kExec:
      add_obstacle(fields, slot.file2);
      if (slot.offset < 0 || slot.ret < 0) break;
      fields.add(LineField::kReadChars, slot.offset);
      fields.add(LineField::kWrittenChars, count);
      break;
    case Shape::kWait:
      fields.add(LineField::kStatus, waited_child(slot.count).status);
      if (slot.offset < 0) break;
      fields.add(LineField::kReadChars, slot.offset);
      fields.add(LineField::kWrittenChars, static_cast<int64_t>(slot.file2));
      break;
    default: break;
  }
  if (f.shape == Shape::kLibc) {
    fields.add(f.direction == Direction::R ? LineField::kRead : LineField::kWritten);
    if (!slot.file2) {
      fields.add(LineField::kNoCount);
      fields.add(LineField::kSize, size);
    }
    return fields.add(LineField::kReturned, count);
  }
  const bool unknown =
      (f.shape == Shape::kObject && slot.ret == kUnknownBytes) || (f.shape == Shape::kRing && slot.file2 != 0);
  const bool has_size = moves && !unknown;
  if (moves) add_moved(fields, slot, f, size, has_size);
  if (f.shape == Shape::kChars || (f.shape == Shape::kRing && unknown)) return;
  // HDF5 and MPI report errors without errno.
  const bool has_errno = slot.ret < 0 && f.shape != Shape::kObject;
  const int64_t ret = returned(slot, f, size);
  const bool told = has_errno ? ret == -1 : has_size && ret == size;
  if (!told) fields.add(LineField::kReturned, ret);
  if (has_errno) fields.add(LineField::kErrno, static_cast<int64_t>(-static_cast<uint64_t>(slot.ret)));
}

}  // namespace tailrace
