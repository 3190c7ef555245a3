// What the time in a call is: one word for each event name, from the columns of its row and, where these don't tell,
// its trait (kTimeKind). The one place for it: the analyzer has the words by _native.time_kinds().
#pragma once

#include "format/functions.h"

namespace tailrace {

enum class TimeKind : uint8_t {
  kNone,      // the event is no time that its thread spent: a process's begin, the program's own events
  kData,      // of a file; of a pipe or socket where that is what the event's file is
  kMetadata,  // names, descriptors, attributes, positions, mappings
  kSocket,    // making and ending connections, and their data
  kFlush,     // until data is on a disk
  kLock,
  kSleep,
  kPolling,  // until one of several descriptors is ready
  kChild,
  kThread,  // a condition, a semaphore, a barrier, a thread's end
  kSignal,
  kProcess,  // making processes, programs and threads
  kCount
};
constexpr string_view kTimeKindNames[] = {"",      "data",    "metadata", "socket", "flush",  "lock",
                                          "sleep", "polling", "child",    "thread", "signal", "process"};
static_assert(sizeof kTimeKindNames / sizeof kTimeKindNames[0] == static_cast<size_t>(TimeKind::kCount), "a name each");

// `traits` with its category's.
constexpr TimeKind time_kind(Category category, Direction direction, Shape shape, uint32_t traits) {
  using namespace trait;
  switch (traits & kTimeKind) {
    case kFlushes: return TimeKind::kFlush;
    case kLocks: return TimeKind::kLock;
    case kSleeps: return TimeKind::kSleep;
    case kPolls: return TimeKind::kPolling;
    case kAwaitsChild: return TimeKind::kChild;
    case kAwaitsThread: return TimeKind::kThread;
    case kAwaitsSignal: return TimeKind::kSignal;
    default: break;
  }
  if (traits & kWaits) return TimeKind::kChild;
  const bool is_fact = shape == Shape::kStart || shape == Shape::kExit || shape == Shape::kThread;
  if (is_fact || (traits & (kUpper | kApplication))) return TimeKind::kNone;
  if (traits & kProcess) return TimeKind::kProcess;
  if (category == Category::SOCKET) return TimeKind::kSocket;
  // What closes or flushes a stream writes what is in its buffer.
  const bool is_stream = (traits & kBuffered) && shape != Shape::kOpen;
  return direction != Direction::N || is_stream || category == Category::AIO ? TimeKind::kData : TimeKind::kMetadata;
}

}  // namespace tailrace
