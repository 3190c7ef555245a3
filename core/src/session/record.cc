// See session/record.h.
#include "session/record.h"

#include <sys/resource.h>

#include "base/sys.h"
#include "format/event_args.h"
#include "format/path_patterns.h"
#include "session/ledger.h"
#include "session/processor_account.h"
#include "session/recorded_name.h"
#include "session/region.h"
#include "session/segment.h"
#include "session/stacks.h"
#include "session/write_place.h"

namespace tailrace {
namespace {

uint16_t mark_of(const Thread *t) { return static_cast<uint16_t>(t->epoch); }

// False: there is no room.
bool add_text_record(Thread *t, RecordKind kind, const HeadSlot &head, string_view text) {
  Slot *slots = reserve(t, 1 + text_slots(text.size()));
  if (!slots) return false;
  write_text_record(slots, kind, mark_of(t), head, text);
  return true;
}

bool is_summed(string_view path) {
  const StartEnvironment &chosen = g_session.environment;
  return is_left_to_totals(path, chosen[Setting::TAILRACE_INCLUDE], chosen[Setting::TAILRACE_EXCLUDE]);
}

void write_name(Thread *t, uint64_t hash, string_view path, const FileIdentity &identity) {
  HeadSlot head{};
  head.id = static_cast<uint32_t>(identity.type);
  head.hash = hash;
  head.dev = identity.dev;
  head.ino = identity.ino;
  head.btime_ns = identity.btime_ns;
  head.block_bytes = identity.block_bytes;
  head.is_summed = is_summed(path);
  // Without room for the name there is none for its record either, which counts the loss.
  bool added;
  if (g_session.hasher.is_on()) {
    PathBuffer room(t);
    added = add_text_record(t, kNameRecord, head, recorded_name(path, identity.type, room));
  } else {
    added = add_text_record(t, kNameRecord, head, path);
  }
  if (added) t->names[hash % kNameCache] = hash;
}

// The file of a record: an open one, a named one, or none.
struct FileSource {
  OpenFile *open = nullptr;
  const NamedFile *named = nullptr;
};

void write_name_from(Thread *t, uint64_t hash, const FileSource &source) {
  if (source.named) return write_name(t, hash, source.named->name(), source.named->identity);
  if (!source.open) return;
  PathBuffer path;
  FileIdentity identity;
  long n = copy_name(source.open, hash, path.data(), kPathBytes, identity);
  if (n >= 0) write_name(t, hash, {path.data(), static_cast<size_t>(n)}, identity);
}

inline void ensure_name(Thread *t, uint64_t hash, const FileSource &source) {
  if (hash && __builtin_expect(t->names[hash % kNameCache] != hash, 0)) write_name_from(t, hash, source);
}

void write_context(Thread *t, const Context *c) {
  HeadSlot head{};
  head.id = c->id;
  if (add_text_record(t, kContextRecord, head, c->recorded)) t->contexts[c->id % kContextCache] = c->id;
}

// Frames, by the hash of the stack that the thread has taken last.
__attribute__((noinline)) void write_stack(Thread *t, uint64_t stack) {
  PathBuffer room;
  Writer frames(room.data(), kPathBytes);
  write_frames(t, frames);
  HeadSlot head{};
  head.id = static_cast<uint32_t>(FileType::kObject);
  head.hash = stack;
  if (add_text_record(t, kNameRecord, head, frames.view())) t->names[stack % kNameCache] = stack;
}

// `before`: slots that are left free before the one that is returned.
inline Slot *fill(Thread *t, const Event &e, uint64_t t0, uint64_t t1, const Context *context, uint32_t before = 0) {
  Slot *s = reserve(t, before + 1);
  if (__builtin_expect(!s, 0)) {
    count_loss(t, Loss::kNoJournal);
    return nullptr;
  }
  s += before;
  s->context = context->id;
  s->t0 = t0;
  s->t1 = t1;
  s->file = e.file;
  s->file2 = e.file2;
  s->offset = e.offset;
  s->count = e.count;
  s->ret = e.ret;
  return s;
}

// Without room for them there is none for their record either, which counts the loss.
void write_members(Thread *t, uint64_t t0, string_view members) {
  HeadSlot head{};
  head.hash = t0;
  add_text_record(t, kMembersRecord, head, members);
}

__attribute__((noinline)) void write_time(Thread *t, uint64_t t0, const ProcessTime &time) {
  auto *slot = reinterpret_cast<TimeSlot *>(reserve(t, 1));
  if (!slot) return;
  slot->t0 = t0;
  slot->time = time;
  slot->mark.store(make_mark(kTimeRecord, mark_of(t)), std::memory_order_release);
}

inline void refer_to_stack(Slot *slot, uint64_t stack, uint32_t epoch) {
  auto *head = reinterpret_cast<HeadSlot *>(slot);
  head->hash = stack;
  head->text_bytes = 0;
  head->mark.store(make_mark(kStackRecord, static_cast<uint16_t>(epoch)), std::memory_order_release);
}

// Writes every record. Names and context have to be in the same epoch as the record, so they are written again when
// making room for it emptied the segment.
inline Slot *commit(Thread *t, const Event &e, uint64_t t0, const FileSource &a, const FileSource &b, uint64_t over = 0,
                    string_view members = {}, const ProcessTime *time = nullptr) {
  uint64_t t1 = over ? over : now_ticks();
  const Context *context = current_context();
  const uint64_t stack = __builtin_expect(g_stacks.on, 0) ? take_stack(t, e.fn, t0, t1) : 0;
  for (;;) {
    uint32_t epoch = t->epoch;
    if (__builtin_expect(t->contexts[context->id % kContextCache] != context->id, 0)) write_context(t, context);
    ensure_name(t, e.file, a);
    if (b.open || b.named) ensure_name(t, e.file2, b);
    if (!members.empty()) write_members(t, t0, members);
    if (__builtin_expect(time != nullptr, 0)) write_time(t, t0, *time);
    if (__builtin_expect(stack != 0, 0) && t->names[stack % kNameCache] != stack) write_stack(t, stack);
    Slot *s = fill(t, e, t0, t1, context, stack ? 1 : 0);
    if (!s) return nullptr;
    if (__builtin_expect(t->epoch != epoch, 0)) continue;
    if (__builtin_expect(stack != 0, 0)) refer_to_stack(s - 1, stack, epoch);
    s->mark.store(make_mark(static_cast<uint16_t>(e.fn), static_cast<uint16_t>(epoch)), std::memory_order_release);
    if (__builtin_expect(t1 > t->deadline_ticks, 0)) {
      pass_on(t);
      return nullptr;
    }
    return s;
  }
}

// Advances the descriptor's position by the bytes of a call and returns where they began.
inline int64_t take_position(OpenFile *f, int fd, int64_t moved, Fn fn) {
  if (!is_seekable(f)) return -1;
  if (__builtin_expect(position_is_own(f), 1)) {
    return moved > 0 ? f->position.fetch_add(moved, std::memory_order_relaxed)
                     : f->position.load(std::memory_order_relaxed);
  }
  if (function(fn).direction == Direction::W) return begin_of_written(f, fd, moved, -1, true);
  // Shared with another process, or appending: only the kernel has the position.
  int64_t now = sys::lseek(fd, 0, SEEK_CUR);
  return now < 0 ? -1 : now - moved;
}

inline int64_t offset_for(OpenFile *f, int fd, int64_t at, int64_t ret, Fn fn) {
  if (at == kNowhere) return -1;
  return at == kHere ? take_position(f, fd, ret > 0 ? ret : 0, fn) : at;
}

// Slots that the event of a task that records beside may take: its tid, context, names, the event, and the tid of the
// records that follow.
uint32_t slots_beside(const Context *context, const NamedFile &a, const NamedFile *b) {
  // A hashed name may be longer than the path.
  const auto of_name = [](const NamedFile &f) {
    return 1 + text_slots(g_session.hasher.is_on() ? kPathBytes : f.path_bytes);
  };
  return 3 + 1 + text_slots(context->recorded.size()) + of_name(a) + (b ? of_name(*b) : 0);
}

void note_tid(Thread *t, uint32_t tid) {
  auto *head = reinterpret_cast<HeadSlot *>(reserve(t, 1));
  if (!head) return;
  head->tid = tid;
  head->mark.store(make_mark(kThreadRecord, mark_of(t)), std::memory_order_release);
}

// As commit(), but where that would make room, it counts a loss (session/memory_sharers.h).
void commit_beside(Thread *t, const Event &e, const NamedFile &a, const NamedFile *b) {
  const Context *context = current_context();
  if (!t->segment || t->next + slots_beside(context, a, b) > t->limit) return count_loss(t, Loss::kNoJournal);
  const auto tid = static_cast<uint32_t>(sys::gettid());
  if (t->tid != tid) note_tid(t, tid);
  if (t->contexts[context->id % kContextCache] != context->id) write_context(t, context);
  ensure_name(t, e.file, {nullptr, &a});
  if (b) ensure_name(t, e.file2, {nullptr, b});
  if (Slot *s = fill(t, e, t->beside_ticks, now_ticks(), context))
    s->mark.store(make_mark(static_cast<uint16_t>(e.fn), mark_of(t)), std::memory_order_release);
  if (t->tid != tid) note_tid(t, t->tid);
}

int64_t offset_beside(const NamedFile &file, const CopyEnd &end, int64_t moved) {
  if (end.place) return end.place->after_beside(end.fd, moved);
  if (end.at != kHere) return end.at == kNowhere ? -1 : end.at;
  const int64_t now = is_seekable(file.identity.type) ? sys::lseek(end.fd, 0, SEEK_CUR) : -1;
  return now < 0 ? -1 : now - moved;
}

__attribute__((noinline)) void record_beside(Fn fn, const CopyEnd &from, const CopyEnd *to, uint64_t count,
                                             int64_t result) {
  Thread *t = thread_beside();
  if (!t) return;
  NamedFile a(t), b(t);
  Event e{fn, 0, 0, -1, count, result};
  if (ask_for_open_file(from.fd, a)) {
    e.file = a.hash;
    e.offset = offset_beside(a, from, result > 0 ? result : 0);
  }
  if (to && ask_for_open_file(to->fd, b)) e.file2 = b.hash;
  commit_beside(t, e, a, to ? &b : nullptr);
}

bool is_beside() { return __builtin_expect(t_sharers != nullptr || is_vfork_child(), 0); }

}  // namespace

void LongCall::begin(const Call &call, Fn fn) {
  Thread *t = call ? enter() : nullptr;
  if (!t || !t->segment) return;
  segment_ = t->segment;
  segment_->inside_ticks = call.t0();
  segment_->inside.store(static_cast<uint32_t>(fn), std::memory_order_release);
}

void record_transfer(const Call &call, Fn fn, int fd, int64_t at, uint64_t count, int64_t ret) {
  int64_t result = result_of(ret);
  Thread *t = call.thread();
  if (!t && is_beside()) record_beside(fn, {fd, at}, nullptr, count, result);
  if (!t) return;
  OpenFile *f = file_of(fd);
  Event e{fn, 0, 0, -1, count, result};
  if (f) {
    e.file = f->hash.load(std::memory_order_relaxed);
    e.offset = offset_for(f, fd, at, result, fn);
  }
  commit(t, e, call.t0(), {f, nullptr}, {});
}

void record_written(const Call &call, Fn fn, int fd, const WritePlace &place, uint64_t count, int64_t ret) {
  int64_t result = result_of(ret);
  Thread *t = call.thread();
  if (!t && is_beside()) record_beside(fn, {fd, kHere, &place}, nullptr, count, result);
  if (!t) return;
  OpenFile *f = file_of(fd);
  Event e{fn, 0, 0, -1, count, result};
  if (f) {
    e.file = f->hash.load(std::memory_order_relaxed);
    e.offset = place.after(f, fd, result > 0 ? result : 0);
  }
  commit(t, e, call.t0(), {f, nullptr}, {});
}

void record_copy(const Call &call, Fn fn, const CopyEnd &from, const CopyEnd &to, uint64_t count, int64_t ret) {
  int64_t result = result_of(ret);
  Thread *t = call.thread();
  if (!t && is_beside()) record_beside(fn, from, &to, count, result);
  if (!t) return;
  OpenFile *source = file_of(from.fd), *target = file_of(to.fd);
  Event e{fn, 0, 0, -1, count, result};
  if (source) {
    e.file = source->hash.load(std::memory_order_relaxed);
    e.offset = offset_for(source, from.fd, from.at, result, Fn::f_read);
  }
  char text[32];
  Writer members(text, sizeof text);
  if (target) {
    e.file2 = target->hash.load(std::memory_order_relaxed);
    const int64_t at = to.place ? to.place->after(target, to.fd, result > 0 ? result : 0)
                                : offset_for(target, to.fd, to.at, result, Fn::f_write);
    if (at >= 0 && result > 0) members << "\"offset2\":", members.number(at);
  }
  commit(t, e, call.t0(), {source, nullptr}, {target, nullptr}, 0, members.view());
}

void record_fd(const Call &call, Fn fn, int fd, int64_t ret, uint64_t count, int64_t offset, uint64_t file2) {
  int64_t result = result_of(ret);
  Thread *t = call.thread();
  if (!t) return;
  OpenFile *f = file_of(fd);
  Event e{fn, f ? f->hash.load(std::memory_order_relaxed) : 0, file2, offset, count, result};
  commit(t, e, call.t0(), {f, nullptr}, {});
}

Slot *record_file(const Call &call, const Event &event, OpenFile *file) {
  Thread *t = call.thread();
  return t ? commit(t, event, call.t0(), {file, nullptr}, {}) : nullptr;
}

void record_path(const Call &call, Event event, const NamedFile *a, const NamedFile *b) {
  Thread *t = call.thread();
  if (!t) return;
  if (a) event.file = a->hash;
  if (b) event.file2 = b->hash;
  commit(t, event, call.t0(), {nullptr, a}, {nullptr, b});
}

void record_above(const Call &call, uint64_t t1, Event event, const NamedFile *file, const NamedFile *object,
                  string_view members) {
  Thread *t = call.thread();
  if (!t) return;
  if (file) event.file = file->hash;
  if (object) event.file2 = object->hash;
  commit(t, event, call.t0(), {nullptr, file}, {nullptr, object}, t1, members);
}

void record_plain(const Call &call, Fn fn, int64_t ret) {
  int64_t result = result_of(ret);
  Thread *t = call.thread();
  if (!t) return;
  Event e;
  e.fn = fn;
  e.ret = result;
  commit(t, e, call.t0(), {}, {});
}

// Keys are a record of their own before the region's, and refer to it by its number.
static void write_region_keys(Thread *t, const RegionRecord &record) {
  const string_view keys(record.keys);
  HeadSlot head{};
  head.hash = record.id;
  if (keys.size() > kMaxTagsBytes) return;
  if (!g_session.hasher.is_on()) {
    add_text_record(t, kKeysRecord, head, keys);
    return;
  }
  PathBuffer room;
  Writer hashed(room.data(), kPathBytes);
  g_session.hasher.write_tags(hashed, keys);
  add_text_record(t, kKeysRecord, head, hashed.view());
}

Slot *record_region(Thread *t, const RegionRecord &r, uint64_t t0, uint64_t t1) {
  // Before an open one, since a slot that the caller amends must stay where it is.
  if (!t1) pass_on_when_due(t, t0);
  for (;;) {
    uint32_t epoch = t->epoch;
    if (__builtin_expect(t->contexts[r.context->id % kContextCache] != r.context->id, 0)) write_context(t, r.context);
    const uint64_t hash = r.definition->hash;
    // Regions may follow each other without any call in between, faster than a slot is fetched.
    __builtin_prefetch(t->next + 8, 1);
    if (__builtin_expect(t->names[hash % kNameCache] != hash, 0)) {
      FileIdentity none;
      none.type = FileType::kObject;
      write_name(t, hash, r.definition->both(), none);
    }
    if (__builtin_expect(r.keys != nullptr && *r.keys, 0)) write_region_keys(t, r);
    const Event e{r.fn, hash, r.id, r.epoch, static_cast<uint64_t>(r.step), static_cast<int64_t>(r.outer_id)};
    Slot *s = fill(t, e, t0, t1, r.context);
    if (!s) return nullptr;
    if (__builtin_expect(t->epoch != epoch, 0)) continue;
    s->mark.store(make_mark(static_cast<uint16_t>(r.fn), static_cast<uint16_t>(epoch)), std::memory_order_release);
    if (t1) pass_on_when_due(t, t1);
    return s;
  }
}

// An event without a stack, in a context that need not be the thread's; it never seals because the records are due.
static void record_in(const Context *context, Thread *t, const Event &e, uint64_t t0, uint64_t t1) {
  for (;;) {
    const uint32_t epoch = t->epoch;
    if (t->contexts[context->id % kContextCache] != context->id) write_context(t, context);
    Slot *s = fill(t, e, t0, t1, context);
    if (!s) return;
    if (t->epoch != epoch) continue;
    s->mark.store(make_mark(static_cast<uint16_t>(e.fn), static_cast<uint16_t>(epoch)), std::memory_order_release);
    return;
  }
}

void record_context(Thread *t, Fn fn, const Context *context, uint64_t at, const ProcessorTime &time) {
  record_in(context, t, {fn, 0, 0, time.ready_ns, static_cast<uint64_t>(time.run_ns), 0}, at, at);
}

void record_thread(Thread *t, uint32_t tid, uint64_t began_ticks, const ProcessorTime &time) {
  if (time.run_ns < 0) return;
  const uint64_t now = now_ticks();
  const Event e{Fn::kThread, 0, 0, time.ready_ns, static_cast<uint64_t>(time.run_ns), 0};
  const Context *root = g_session.root.load(std::memory_order_acquire);
  if (tid == t->tid) return record_in(root, t, e, began_ticks, now);
  const uint32_t slots = 4 + text_slots(root->recorded.size());
  if ((!t->segment || t->next + slots > t->limit) && !make_room(t, slots)) return count_loss(t, Loss::kNoJournal);
  note_tid(t, tid);
  record_in(root, t, e, began_ticks, now);
  note_tid(t, t->tid);
}

Slot *record_amendable(Thread *t, const Event &event, uint64_t t0, uint64_t t1, OpenFile *file) {
  return commit(t, event, t0, {file, nullptr}, {}, t1);
}

void pass_on_when_due(Thread *t, uint64_t now) {
  if (__builtin_expect(t->segment && now > t->deadline_ticks, 0)) pass_on(t);
}

void record_process_start(Thread *t) {
  Session &g = g_session;
  HeadSlot head{};
  if (!add_text_record(t, kProcessRecord, head, {g.process_members, g.process_members_bytes})) return;
  Event e;
  e.fn = Fn::kStart;
  commit(t, e, now_ticks(), {}, {});
}

namespace {

// Writes the args of the exit event after its code.
void write_exit_members(Writer &w, const ProcessTime &time) {
  Account a = process_account();
  auto number = [&](const char *key, int64_t value) { w << (w.size() ? "," : "") << key, w.number(value); };
  if (a.known) {
    number("\"rchar\":", a.bytes[kRead]);
    number("\"wchar\":", a.bytes[kWritten]);
    if (a.buffered) number("\"buffered\":", a.buffered);
    if (a.unflushed) number("\"unflushed\":", a.unflushed);
    if (a.loaded) number("\"loaded\":", a.loaded);
  }
  rusage u;
  if (sys::call(SYS_getrusage, RUSAGE_SELF, sys::pointer(&u)) < 0) return;
  auto ns = [](const timeval &t) { return t.tv_sec * 1'000'000'000LL + t.tv_usec * 1000LL; };
  number("\"utime\":", ns(u.ru_utime));
  number("\"stime\":", ns(u.ru_stime));
  number("\"maxrss\":", u.ru_maxrss);
  number("\"minflt\":", u.ru_minflt);
  number("\"majflt\":", u.ru_majflt);
  number("\"inblock\":", u.ru_inblock);
  number("\"oublock\":", u.ru_oublock);
  if (time.ready_ns < 0) return;
  number("\"ready_ns\":", time.ready_ns);
  number("\"ready_of_ns\":", time.ready_of_ns);
}

}  // namespace

void record_process_exit(int code) {
  Thread *t = enter();
  if (!t) return;
  sys::SignalsBlocked signals;
  MemorySegment memory(t);
  const ProcessTime time = account_for_process(t);
  char members[500];
  Writer w(members, sizeof members);
  write_exit_members(w, time);
  HeadSlot head{};
  if (!w.overflowed()) add_text_record(t, kProcessRecord, head, w.view());
  Event e;
  e.fn = Fn::f__exit;
  e.ret = code & 0xFF;
  commit(t, e, now_ticks(), {}, {});
}

void record_wait(const Call &call, Fn fn, int pid, int status, const EndedChild &child) {
  Thread *t = call.thread();
  Thread *beside = t ? nullptr : thread_beside();
  if (!t && !beside) return;
  Event e;
  e.fn = fn;
  e.ret = pid;
  e.count = wait_word({status, static_cast<uint32_t>(child.started.kind), child.started.own_bytes});
  e.offset = child.account ? static_cast<int64_t>(child.account[kRead]) : -1;
  e.file2 = child.account ? child.account[kWritten] : 0;
  if (beside) return commit_beside(beside, e, NamedFile(beside), nullptr);
  commit(t, e, call.t0(), {}, {}, 0, {}, &child.time);
}

PendingRecord record_pending(const Call &call, const Event &event, const NamedFile &file) {
  Thread *t = call.thread();
  if (!t) return {};
  Event e = event;
  e.file = file.hash;
  return {t, commit(t, e, call.t0(), {nullptr, &file}, {})};
}

void amend_pending(const PendingRecord &pending, Obstacle obstacle) {
  if (pending.slot) pending.slot->file2 = static_cast<uint64_t>(obstacle);
}

void amend_pending(const PendingRecord &pending, int64_t ret) {
  if (!pending.slot) return;
  pending.slot->t1 = now_ticks();
  pending.slot->ret = ret;
}

}  // namespace tailrace
