// Turns records into JSON lines, and lines into blocks (docs/trace-format.md). format/seal_dead.cc calls this for dead
// processes.
#include "format/seal.h"

#include "base/own_memory.h"
#include "base/sys.h"
#include "format/sealer.h"
#include "format/tags.h"

namespace tailrace {

constexpr int kEcanceled = 125;

SealScratch *make_seal_scratch() { return static_cast<SealScratch *>(own_memory::pages(sizeof(SealScratch))); }

void free_seal_scratch(SealScratch *scratch) { own_memory::release(scratch, sizeof(SealScratch)); }

void Sealer::set_thread(uint32_t tid) {
  tid_ = tid;
  ++s_.generation;
  char *p = put_decimal(thread_, static_cast<uint64_t>(segment_.pid));
  p = put_decimal(put(p, ",\"tid\":"), tid);
  thread_bytes_ = static_cast<size_t>(put(p, ",\"ts\":") - thread_);
}

// The hash goes straight into the table: it is a good hash already.
NameEntry *Sealer::find_name(uint64_t hash) {
  for (uint64_t i = hash;; ++i) {
    NameEntry &e = s_.names[i & name_mask_];
    if (e.hash == hash || e.hash == 0) return &e;
  }
}

void Sealer::index_names(uint32_t to) {
  // Only as much of the table as these records can need: a short process must not touch every page of it.
  uint32_t size = 64;
  while (size < 4 * to && size < kNameTableSize) size *= 2;
  name_mask_ = size - 1;
  for (uint32_t i = 0; i < to; ++i) {
    if (!valid(i, kNameRecord)) continue;
    auto *head = reinterpret_cast<HeadSlot *>(segment_.slot(i));
    NameEntry *e = find_name(head->hash);
    if (e->hash == 0) *e = {head->hash, i, 0, 0};
    some_sums_ = some_sums_ || head->is_summed;
  }
}

// Null: no context record of this id was read yet.
ContextEntry *Sealer::find_context(uint32_t id) {
  for (uint32_t i = 0; i < context_count_; ++i) {
    if (s_.contexts[i].id == id) return &s_.contexts[i];
  }
  return nullptr;
}

// An id refers to the last context record before it: after execve the new program image starts at 1 again. Groups,
// whose context is what its id meant so far, are written before that changes.
void Sealer::add_context(uint32_t index) {
  uint32_t id = reinterpret_cast<HeadSlot *>(segment_.slot(index))->id;
  ContextEntry *entry = find_context(id);
  if (entry && (sums_ || some_sums_)) put_groups();
  if (!entry) entry = &s_.contexts[context_count_++];
  *entry = {id, index, 0};
  ++s_.generation;
  if (context_valid_ && context_id_ == id) context_valid_ = false;
}

string_view Sealer::text_of(uint32_t index) {
  auto *head = reinterpret_cast<HeadSlot *>(segment_.slot(index));
  size_t n = head->text_bytes, done = 0;
  // Records of a process keep these bounds; those of a damaged journal may not.
  size_t most = mark_kind(head->mark.load(std::memory_order_relaxed)) == kNameRecord ? kPathBytes : sizeof s_.text;
  if (n > most) return {};
  for (uint32_t i = index + 1; done < n; ++i) {
    if (i >= used_slots_ || !valid(i, kTextRecord)) return {};
    size_t part = n - done < kTextBytesPerSlot ? n - done : kTextBytesPerSlot;
    memcpy(s_.text + done, reinterpret_cast<TextSlot *>(segment_.slot(i))->text, part);
    done += part;
  }
  return {s_.text, n};
}

char *Sealer::put_metadata(char *p, string_view name) {
  p = put(p, "{\"name\":\"");
  p = put(p, name);
  p = put(p, "\",\"cat\":\"tailrace\",\"ph\":\"M\",\"pid\":");
  p = put_decimal(p, static_cast<uint64_t>(segment_.pid));
  p = put(p, ",\"tid\":");
  p = put_decimal(p, tid_);
  p = put(p, ",\"args\":{");
  summary_.add_line();
  return p;
}

void Sealer::begin_block(uint32_t slot) {
  ++s_.block_number;
  ++s_.generation;
  first_slot_ = slot;
  summary_.clear();
  context_valid_ = false;
  s_.lines.begin(s_.raw, s_.out, sizeof s_.out - kGzipTrailerBytes);
  char *p = put_metadata(s_.raw, "HH");
  Writer host(p, 8192);
  host << "\"name\":";
  host.json(segment_.host_name()) << ",\"value\":\"";
  host.hex(fnv32(segment_.host_name()), 8) << "\"}}\n";
  p = put_metadata(p + host.size(), "clock");
  p = put(p, "\"realtime_ns\":");
  p = put_decimal(p, clock_.from_ns + epoch_shift_ns_);
  p = put(p, ",\"monotonic_ns\":");
  p = put_decimal(p, clock_.from_ns);
  s_.lines.add_text(put(p, "}}\n"));
}

void Sealer::add_file_line(NameEntry &name) {
  name.emitted_in = s_.block_number;
  auto *head = reinterpret_cast<HeadSlot *>(segment_.slot(name.slot));
  string_view path = text_of(name.slot);
  char *p = put_metadata(s_.lines.line(), "FH");
  Writer w(p, kLineSlackBytes - 4096);
  w << "\"name\":";
  w.json(path);
  const char *value = p + w.size();
  w << ",\"value\":\"";
  name.hash_at = s_.lines.place_of(p + w.size());
  w.hex(name.hash, 16);
  const char *type = p + w.size();
  w << "\",\"type\":\"" << kFileTypeNames[head->id % 10] << '"';
  if (head->id != static_cast<uint32_t>(FileType::kNone)) {
    w << ",\"dev\":\"";
    w.number(static_cast<int64_t>(head->dev >> 32)) << ':';
    w.number(static_cast<int64_t>(head->dev & 0xFFFFFFFF)) << "\",\"ino\":";
    // An inode number is unsigned, and may exceed 2^63.
    char digits[20];
    w << string_view(digits, static_cast<size_t>(put_decimal(digits, head->ino) - digits));
  }
  const char *btime = p + w.size();
  if (head->id != static_cast<uint32_t>(FileType::kNone) && head->btime_ns)
    w << ",\"btime\":", w.number(head->btime_ns);
  if (head->block_bytes) w << ",\"blksize\":", w.number(static_cast<int64_t>(head->block_bytes));
  if (!is_utf8(path)) {
    w << ",\"bytes\":\"";
    for (char c : path) w.hex(static_cast<unsigned char>(c), 2);
    w << '"';
  }
  w << "}}\n";
  s_.lines.add_file({s_.lines.line(), value, type, btime, p + w.size()});
}

// The object in the file. A byte that is no UTF-8 is escaped, since two names must not become one.
char *Sealer::put_object(char *p, uint64_t hash) {
  NameEntry *name = find_name(hash);
  if (!name->hash) {
    lose(Loss::kUnnamed, 1);
    return p;
  }
  string_view text = text_of(name->slot);
  Writer w(p, kLineSlackBytes - 64 * 1024);
  w << ",\"object\":\"";
  for (size_t i = 0; i < text.size();) {
    unsigned n = utf8_sequence(text, i);
    if (n) {
      w.json_part(slice(text, i, n));
    } else {
      w << "\\\\x";
      w.hex(static_cast<unsigned char>(text[i]), 2);
    }
    i += n ? n : 1;
  }
  w << '"';
  return p + w.size();
}

// Lists the context in the block's header and renders its part of a line, which is valid until the context changes.
void Sealer::use_context(uint32_t id) {
  if (context_valid_ && id == context_id_) return;
  context_valid_ = true;
  context_id_ = id;
  ContextEntry none{0, UINT32_MAX, 0}, *found = find_context(id), *entry = found ? found : &none;
  context_slot_ = entry->slot;
  string_view text = entry->slot == UINT32_MAX ? string_view() : text_of(entry->slot);
  if (entry->listed_in != s_.block_number) {
    entry->listed_in = s_.block_number;
    summary_.add_context(text);
  }
  TagSet tags;
  size_t fault_at;
  char message[256];
  Writer ignored(message, sizeof message);
  Writer w(s_.context_json, sizeof s_.context_json);
  if (parse_tags(text, tags, fault_at, ignored, TagsOf::kCore)) write_tags_json(tags, w);
  w << "}}\n";
  context_bytes_ = w.size();
}

void Sealer::list_untraced(int64_t pid, const Slot &slot, uint64_t field) {
  Obstacle obstacle = obstacle_in(field);
  if (obstacle == Obstacle::kNone || slot.ret < 0) return;
  NameEntry *name = slot.file ? find_name(slot.file) : nullptr;
  summary_.add_untraced(pid, obstacle, name && name->hash ? text_of(name->slot) : string_view());
}

// Whether two records of the function that differ in nothing else have lines that differ in nothing else.
static bool depends_on_times_and_offset_alone(const Function &f) {
  switch (f.shape) {
    case Shape::kStart:
    case Shape::kExit:
    case Shape::kExec:
    case Shape::kSpawn:
    case Shape::kConfine:
    case Shape::kThread:
    case Shape::kWait: return false;
    default: return true;
  }
}

// A line with text of its own.
void Sealer::add_odd_event(EventLine &line, const Slot &slot, const Function &f, int64_t size, const NameEntry *stack) {
  char *p = put(put(s_.lines.line(), line.opening), line.thread);
  p = put_fields(p, line.fields);
  if (f.shape == Shape::kStart) {
    p = put_start_args(p);
  } else if (f.shape == Shape::kExit) {
    p = put_exit_args(p, slot);
  } else {
    if (f.shape == Shape::kObject && slot.file2) p = put_object(p, slot.file2);
    LineFields rest;
    add_event_args(rest, slot, f, size);
    p = put_layer_args(put_fields(p, rest), slot);
  }
  if (stack) p = put_stack(p, *stack);
  s_.lines.add_text(put(p, line.tail));
}

WrittenRecord &Sealer::written_like(const Slot &slot) {
  uint64_t h = slot.file ^ slot.count ^ static_cast<uint64_t>(slot.ret) << 24;
  h ^= static_cast<uint64_t>(slot.mark.load(std::memory_order_relaxed)) << 32 | slot.context;
  return s_.written[(h * 0x9E3779B97F4A7C15ULL) >> 58];
}

// The records of the calls that a call of a layer makes come first, and may have filled epochs that are sealed; those
// of a thread all do.
uint64_t Sealer::begin_ns(const Slot &slot, const Function &f) const {
  const bool is_before = f.shape == Shape::kObject || f.shape == Shape::kThread || is_wait(f.shape);
  const uint64_t ns = is_before ? clock_.to_ns_before(slot.t0) : clock_.to_ns(slot.t0);
  return ns + epoch_shift_ns_;
}

// Not before `t0`. The first record of a thread may be a wait that was over before the thread's segment was there.
uint64_t Sealer::end_ns(const Slot &slot, const Function &f, uint64_t t0) const {
  const uint64_t ns = is_wait(f.shape) ? clock_.to_ns_before(slot.t1) : clock_.to_ns(slot.t1);
  return ns + epoch_shift_ns_ < t0 ? t0 : ns + epoch_shift_ns_;
}

// False: the record has another line than those before it.
bool Sealer::add_again(const Slot &slot, const WrittenRecord &written) {
  if (!written.is_like(slot, s_.generation)) return false;
  const uint64_t t0 = begin_ns(slot, *written.f), t1 = end_ns(slot, *written.f, t0);
  if (!s_.lines.add_again(written.line, {t0, t1 - t0, offset_of(slot, *written.f)})) return false;
  summary_.add_event(*written.f, t0, t1, written.size);
  return true;
}

void Sealer::add_event(uint32_t index) {
  const Slot &slot = *segment_.slot(index);
  WrittenRecord &written = written_like(slot);
  const bool has_members = keep_members_of(slot);
  const NameEntry *stack = stack_of(index);
  if (!has_members && !stack && add_again(slot, written)) return;
  const Function &f = function(static_cast<Fn>(mark_kind(slot.mark.load(std::memory_order_relaxed))));
  if (f.shape == Shape::kRegion) return add_region(slot, f);
  use_context(slot.context);
  const uint64_t second = second_file(slot, f);
  const uint64_t files[2] = {slot.file, second};
  NameEntry *names[2] = {nullptr, nullptr};
  for (int i = 0; i < 2; ++i) {
    if (!files[i]) continue;
    NameEntry *name = find_name(files[i]);
    if (!name->hash) {
      lose(Loss::kUnnamed, 1);
      continue;
    }
    names[i] = name;
    if (name->emitted_in != s_.block_number) add_file_line(*name);
  }
  const uint64_t t0 = begin_ns(slot, f), t1 = end_ns(slot, f, t0);
  const bool several = stands_for_several(slot, f);
  int64_t size = moved_bytes(slot, f);
  const TimeSlot *time = f.shape == Shape::kWait ? time_of(slot) : nullptr;

  EventLine line;
  line.kind = {static_cast<uint32_t>(mark_kind(slot.mark.load(std::memory_order_relaxed))), context_slot_, tid_};
  line.opening = f.opening;
  line.thread = {thread_, thread_bytes_};
  line.tail = {s_.context_json, context_bytes_};
  LineFields &fields = line.fields;
  add_times(fields, t0, several ? clock_.ns_in(static_cast<uint64_t>(slot.offset)) : t1 - t0, offset_of(slot, f));
  for (int i = 0; i < 2; ++i) {
    if (!names[i]) continue;
    fields.add(i ? LineField::kFile2 : LineField::kFile, static_cast<int64_t>(files[i]));
    line.places[i] = &names[i]->hash_at;
  }
  const bool has_object = f.shape == Shape::kObject && slot.file2;
  if (stack || has_members || has_object || f.shape == Shape::kStart || f.shape == Shape::kExit) {
    add_odd_event(line, slot, f, size, stack);
  } else {
    add_event_args(fields, slot, f, size);
    if (time) add_time_args(fields, time->time);
    if (several) fields.add(LineField::kSpan, static_cast<int64_t>(t1 - t0));
    s_.lines.add_event(line);
    const bool named = names[0] != nullptr || files[0] == 0;
    if (named && !several && (names[1] != nullptr || files[1] == 0) && depends_on_times_and_offset_alone(f)) {
      written = {s_.generation,  slot.mark.load(std::memory_order_relaxed),
                 slot.context,   slot.offset >= 0,
                 slot.file,      slot.file2,
                 slot.count,     slot.ret,
                 size,           &f,
                 s_.lines.kept()};
    }
  }
  if (f.shape == Shape::kWait) summary_.add_reaped(slot, time ? time->time : ProcessTime{});
  if (f.shape == Shape::kExec) list_untraced(segment_.pid, slot, slot.file2);
  if (f.shape == Shape::kSpawn) list_untraced(slot.ret, slot, slot.count);
  if (f.shape == Shape::kConfine) list_untraced(segment_.pid, slot, slot.count);
  summary_.add_event(f, t0, t1, size);
}

// The call in which the thread was when its process ended; empty where it was in none that is marked. The mark of a
// call that a handler left by longjmp is older than the records that follow.
string_view Sealer::cut_off_call() const {
  const uint32_t fn = segment_.inside.load(std::memory_order_relaxed);
  if (!options_.last || fn == 0 || fn >= kFunctionCount) return {};
  const bool is_old = segment_.inside_ticks < last_ticks_ || segment_.inside_ticks < segment_.from_ticks;
  return is_old ? string_view() : function(static_cast<Fn>(fn)).name.view();
}

// The budget is a node's: the sealer knows the size of its own files, so that short processes share it without a
// counter.
static bool is_totals(const SegmentHeader &segment, uint64_t sealed_bytes) {
  if (segment.detail == static_cast<uint32_t>(DetailKind::kTotals)) return true;
  if (segment.detail != static_cast<uint32_t>(DetailKind::kAuto)) return false;
  struct statx status;
  int found = sys::statx(AT_FDCWD, segment.trace_path, AT_SYMLINK_NOFOLLOW, STATX_SIZE, &status);
  return sealed_bytes + (found >= 0 ? status.stx_size : 0) >= segment.detail_budget;
}

void Sealer::add_record(uint32_t index) {
  if (!sums_ && !some_sums_) return add_event(index);
  const Slot &slot = *segment_.slot(index);
  auto fn = static_cast<Fn>(mark_kind(slot.mark.load(std::memory_order_relaxed)));
  const Function &f = function(fn);
  // A sum has no members of its own, as the second offset of a copy.
  const bool is_alone = stack_slot_ + 1 == index || keep_members_of(slot) || !can_be_summed(slot, f);
  if ((sums_ || is_summed(slot.file)) && !is_alone && add_to_group(index, slot, fn, f)) return;
  if (slot.ret >= 0) put_groups_of(slot, f);
  add_event(index);
}

void Sealer::end_block(uint32_t next_slot) {
  put_groups();

  uint64_t lost[static_cast<int>(Loss::kCount)], lost_in_all = 0;
  for (int i = 0; i < static_cast<int>(Loss::kCount); ++i) {
    lost_in_all += lost[i] = segment_.lost[i].load(std::memory_order_relaxed);
  }
  // Of an emptied segment the ledger may have changed since its last block.
  bool has_last_ledger = options_.last && segment_.ledger.known && (first_slot_ > 0 || segment_.epoch.load() > 1);
  const bool is_end = next_slot == used_slots_;
  if (is_end) summary_.set_cut_off(cut_off_call());
  if (summary_.events() == 0 && lost_in_all == 0 && !has_last_ledger && !summary_.has_cut_off()) return;
  // No two blocks of a segment have the same epoch and slots.
  if (next_slot <= first_slot_) next_slot = first_slot_ + 1;
  // Blocks are in the file in the order of their slots: after a failed one none is written.
  if (status_ < 0) {
    unwritten_ += summary_.records();
    return;
  }
  const size_t raw_bytes = s_.lines.text_bytes();
  size_t n = s_.lines.finish();
  if (n == 0 || n > stored_bound(raw_bytes)) n = store_text(s_.raw, raw_bytes, s_.out);
  const uint64_t run_json_bytes = s_.run.find(segment_.trace_file(), s_.header, sizeof s_.header);
  if (totals_) totals_->run_json_bytes += run_json_bytes;
  summary_.set_run(s_.run.text());
  Writer header(s_.header, sizeof s_.header);
  const uint64_t spent_ns = options_.accounted_ns ? processor_time_ns() : 0;
  if (spent_ns) summary_.set_sealing(spent_ns - *options_.accounted_ns, options_.by_process);
  summary_.write(header, segment_, lost, n, raw_bytes, next_slot);
  int status = -1;
  size_t member_bytes = 0;
  if (n && !header.overflowed()) {
    string_view member = frame_member(s_.out, n, header.view(), crc32_of(s_.raw, raw_bytes), raw_bytes);
    const BlockTarget *target = options_.target;
    status =
        target ? target->append(target->self, segment_, member, next_slot) : append_member(segment_.trace_path, member);
    member_bytes = member.size();
  }
  if (status < 0) {
    if (!status_) status_ = status;
    unwritten_ += summary_.records();
    return;
  }
  // A target has stored both.
  if (!options_.target) segment_.blocks.fetch_add(1, std::memory_order_relaxed);
  if (spent_ns) *options_.accounted_ns = spent_ns;
  segment_.first_slot.store(next_slot, std::memory_order_release);
  for (int i = 0; i < static_cast<int>(Loss::kCount); ++i) {
    if (lost[i]) segment_.lost[i].fetch_sub(lost[i], std::memory_order_relaxed);
  }
  if (!totals_) return;
  totals_->blocks += 1;
  totals_->events += summary_.records();
  totals_->file_bytes += member_bytes;
  totals_->read_bytes += summary_.read_bytes();
  totals_->written_bytes += summary_.written_bytes();
  for (int i = 0; i < static_cast<int>(Loss::kCount); ++i) totals_->lost[i] += lost[i];
}

int Sealer::run(uint32_t from, uint32_t to, ClockSample &now) {
  clock_ = map_until(segment_, now);
  used_slots_ = to;
  index_names(to);
  sums_ = is_totals(segment_, options_.sealed_bytes);
  begin_block(from);
  for (uint32_t i = 0; i < to; ++i) {
    if (i % 64 == 0 && options_.canceled && options_.canceled->load(std::memory_order_relaxed)) {
      status_ = -kEcanceled;
      break;
    }
    uint32_t mark = segment_.slot(i)->mark.load(std::memory_order_acquire);
    if (mark_epoch(mark) != epoch_) continue;
    uint16_t kind = mark_kind(mark);
    // Groups are of one thread.
    if (kind == kThreadRecord) put_groups();
    // State that later records need is read even from sealed slots.
    if (kind == kThreadRecord) set_thread(reinterpret_cast<HeadSlot *>(segment_.slot(i))->tid);
    if (kind == kContextRecord) add_context(i);
    // Between these members and their record a block may have ended.
    if (kind == kMembersRecord) members_slot_ = i;
    if (kind == kTimeRecord) time_slot_ = i;
    if (i < from) continue;
    if (kind == kProcessRecord) process_slot_ = i;
    if (kind == kKeysRecord) keys_slot_ = i;
    if (kind == kStackRecord) stack_slot_ = i;
    if (kind == kEmptyRecord || kind >= kFunctionCount) continue;
    if (const uint64_t begin = segment_.slot(i)->t0; begin > last_ticks_) last_ticks_ = begin;
    bool full = s_.lines.text_bytes() + group_bytes_ >= kBlockRawBytes - 1024 || summary_.is_full();
    if (full) {
      end_block(i);
      begin_block(i);
    }
    add_record(i);
  }
  end_block(to);
  s_.groups.clear();
  // The tables are returned as they came: zeroed.
  for (uint32_t i = 0; i < to; ++i) {
    if (valid(i, kNameRecord)) {
      uint64_t hash = reinterpret_cast<HeadSlot *>(segment_.slot(i))->hash;
      for (uint64_t k = hash; s_.names[k & name_mask_].hash; ++k) s_.names[k & name_mask_].hash = 0;
    }
  }
  return status_;
}

int seal_segment(SegmentHeader &segment, uint32_t used_slots, SealScratch &scratch, ClockSample &now,
                 SealTotals *totals, uint64_t *unwritten, const SealOptions &options) {
  Sealer sealer(segment, scratch, totals, options);
  int status = sealer.run(segment.first_slot.load(std::memory_order_acquire), used_slots, now);
  if (unwritten) *unwritten = sealer.unwritten();
  return status;
}

ClockMap map_until(const SegmentHeader &segment, ClockSample &now) {
  ClockMap map;
  map.from_ticks = segment.from_ticks;
  map.from_ns = segment.from_ns;
  // A region may have begun in an epoch that is sealed.
  if (segment.from_ns > segment.start_monotonic_ns) map.reach_ns = segment.from_ns - segment.start_monotonic_ns;
  // Over a shorter span the jitter of the clock reading would distort the rate; the process's longer reference is
  // better.
  constexpr uint64_t kShortSpanNs = 50'000'000;
  if (segment.clock_kind == static_cast<uint32_t>(ClockKind::kTsc)) {
    bool is_short = now.monotonic_ns < segment.from_ns + kShortSpanNs;
    map.rate_q32 = is_short ? segment.reference_rate_q32 : rate_between({segment.from_ticks, segment.from_ns}, now);
    map.rate_before_q32 = segment.rate_before_q32;
  }
  now.monotonic_ns = map.to_ns(now.ticks);
  return map;
}

void empty_segment(SegmentHeader &segment, const ClockSample &now, uint64_t rate_q32, uint32_t tid, uint32_t above) {
  segment.from_ticks = now.ticks;
  segment.from_ns = now.monotonic_ns;
  segment.rate_before_q32 = rate_q32;
  segment.until_ticks = segment.until_ns = 0;
  segment.first_tid = tid;
  uint32_t epoch = segment.epoch.load(std::memory_order_relaxed);
  uint32_t next = (epoch > above ? epoch : above) + 1;
  if (next >> 16 != epoch >> 16) {
    // The marks' 16 bits wrap around: records of an old epoch of the same number must not be valid.
    memset(static_cast<void *>(segment.slot(0)), 0,
           segment.allocated_slots.load(std::memory_order_relaxed) * sizeof(Slot));
    if ((next & 0xFFFF) == 0) ++next;
  }
  // In this order: an execve between the two leaves an empty segment, not one whose records are to be sealed again.
  segment.epoch.store(next, std::memory_order_release);
  segment.first_slot.store(0, std::memory_order_release);
}

}  // namespace tailrace
