// See hooks/rings.h.
#include "hooks/rings.h"

#include <sys/uio.h>

#include "base/own_memory.h"
#include "hooks/hook_records.h"
#include "session/ledger.h"
#include "session/write_place.h"

namespace tailrace::rings {
namespace {

enum Opcode : uint8_t {
  kReadV = 1,
  kWriteV = 2,
  kReadFixed = 4,
  kWriteFixed = 5,
  kSendMessage = 9,
  kReceiveMessage = 10,
  kClose = 19,
  kRead = 22,
  kWrite = 23,
  kSend = 26,
  kReceive = 27,
  kSplice = 30,
  kTee = 33,
  kSendZeroCopy = 47,
  kSendMessageZeroCopy = 48,
  kReadMultishot = 49,
};
// Flags of a request, a result, a ring and a splice (linux/io_uring.h).
constexpr unsigned kFixedFile = 1 << 0, kNoResultOfSuccess = 1 << 6;
constexpr unsigned kMoreToCome = 1 << 1, kNotification = 1 << 3;
constexpr unsigned kWideRequests = 1 << 10, kWideResults = 1 << 11;
constexpr unsigned kOtherIsFixed = 1U << 31;

struct Side {
  OpenFile *file = nullptr;
  uint64_t hash = 0;
  int64_t offset = 0;
  Fn fn{};  // kNone: the request has no such side
  int fd = 0;
  WritePlace place;  // of a side that is written
};

struct Expected {
  Expected *next = nullptr;
  uint64_t user_data = 0;
  uint64_t count = 0;
  bool at_position = false;  // of the descriptor
  Side side, other;
};

struct FixedFile {
  int fd;
  uint64_t hash;  // the descriptor's file when it was listed; 0: an empty place
};

struct Known {
  std::atomic<const unsigned *> tail;  // identifies the ring; null while free
  const Result *results;
  unsigned mask, shift;
  unsigned seen;       // results before it have been read
  unsigned submitted;  // requests before it are in g_expected
  bool has_submitted;
  bool overran;  // results were overwritten before they were read
  Expected *first, *last;
  FixedFile *files;
  unsigned file_count;
};

// All guarded by the table lock.
constexpr size_t kMaxRings = 64, kMaxExpected = 4096;
Known g_rings[kMaxRings];
Expected g_expected[kMaxExpected];
Expected *g_free;
size_t g_unused;  // of g_expected, from the front

Known *find(const Ring *ring) {
  const unsigned *tail = ring->completion.tail;
  for (Known &known : g_rings) {
    if (tail && known.tail.load(std::memory_order_acquire) == tail) return &known;
  }
  return nullptr;
}

Expected *take_expected() {
  if (g_free) {
    Expected *e = g_free;
    g_free = e->next;
    return e;
  }
  return g_unused < kMaxExpected ? &g_expected[g_unused++] : nullptr;
}

void give_back(Expected *e) {
  e->next = g_free;
  g_free = e;
}

void append(Known &known, Expected *e) {
  e->next = nullptr;
  if (known.last)
    known.last->next = e;
  else
    known.first = e;
  known.last = e;
}

// Returns the oldest request with that key, and removes it unless more results of it follow.
bool match(Known &known, const Result &result, Expected &out) {
  Expected *before = nullptr;
  for (Expected *e = known.first; e; before = e, e = e->next) {
    if (e->user_data != result.user_data) continue;
    out = *e;
    if (result.flags & kMoreToCome) return true;
    if (before)
      before->next = e->next;
    else
      known.first = e->next;
    if (known.last == e) known.last = before;
    give_back(e);
    return true;
  }
  return false;
}

bool lies_in(const void *p, const char *memory, size_t bytes) {
  auto at = reinterpret_cast<uintptr_t>(p), begin = reinterpret_cast<uintptr_t>(memory);
  return at >= begin && at - begin < bytes;
}

// Whether these are the queues of a ring. Versions of the library differ, so the memory is checked.
bool is_understood(const Ring *at, Ring &ring, unsigned &entries) {
  struct iovec whole = {const_cast<Ring *>(at), sizeof ring};
  if (!copy_if_readable(&ring, &whole, 1, sizeof ring)) return false;
  const CompletionQueue &c = ring.completion;
  const SubmissionQueue &s = ring.submission;
  for (const unsigned *p : {c.head, c.tail, c.mask, c.entries}) {
    if (!lies_in(p, c.memory, c.bytes)) return false;
  }
  if (!lies_in(s.tail, s.memory, s.bytes) || !lies_in(s.mask, s.memory, s.bytes) ||
      !lies_in(c.results, c.memory, c.bytes)) {
    return false;
  }
  unsigned values[2];
  struct iovec parts[2] = {{c.mask, sizeof values[0]}, {c.entries, sizeof values[1]}};
  if (!copy_if_readable(values, parts, 2, sizeof values)) return false;
  entries = values[1];
  Request first;
  struct iovec request = {s.requests, sizeof first};
  return entries && values[0] == entries - 1 && !(entries & values[0]) && ring.fd >= 0 &&
         copy_if_readable(&first, &request, 1, sizeof first);
}

unsigned read_tail(const unsigned *tail) { return __atomic_load_n(tail, __ATOMIC_ACQUIRE); }

Known *begin_known(const Ring *at) {
  Ring ring;
  unsigned entries;
  if (!is_understood(at, ring, entries)) return nullptr;
  Locked lock(g_wiped.table);
  for (Known &known : g_rings) {
    if (known.tail.load(std::memory_order_relaxed)) continue;
    known.results = ring.completion.results;
    known.mask = entries - 1;
    known.shift = (ring.flags & kWideResults) != 0;
    known.seen = read_tail(ring.completion.tail);
    known.has_submitted = known.overran = false;
    known.first = known.last = nullptr;
    known.tail.store(ring.completion.tail, std::memory_order_release);
    return &known;
  }
  return nullptr;
}

// An unknown ring was made before tracing began, or is a copy of another.
Known *find_or_begin(const Ring *ring) {
  Known *known = find(ring);
  if (!known) known = begin_known(ring);
  if (!known) count_unseen_ring();
  return known;
}

FixedFile fixed_file(Known &known, int place) {
  Locked lock(g_wiped.table);
  bool listed = place >= 0 && static_cast<unsigned>(place) < known.file_count;
  return listed ? known.files[place] : FixedFile{-1, 0};
}

// Descriptors are looked up outside of the table lock, which the look-up takes.
Side side_of(Known &known, Fn fn, int fd, bool fixed, uint64_t offset) {
  Side side{nullptr, 0, static_cast<int64_t>(offset), fn, fd, {}};
  if (fixed) {
    FixedFile listed = fixed_file(known, fd);
    side.hash = listed.hash;
    side.fd = listed.fd;
    side.file = listed.hash ? known_file_of(listed.fd) : nullptr;
    // The descriptor may be closed by now, and its number used again.
    if (side.file && side.file->hash.load(std::memory_order_relaxed) != side.hash) side.file = nullptr;
  } else {
    side.file = file_of(fd);
    side.hash = side.file ? side.file->hash.load(std::memory_order_relaxed) : 0;
  }
  if (side.file && !is_seekable(side.file)) side.offset = -1;
  return side;
}

constexpr uint64_t kAtPosition = UINT64_MAX;

bool describe(const Call &call, Known &known, const Request &request, Expected &out) {
  bool reads = false, writes = false, vector = false, fixed = request.flags & kFixedFile;
  switch (request.opcode) {
    case kReadV:
    case kReceiveMessage: reads = vector = true; break;
    case kWriteV:
    case kSendMessage:
    case kSendMessageZeroCopy: writes = vector = true; break;
    case kReadFixed:
    case kRead:
    case kReceive:
    case kReadMultishot: reads = true; break;
    case kWriteFixed:
    case kWrite:
    case kSend:
    case kSendZeroCopy:
    case kSplice:
    case kTee: writes = true; break;
    // As close(2): the number may be used again from here on.
    case kClose:
      if (!request.other_fd) forget_file(request.fd);
      return false;
    default: return false;
  }
  out.user_data = request.user_data;
  out.count = vector ? kNoCount : request.bytes;
  out.side = side_of(known, reads ? Fn::kRingRead : Fn::kRingWritten, request.fd, fixed, request.offset);
  out.other = Side{nullptr, 0, -1, Fn::kNone, -1, {}};
  if (request.opcode == kSplice || request.opcode == kTee) {
    out.other = side_of(known, Fn::kRingRead, request.other_fd, request.call_flags & kOtherIsFixed, request.address);
  }
  out.at_position = request.offset == kAtPosition && !fixed;
  if (writes && out.side.file && is_seekable(out.side.file)) {
    const bool copies = request.opcode == kSplice || request.opcode == kTee;
    const int flags = copies ? 0 : static_cast<int>(request.call_flags);
    out.side.place = WritePlace(call, out.side.fd, static_cast<int64_t>(request.offset), flags, true);
  }
  return reads || writes;
}

void record_side(const Call &call, const Expected &e, const Side &side, int64_t result, bool known) {
  const bool is_same = known && side.file && is_seekable(side.file) && known_file_of(side.fd) == side.file &&
                       side.file->hash.load(std::memory_order_relaxed) == side.hash;
  int64_t offset = side.offset;
  if (is_same && side.fn == Fn::kRingWritten) {
    offset = side.place.after(side.file, side.fd, result > 0 ? result : 0);
  } else if (is_same && offset < 0 && e.at_position) {
    errno = result < 0 ? static_cast<int>(-result) : 0;
    record_transfer(call, side.fn, side.fd, kHere, e.count, result < 0 ? -1 : result);
    return;
  }
  Event event{side.fn, side.hash, known ? 0U : 1U, offset, e.count, result};
  record_file(call, event, side.file);
}

void record_result(const Call &call, const Expected &e, int64_t result, bool known) {
  record_side(call, e, e.side, result, known);
  if (e.other.fn != Fn::kNone) record_side(call, e, e.other, result, known);
}

struct Met {
  Expected expected;
  int64_t result;
};

// Takes the next results of known requests, up to n. The kernel writes to the same memory, so a result that may have
// been overwritten meanwhile is dropped.
size_t next_results(Known &known, Met *out, size_t n) {
  Locked lock(g_wiped.table);
  const unsigned *tail_at = known.tail.load(std::memory_order_relaxed);
  if (!tail_at) return 0;
  size_t met = 0;
  while (met < n) {
    unsigned tail = read_tail(tail_at), entries = known.mask + 1;
    if (known.seen == tail) break;
    if (tail - known.seen > entries) {
      known.overran = true;
      known.seen = tail - entries;
    }
    Result result = known.results[static_cast<size_t>(known.seen & known.mask) << known.shift];
    std::atomic_thread_fence(std::memory_order_acquire);
    if (read_tail(tail_at) - known.seen > entries) continue;
    ++known.seen;
    if (result.flags & kNotification) continue;
    out[met].result = result.result;
    if (match(known, result, out[met].expected)) ++met;
  }
  return met;
}

void collect_known(const Call &call, Known &known) {
  Met met[16];
  constexpr size_t kAtOnce = sizeof met / sizeof *met;
  size_t n;
  do {
    n = next_results(known, met, kAtOnce);
    for (size_t i = 0; i < n; ++i) record_result(call, met[i].expected, met[i].result, true);
  } while (n == kAtOnce);
}

void drop_files(Known &known) {
  if (known.files) own_memory::release(known.files, known.file_count * sizeof(FixedFile));
  known.files = nullptr;
  known.file_count = 0;
}

}  // namespace

int begin(const Ring *ring) {
  // A ring whose memory the program unmapped without the library may have been at that address.
  if (Known *old = find(ring)) {
    Locked lock(g_wiped.table);
    while (Expected *e = old->first) old->first = e->next, give_back(e);
    drop_files(*old);
    old->tail.store(nullptr, std::memory_order_release);
  }
  return find_or_begin(ring) ? ring->fd : -1;
}

int end(const Call &call, const Ring *ring) {
  Known *known = find(ring);
  if (!known) return -1;
  collect_known(call, *known);
  for (;;) {
    Expected left;
    {
      Locked lock(g_wiped.table);
      Expected *e = known->first;
      if (!e) {
        known->last = nullptr;
        drop_files(*known);
        known->tail.store(nullptr, std::memory_order_release);
        break;
      }
      left = *e;
      known->first = e->next;
      give_back(e);
    }
    // The results of these were overwritten, or never came.
    if (known->overran) record_result(call, left, 0, false);
  }
  return ring->fd;
}

void expect(const Call &call, const Ring *ring) {
  Known *known = find_or_begin(ring);
  if (!known) return;
  int saved = errno;
  // The places are needed for the next requests.
  collect_known(call, *known);
  const SubmissionQueue &s = ring->submission;
  unsigned from = s.first, mask = *s.mask, shift = (ring->flags & kWideRequests) != 0;
  if (known->has_submitted && static_cast<int>(known->submitted - from) > 0) from = known->submitted;
  for (; static_cast<int>(s.end - from) > 0; ++from) {
    const Request &request = s.requests[static_cast<size_t>(from & mask) << shift];
    Expected described;
    if (!describe(call, *known, request, described)) continue;
    if (request.flags & kNoResultOfSuccess) {
      record_result(call, described, 0, false);
      continue;
    }
    Expected *e;
    {
      Locked lock(g_wiped.table);
      e = take_expected();
      if (e) {
        *e = described;
        append(*known, e);
      }
    }
    if (!e) record_result(call, described, 0, false);
  }
  known->submitted = s.end;
  known->has_submitted = true;
  errno = saved;
}

void collect(const Call &call, const Ring *ring) {
  if (Known *known = find(ring)) collect_known(call, *known);
}

void settle() {
  for (Known &known : g_rings) {
    const unsigned *tail = known.tail.load(std::memory_order_acquire);
    if (!tail || !known.first) continue;
    // The program may have unmapped it.
    unsigned first;
    Result last;
    size_t end = (static_cast<size_t>(known.mask) << known.shift);
    struct iovec number = {const_cast<unsigned *>(tail), sizeof first};
    struct iovec result = {const_cast<Result *>(known.results + end), sizeof last};
    bool there = copy_if_readable(&first, &number, 1, sizeof first) && copy_if_readable(&last, &result, 1, sizeof last);
    if (there) collect_known(Call(), known);
  }
}

void set_files(const Ring *ring, const int *files, unsigned n) {
  Known *known = find_or_begin(ring);
  if (!known) return;
  auto *list = n ? static_cast<FixedFile *>(own_memory::pages(n * sizeof(FixedFile))) : nullptr;
  {
    Locked lock(g_wiped.table);
    drop_files(*known);
    known->files = list;
    known->file_count = list ? n : 0;
  }
  if (files) change_files(ring, 0, files, n);
}

void change_files(const Ring *ring, unsigned at, const int *files, unsigned n) {
  constexpr int kLeave = -2;
  Known *known = find_or_begin(ring);
  for (unsigned i = 0; known && i < n; ++i) {
    if (files[i] == kLeave) continue;
    OpenFile *file = files[i] >= 0 ? file_of(files[i]) : nullptr;
    FixedFile listed{files[i], file ? file->hash.load(std::memory_order_relaxed) : 0};
    Locked lock(g_wiped.table);
    if (at + i < known->file_count) known->files[at + i] = listed;
  }
}

}  // namespace tailrace::rings
