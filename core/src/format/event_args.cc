// See format/event_args.h.
#include "format/event_args.h"

namespace tailrace {
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

static char *put_obstacle(char *p, uint64_t field) {
  Obstacle obstacle = obstacle_in(field);
  if (obstacle == Obstacle::kNone) return p;
  return put(put(put(p, ",\"untraced\":\""), kObstacleNames[static_cast<int>(obstacle)]), "\"");
}

uint64_t second_file(const Slot &slot, const Function &f) {
  switch (f.shape) {
    case Shape::kItems:
    case Shape::kMap:
    case Shape::kMessages:
    case Shape::kWait:
    case Shape::kLibc:
    case Shape::kRing:
    case Shape::kObject:
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
static char *put_moved(char *p, const Slot &slot, const Function &f, int64_t size, bool has_size) {
  const auto count = static_cast<int64_t>(slot.count);
  if (f.shape != Shape::kChars) {
    if (slot.count == UINT64_MAX) {
      if (has_size) p = put(p, ",\"count\":null");
    } else if (!has_size || count != size) {
      p = put_field(p, ",\"count\":", count);
    }
  }
  static constexpr string_view kDirections[] = {"", "r\"", "w\"", "rw\""};
  if (!has_size || !f.named_direction) {
    p = put(put(p, ",\"dir\":\""), kDirections[static_cast<int>(f.direction)]);
  }
  return has_size ? put_field(p, ",\"size\":", size) : p;
}

char *put_event_args(char *p, const Slot &slot, const Function &f, int64_t size) {
  bool moves = f.direction != Direction::N;
  if ((moves || f.shape == Shape::kMap || f.shape == Shape::kRange) && slot.offset >= 0)
    p = put_field(p, ",\"offset\":", slot.offset);
  switch (f.shape) {
    case Shape::kOpen: p = put_field(p, ",\"flags\":", static_cast<int64_t>(slot.count)); break;
    case Shape::kSeek:
      if (slot.offset >= 0) p = put_field(p, ",\"offset\":", slot.offset);
      break;
    case Shape::kRange: p = put_field(p, ",\"count\":", static_cast<int64_t>(slot.count)); break;
    case Shape::kChars: p = put_field(p, ",\"calls\":", static_cast<int64_t>(slot.count)); break;
    case Shape::kMap:
      p = put_field(p, ",\"prot\":", static_cast<int32_t>(slot.file2));
      p = put_field(p, ",\"flags\":", static_cast<int32_t>(slot.file2 >> 32));
      p = put_field(p, ",\"count\":", static_cast<int64_t>(slot.count));
      break;
    case Shape::kConfine:
    case Shape::kSpawn: p = put_obstacle(p, slot.count); break;
    case Shape::kObject:
      if (!moves && slot.count && slot.count != UINT64_MAX) {
        p = put_field(p, ",\"count\":", static_cast<int64_t>(slot.count));
      }
      break;
    case Shape::kExec:
      p = put_obstacle(p, slot.file2);
      if (slot.offset < 0 || slot.ret < 0) break;
      p = put_field(p, ",\"rchar\":", slot.offset);
      p = put_field(p, ",\"wchar\":", static_cast<int64_t>(slot.count));
      break;
    case Shape::kWait:
      p = put_field(p, ",\"status\":", static_cast<int64_t>(slot.count));
      if (slot.offset < 0) break;
      p = put_field(p, ",\"rchar\":", slot.offset);
      p = put_field(p, ",\"wchar\":", static_cast<int64_t>(slot.file2));
      break;
    default: break;
  }
  const bool failed = slot.ret < 0;
  if (f.shape == Shape::kLibc) {
    p = put(p, f.direction == Direction::R ? string_view(",\"dir\":\"r\"") : string_view(",\"dir\":\"w\""));
    if (!slot.file2) p = put_field(put(p, ",\"count\":null"), ",\"size\":", size);
    return put_field(p, ",\"ret\":", static_cast<int64_t>(slot.count));
  }
  const bool unknown =
      (f.shape == Shape::kObject && slot.ret == kUnknownBytes) || (f.shape == Shape::kRing && slot.file2 != 0);
  const bool has_size = moves && !unknown;
  if (moves) p = put_moved(p, slot, f, size, has_size);
  if (f.shape == Shape::kChars || (f.shape == Shape::kRing && unknown)) return p;
  // HDF5 and MPI report errors without errno.
  const bool has_errno = failed && f.shape != Shape::kObject;
  const int64_t ret = returned(slot, f, size);
  const bool told = has_errno ? ret == -1 : has_size && ret == size;
  if (!told) p = put_field(p, ",\"ret\":", ret);
  if (has_errno) p = put_field(p, ",\"errno\":", static_cast<int64_t>(-static_cast<uint64_t>(slot.ret)));
  return p;
}

}  // namespace tailrace
