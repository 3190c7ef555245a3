// See session/ledger.h.
#include "session/ledger.h"

#include <stdio.h>

#include <new>

#include "base/sys.h"
#include "format/event_args.h"
#include "session/files.h"
#include "session/libraries.h"
#include "session/memory_sharers.h"
#include "session/own_descriptors.h"
#include "session/stream_buffer.h"

// glibc 2.32 and later.
extern "C" char __libc_single_threaded __attribute__((weak));

namespace tailrace {
namespace {

// This thread's part of what the ledger counts.
__thread int64_t t_own[2];
__thread int64_t t_ahead;

constexpr int64_t kMaxRejected = 16 * kReadPerLibrary;

// A dlopen of this thread whose hook ran: the state before it. The hook jumps into the real function
// (hooks/dlfcn.cc), so nothing runs when it is over.
struct Loading {
  Thread *thread;
  int64_t read, captured, ahead;
};
__thread Loading t_loading;

bool take_field(string_view text, string_view key, uint64_t &value) {
  size_t at = text.find(key);
  if (at == string_view::npos) return false;
  at += key.size();
  string_view rest = slice(text, at, text.size() - at);
  return take_decimal(rest, value);
}

// What the core has read in this process before its ledger began.
std::atomic<int64_t> g_read_before{0};

bool is_ledger_ours() {
  const Session &g = g_session;
  return g.ledger && g_wiped.alive.load(std::memory_order_relaxed);
}

bool is_ours_to_write() { return !is_vfork_child() && is_ledger_ours(); }

// `by_this_thread`: not by a task for our descriptors.
void count_own_of(int64_t read, int64_t written, bool by_this_thread) {
  if (is_vfork_child()) return count_own_beside(read);
  if (!is_ours_to_write()) {
    if (read > 0) g_read_before.fetch_add(read, std::memory_order_relaxed);
    return;
  }
  Ledger &l = *g_session.ledger;
  if (read > 0 && by_this_thread) t_own[kRead] += read;
  if (written > 0 && by_this_thread) t_own[kWritten] += written;
  if (read > 0) l.own[kRead].fetch_add(static_cast<uint64_t>(read), std::memory_order_relaxed);
  if (written > 0) l.own[kWritten].fetch_add(static_cast<uint64_t>(written), std::memory_order_relaxed);
}

struct BufferedBytes {
  int64_t unread = 0, unwritten = 0;
};

BufferedBytes bytes_in_buffers() {
  static __thread BufferedBytes *t_sum;
  BufferedBytes sum;
  t_sum = &sum;
  each_stream([](OpenFile *f) {
    auto *s = static_cast<FILE *>(f->stream.load(std::memory_order_relaxed));
    t_sum->unread += unread_bytes(s);
    t_sum->unwritten += unwritten_bytes(s);
  });
  return sum;
}

// Does not count its own bytes, since begin_ledger calls it before the ledger exists.
bool read_totals(const char *path, uint64_t (&totals)[2], int64_t &bytes_read, bool *apart = nullptr) {
  char text[256];
  long n = -1;
  with_own_look([&] {
    if (apart) *apart = is_in_own_table();
    int fd = sys::open(path, O_RDONLY);
    if (fd < 0) return;
    n = sys::read(fd, text, sizeof text);
    sys::close(fd);
  });
  if (n <= 0) return false;
  bytes_read = n;
  string_view all(text, static_cast<size_t>(n));
  return take_field(all, "rchar: ", totals[kRead]) && take_field(all, "wchar: ", totals[kWritten]);
}

bool read_counted(const char *path, uint64_t (&totals)[2], int64_t *bytes_read = nullptr) {
  int64_t bytes = 0;
  bool apart = false, known = read_totals(path, totals, bytes, &apart);
  count_own_of(bytes, 0, !apart);
  if (bytes_read) *bytes_read = bytes;
  return known;
}

void clear(Ledger &l) {
  for (int i = 0; i < 2; ++i) {
    l.base[i] = 0;
    l.own[i] = 0;
    l.reaped[i] = 0;
    l.left[i] = 0;
  }
  l.ahead = 0;
  l.ahead_left = 0;
  l.base_loaded = 0;
  l.loaded = 0;
  l.executing = kNoExecution;
}

}  // namespace

bool is_proc_ours() {
  char self[24];
  long n = sys::readlink("/proc/self", self, sizeof self);
  string_view text(self, n > 0 ? static_cast<size_t>(n) : 0);
  uint64_t pid;
  return take_decimal(text, pid) && static_cast<int>(pid) == sys::getpid();
}

bool read_kernel_account(int pid, uint64_t (&totals)[2], int64_t *bytes_read) {
  if (pid == 0) return read_counted("/proc/self/io", totals, bytes_read);
  if (pid == kThisThread && must_look_apart()) return read_thread_account(sys::gettid(), totals);
  if (pid == kThisThread) return read_counted("/proc/thread-self/io", totals, bytes_read);
  if (!is_proc_ours()) return false;
  char path[32];
  Writer w(path, sizeof path);
  w << "/proc/";
  w.number(pid) << "/io";
  return read_counted(w.c_str(), totals, bytes_read);
}

bool read_thread_account(int tid, uint64_t (&totals)[2]) {
  char path[48];
  Writer w(path, sizeof path);
  w << "/proc/self/task/";
  w.number(tid) << "/io";
  return read_counted(w.c_str(), totals);
}

void begin_ledger(bool continues) {
  Session &g = g_session;
  if (!continues) {
    g.ledger = &g.own_ledger;
    new (g.ledger) Ledger{};
  }
  Ledger &l = *g.ledger;
  // Without the accounts of its earlier images the process has none.
  bool lost = continues && !l.is_known();
  for (int i = 0; continues && i < 2; ++i) l.done[i] += l.left[i].load();
  if (continues) l.ahead_before += l.ahead_left.load();
  clear(l);
  g_read_before = 0;  // the kernel's totals have it
  uint64_t totals[2];
  int64_t bytes_read = 0;
  bool known = read_totals("/proc/self/io", totals, bytes_read);
  l.known = known && !lost ? kKnown : kUnknown;
  if (!known) return;
  // The kernel adds the bytes of this reading afterwards.
  l.base[kRead] = totals[kRead] + static_cast<uint64_t>(bytes_read);
  l.base[kWritten] = totals[kWritten];
  l.base_loaded = library_bytes();
  l.loaded = l.base_loaded.load();
}

void begin_child_ledger() {
  Session &g = g_session;
  g.ledger = &g.own_ledger;
  new (g.ledger) Ledger{};
  g.ledger->known = kKnown;
  g.ledger->own[kRead] = static_cast<uint64_t>(g_read_before.exchange(0));
  t_loading.thread = nullptr;
  // The child consumes what its parent read ahead without a read, and flushes what its parent's events have put there.
  BufferedBytes buffered = bytes_in_buffers();
  g.ledger->ahead = -buffered.unread;
  g.ledger->base[kWritten] = static_cast<uint64_t>(buffered.unwritten);
  g.ledger->base_loaded = library_bytes();
  g.ledger->loaded = g.ledger->base_loaded.load();
}

void move_ledger_to(SegmentHeader *segment) {
  Session &g = g_session;
  if (g.ledger != &g.own_ledger) return;
  memcpy(static_cast<void *>(&segment->ledger), &g.own_ledger, sizeof(Ledger));
  g.ledger = &segment->ledger;
}

void count_own(int64_t read, int64_t written) { count_own_of(read, written, !is_in_own_table()); }

void count_reaped(const uint64_t *totals) {
  if (!is_ledger_ours()) return;
  Ledger &l = *g_session.ledger;
  if (!totals) l.known = kUnknown;
  for (int i = 0; totals && i < 2; ++i) l.reaped[i].fetch_add(totals[i], std::memory_order_relaxed);
}

void count_loaded() {
  if (is_ours_to_write()) g_session.ledger->loaded = library_bytes();
}

void set_executing(Execution how) {
  if (is_ours_to_write()) g_session.ledger->executing.store(how, std::memory_order_relaxed);
}

void count_untaken() {
  if (is_ours_to_write()) g_session.ledger->untaken.fetch_add(1, std::memory_order_relaxed);
}

void count_unseen_ring() {
  if (is_ours_to_write()) g_session.ledger->unseen_ring.store(1, std::memory_order_relaxed);
}

void count_ahead(int64_t bytes) {
  if (!bytes || !is_ours_to_write()) return;
  t_ahead += bytes;
  g_session.ledger->ahead.fetch_add(bytes, std::memory_order_relaxed);
}

void take_captured(Thread *t) {
  if (!t->captured_to) return;
  Slot *end = t->next < t->limit ? t->next : t->limit;
  for (Slot *s = t->captured_to; s < end; ++s) {
    uint32_t mark = s->mark.load(std::memory_order_relaxed);
    if (mark_epoch(mark) != static_cast<uint16_t>(t->epoch) || mark_kind(mark) >= kFunctionCount) continue;
    const Function &f = function(static_cast<Fn>(mark_kind(mark)));
    if (f.uncounted || f.above) continue;
    int64_t bytes = moved_bytes(*s, f);
    if (f.direction == Direction::R || f.direction == Direction::RW) t->captured[kRead] += bytes;
    if (f.direction == Direction::W || f.direction == Direction::RW) t->captured[kWritten] += bytes;
  }
  t->captured_to = end;
}

namespace {

// This thread's bytes less what is accounted for otherwise. The order matters: `own` is copied before the kernel's
// totals are read, since they include that reading only afterwards.
bool read_state(Thread *t, int64_t (&bytes)[2]) {
  int64_t own[2] = {t_own[kRead], t_own[kWritten]};
  uint64_t totals[2];
  if (!read_kernel_account(kThisThread, totals)) return false;
  if (!t->captured_to) t->captured_to = t->next < t->limit ? t->next : t->limit;
  take_captured(t);
  for (int i = 0; i < 2; ++i) bytes[i] = static_cast<int64_t>(totals[i]) - own[i] - t->captured[i];
  bytes[kRead] -= t_ahead;
  bytes[kRead] -= library_bytes();
  return true;
}

// The bytes read ahead in all streams; -1 where other threads may change them.
int64_t read_ahead() { return &__libc_single_threaded && __libc_single_threaded ? bytes_in_buffers().unread : -1; }

bool is_accounted_for() { return is_ours_to_write() && g_session.ledger->is_known(); }

bool begin_account(Thread *t, int64_t (&bytes)[2]) {
  if (!is_accounted_for() || !read_state(t, bytes)) return false;
  ++t->accounts;
  return true;
}

bool end_account(Thread *t, int64_t (&bytes)[2]) {
  if (t_thread != t || !is_ours_to_write()) return false;
  bool known = read_state(t, bytes);
  if (--t->accounts == 0) t->captured_to = nullptr;
  return known;
}

}  // namespace

void expect_library() {
  settle_library();
  Thread *t = enter();
  int64_t bytes[2];
  if (!t || !linker_answers() || !begin_account(t, bytes)) return;
  t_loading = {t, bytes[kRead], t->captured[kRead], read_ahead()};
}

void settle_library() {
  Loading loading = t_loading;
  if (!loading.thread) return;
  t_loading.thread = nullptr;
  int64_t bytes[2];
  if (!end_account(loading.thread, bytes)) return;
  int64_t rejected = bytes[kRead] - loading.read, ahead = read_ahead();
  // In a program with threads that has recorded a read since, a stream's buffer may have more than the call consumed.
  bool is_plain = loading.thread->captured[kRead] == loading.captured || rejected % kReadPerLibrary == 0;
  if (ahead >= 0 && loading.ahead >= 0) {
    rejected -= ahead - loading.ahead;
    is_plain = true;
  }
  if (rejected <= 0 || rejected > kMaxRejected || !is_plain) return;
  count_rejected(rejected);
  count_loaded();
}

LibcCall::LibcCall(Thread *t) : thread_(t) {
  settle_library();
  known_ = begin_account(t, before_);
}

bool LibcCall::finish(int64_t (&bytes)[2]) {
  settle_library();
  if (!known_ || !end_account(thread_, bytes)) return false;
  for (int i = 0; i < 2; ++i) bytes[i] = bytes[i] > before_[i] ? bytes[i] - before_[i] : 0;
  return true;
}

Account process_account() {
  settle_library();
  Account a;
  if (!is_ours_to_write() || !g_session.ledger->is_known()) return a;
  Ledger &l = *g_session.ledger;
  int64_t own = static_cast<int64_t>(l.own[kRead].load());
  uint64_t totals[2];
  if (!read_kernel_account(0, totals)) return a;
  a.known = true;
  BufferedBytes buffered = bytes_in_buffers();
  a.buffered = buffered.unread;
  a.unflushed = buffered.unwritten;
  a.loaded = library_bytes() - l.base_loaded;
  auto of = [](const std::atomic<uint64_t> &n) { return static_cast<int64_t>(n.load(std::memory_order_relaxed)); };
  a.bytes[kRead] = static_cast<int64_t>(totals[kRead]) - of(l.base[kRead]) - own - of(l.reaped[kRead]) - l.ahead -
                   a.loaded - a.buffered;
  a.bytes[kWritten] = static_cast<int64_t>(totals[kWritten]) - of(l.base[kWritten]) - of(l.own[kWritten]) -
                      of(l.reaped[kWritten]) + a.unflushed;
  for (int64_t &n : a.bytes) n = n < 0 ? 0 : n;
  return a;
}

void store_image_account(const Account &account) {
  if (!account.known || !is_ours_to_write()) return;
  Ledger &l = *g_session.ledger;
  for (int i = 0; i < 2; ++i) l.left[i] = static_cast<uint64_t>(account.bytes[i]);
  l.ahead_left = l.ahead + account.buffered;
}

}  // namespace tailrace
