// See session/hand_over.h.
#include "session/hand_over.h"

#include "base/own_memory.h"
#include "base/sys.h"
#include "format/sealer_board.h"
#include "session/own_descriptors.h"
#include "session/path_buffer.h"
#include "session/reserve.h"
#include "session/segment.h"

namespace tailrace {
namespace {

struct BoardJob {
  const char *path;
  SealerBoard *board;
  int status;
};

void map_board(void *raw) {
  auto *job = static_cast<BoardJob *>(raw);
  int fd = sys::open(job->path, O_RDWR | O_NOFOLLOW | O_NONBLOCK);
  job->status = fd;
  if (fd < 0) return;
  if (sys::lseek(fd, 0, SEEK_END) >= static_cast<int64_t>(sizeof(SealerBoard))) {
    job->board = static_cast<SealerBoard *>(own_memory::file(fd, sizeof(SealerBoard)));
  }
  sys::close(fd);
}

bool is_fresh(const SealerBoard *board) {
  if (!board) return false;
  uint64_t beat = board->heartbeat_ns.load(std::memory_order_relaxed), now = monotonic_ns();
  // A beat of the future is of another time namespace's clock.
  return board->magic.load(std::memory_order_acquire) == kBoardMagic && board->version == kJournalVersion &&
         (beat > now ? beat - now : now - beat) < kStaleNs;
}

void map_again() {
  Session &g = g_session;
  if (g.board) own_memory::release(g.board, sizeof(SealerBoard));
  g.board = nullptr;
  PathBuffer path;
  Writer w(path.data(), kPathBytes);
  string_view stem(g.journal_stem);
  size_t slash = stem.rfind('/');
  if (slash == string_view::npos) return;
  w << slice(stem, 0, slash + 1) << kBoardName;
  BoardJob job{w.c_str(), nullptr, 0};
  with_descriptor(map_board, &job, job.status);
  g.board = job.board;
}

// The board of a sealer that lives; null: there is none. Table lock held.
SealerBoard *board_of_sealer() {
  Session &g = g_session;
  // Before its first segment the process doesn't know which place has its journals.
  if (!g.first_segment) return nullptr;
  if (!is_fresh(g.board)) map_again();
  return is_fresh(g.board) ? g.board : nullptr;
}

void ring(SealerBoard *board, const SegmentHeader *s) {
  auto pid = static_cast<uint64_t>(g_session.pid);
  board->bells[bell_of(pid, s->segment)].fetch_add(1, std::memory_order_release);
}

SegmentHeader *take_spare(const Thread *t) {
  Session &g = g_session;
  for (uint32_t i = 0; i < g.spare_count; ++i) {
    Spare &spare = g.spares[i];
    if (spare.segment->holding.load(std::memory_order_acquire) != kSpare) continue;
    if (spare.last && spare.last != t && spare.last->in_use.load(std::memory_order_acquire)) continue;
    SegmentHeader *s = spare.segment;
    spare = g.spares[--g.spare_count];
    s->holding.store(kHeld, std::memory_order_relaxed);
    return s;
  }
  return nullptr;
}

uint32_t most_spares() {
  uint32_t threads = 0;
  for (const Thread *t = g_session.threads; t; t = t->next_thread) threads += t->segment != nullptr;
  uint32_t most = kSparesOfAll + kSparesOfAThread * threads;
  return most < kMostSpares ? most : kMostSpares;
}

}  // namespace

SegmentHeader *exchange_segment(Thread *t) {
  Session &g = g_session;
  SegmentHeader *full = t->segment;
  // A file with the name of another process rings no bell of its own.
  if (g.sealed_for_exit || full->from_reserve.load(std::memory_order_relaxed)) return nullptr;
  SealerBoard *board = board_of_sealer();
  if (!board || g.spare_count == kMostSpares) return nullptr;
  SegmentHeader *next = take_spare(t);
  if (!next && g.spare_count < most_spares() && board->has_room.load(std::memory_order_relaxed)) {
    next = make_segment(kSegmentSlots, t->tid);
  }
  if (!next) return nullptr;
  ClockSample now = sample_clock(g.clock_kind);
  full->until_ticks = now.ticks;
  full->until_ns = now.monotonic_ns;
  const uint64_t rate_q32 = map_until(*full, now).rate_q32;
  g.spares[g.spare_count++] = {full, t};
  full->holding.store(kHanded, std::memory_order_release);
  ring(board, full);
  empty_segment(*next, now, rate_q32, t->tid, t->epoch);
  return next;
}

bool leave_to_sealer() {
  Session &g = g_session;
  SealerBoard *board = board_of_sealer();
  if (!board || !board->has_room.load(std::memory_order_relaxed)) return false;
  if (board->ended.load(std::memory_order_relaxed) - board->seen.load(std::memory_order_relaxed) > kMostEnded) {
    return false;
  }
  auto leave = [&](SegmentHeader *s) {
    s->left.store(1, std::memory_order_release);
    ring(board, s);
  };
  for (Thread *t = g.threads; t; t = t->next_thread) {
    if (t->segment) leave(t->segment);
  }
  for (uint32_t i = 0; i < g.spare_count; ++i) leave(g.spares[i].segment);
  board->ended.fetch_add(1, std::memory_order_release);
  return true;
}

bool take_back(SegmentHeader *s) {
  s->taken_back.store(1, std::memory_order_seq_cst);
  return s->claimed.load(std::memory_order_seq_cst) == 0;
}

void keep_for_exchange(SegmentHeader *segment) {
  Session &g = g_session;
  segment->left.store(0);
  segment->taken_back.store(0);
  if (g.spare_count < kMostSpares) g.spares[g.spare_count++] = {segment, nullptr};
}

void drop_spares() { g_session.spare_count = 0; }

void find_sealer() { board_of_sealer(); }

void forget_sealer() {
  Session &g = g_session;
  if (g.board) own_memory::release(g.board, sizeof(SealerBoard));
  g.board = nullptr;
  g.spare_count = 0;
}

}  // namespace tailrace
