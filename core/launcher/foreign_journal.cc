// See foreign_journal.h.
#include "foreign_journal.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "files.h"
#include "format/path_patterns.h"
#include "format/tags.h"
#include "name_key.h"

namespace tailrace::launcher {
namespace {

std::string stem_of(const std::string &host, int pid, uint64_t start_ns) {
  char text[400];
  Writer w(text, sizeof text);
  write_process_stem(w, host, pid, start_ns);
  return std::string(w.view());
}

std::string numbered(const std::string &stem, uint32_t number) { return stem + "." + std::to_string(number) + ".tj"; }

bool is_of(const SegmentHeader &s, int pid, uint64_t start_ns) {
  return s.magic == kJournalMagic && s.version == kJournalVersion && s.slots == kSegmentSlots && s.pid == pid &&
         s.start_realtime_ns == start_ns;
}

// Null where the file is not there or shorter.
SegmentHeader *map_file(const std::string &path, size_t bytes) {
  const Descriptor fd(::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC));
  struct stat status;
  if (!fd.is_open() || ::fstat(fd.get(), &status) != 0 || status.st_size < static_cast<off_t>(bytes)) return nullptr;
  void *map = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  return map == MAP_FAILED ? nullptr : static_cast<SegmentHeader *>(map);
}

// As the core's recorded_name() (session/record.cc).
std::string recorded_file(const NameHasher &hasher, const FileName &name) {
  if (!hasher.is_on()) return name.path;
  std::vector<char> room(kPathBytes);
  Writer w(room.data(), room.size());
  const FileType type = name.identity.type;
  const bool is_hidden = NameHasher::is_public(name.path) && !is_machine_file(name.path);
  hasher.write_file(w, name.path, is_hidden ? FileType::kNone : type);
  return std::string(w.view());
}

// Numbers of contexts that a program of the process with the core in it has not reached.
constexpr uint32_t kFirstContext = 1U << 30;

}  // namespace

ForeignJournal::~ForeignJournal() {
  if (segment_ != nullptr) ::munmap(segment_, segment_bytes(kSegmentSlots));
  if (first_ != nullptr) ::munmap(first_, kSegmentHeaderBytes);
  if (scratch_ != nullptr) free_seal_scratch(scratch_);
}

// As session/ledger.cc begins that of a program that another one of the process executed.
bool ForeignJournal::adopt_ledger(const std::string &stem, int pid, const EarlierImage &earlier) {
  for (uint32_t i = 0; i < earlier.segments && first_ == nullptr; ++i) {
    auto *s = map_file(numbered(stem, i), kSegmentHeaderBytes);
    if (s == nullptr) continue;
    if (is_of(*s, pid, earlier.start_ns) && s->ledger.known != 0) {
      first_ = s;
    } else {
      ::munmap(s, kSegmentHeaderBytes);
    }
  }
  if (first_ == nullptr) return false;
  Ledger &l = first_->ledger;
  for (int way = 0; way < 2; ++way) {
    l.done[way] += l.left[way].load();
    l.base[way] = l.own[way] = l.reaped[way] = l.left[way] = 0;
  }
  l.ahead_before += l.ahead_left.load();
  l.ahead = l.ahead_left = l.base_loaded = l.loaded = 0;
  l.executing = kNoExecution;
  return l.is_known();
}

// The segment of the thread that executed the program, which nobody writes to any more.
bool ForeignJournal::adopt_segment(const std::string &path, int pid, const EarlierImage &earlier) {
  const size_t bytes = segment_bytes(kSegmentSlots);
  const Descriptor fd(::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC));
  if (!fd.is_open() || ::posix_fallocate(fd.get(), 0, static_cast<off_t>(bytes)) != 0) return false;
  auto *s = map_file(path, bytes);
  if (s == nullptr) return false;
  const auto holding = s->holding.load();
  const bool is_free = holding == kHeld && s->sealed_itself.load() != kNow;
  if (!is_of(*s, pid, earlier.start_ns) || !is_free) {
    ::munmap(s, bytes);
    return false;
  }
  s->allocated_slots.store(kSegmentSlots);
  s->left.store(0);
  const auto epoch = static_cast<uint16_t>(s->epoch.load());
  used_ = kSegmentSlots;
  while (used_ > 0 && mark_epoch(s->slot(used_ - 1)->mark.load(std::memory_order_relaxed)) != epoch) --used_;
  if (used_ == 0) s->first_slot.store(0);
  segment_ = s;
  tid_ = 0;  // the next record says whose it is
  return true;
}

bool ForeignJournal::make_segment(const std::string &path, int pid, const std::string &trace) {
  const size_t bytes = segment_bytes(kSegmentSlots);
  const Descriptor fd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd.is_open()) return false;
  const bool has_room = ::posix_fallocate(fd.get(), 0, static_cast<off_t>(bytes)) == 0;
  auto *s = has_room ? map_file(path, bytes) : nullptr;
  if (s == nullptr) {
    ::unlink(path.c_str());
    return false;
  }
  s->version = kJournalVersion;
  s->slots = kSegmentSlots;
  s->allocated_slots.store(kSegmentSlots);
  s->pid = pid;
  s->pid_namespace = pid_namespace();
  s->clock_kind = static_cast<uint32_t>(place_.clock.kind);
  s->detail = static_cast<uint32_t>(place_.detail.kind);
  s->detail_budget = place_.detail.budget_bytes;
  s->first_tid = static_cast<uint32_t>(pid);
  s->epoch.store(1);
  s->host_bytes = static_cast<uint32_t>(place_.host.size());
  std::memcpy(s->host, place_.host.data(), place_.host.size());
  s->path_bytes = static_cast<uint32_t>(trace.size());
  std::memcpy(s->trace_path, trace.c_str(), trace.size() + 1);
  segment_ = s;
  tid_ = pid;
  return true;
}

void ForeignJournal::begin_times(const ClockSample &now, uint64_t start_ns) {
  SegmentHeader &s = *segment_;
  s.start_realtime_ns = start_ns;
  s.start_monotonic_ns = s.from_ns = now.monotonic_ns;
  s.from_ticks = now.ticks;
  s.reference_rate_q32 = s.rate_before_q32 = rate_between(place_.clock.sample, now);
}

bool ForeignJournal::begin(int pid, const std::string &tags, const EarlierImage &earlier) {
  const std::string before = place_.directory + "/" + stem_of(place_.host, pid, earlier.start_ns);
  if (earlier.start_ns != 0 && adopt_segment(numbered(before, earlier.mine), pid, earlier)) {
    has_account_ = adopt_ledger(before, pid, earlier);
    set_tags(tags);
    return true;
  }
  const ClockSample now = sample_clock(place_.clock.kind);
  const uint64_t start_ns = realtime_at(now.monotonic_ns);
  const std::string stem = stem_of(place_.host, pid, start_ns);
  const std::string trace = place_.trace_directory + "/" + stem + ".pfw.gz";
  if (trace.size() >= sizeof segment_->trace_path || place_.host.size() >= sizeof segment_->host) return false;
  if (!make_segment(numbered(place_.directory + "/" + stem, 0), pid, trace)) return false;
  begin_times(now, start_ns);
  segment_->magic.store(kJournalMagic, std::memory_order_release);
  set_tags(tags);
  return true;
}

void ForeignJournal::set_tags(const std::string &tags) {
  if (context_ != 0 && tags == tags_) return;
  tags_ = tags;
  context_ = context_ == 0 ? kFirstContext : context_ + 1;
  context_written_ = false;
}

void ForeignJournal::seal() {
  if (scratch_ == nullptr) scratch_ = make_seal_scratch();
  ClockSample now = sample_clock(place_.clock.kind);
  uint64_t unwritten = used_;
  segment_->sealed_itself.store(kNow, std::memory_order_release);
  const int status = scratch_ != nullptr ? seal_segment(*segment_, used_, *scratch_, now, nullptr, &unwritten) : -1;
  if (status < 0) segment_->lost[static_cast<int>(Loss::kNotWritten)].fetch_add(unwritten);
  ClockSample end = now;
  empty_segment(*segment_, now, map_until(*segment_, end).rate_q32, static_cast<uint32_t>(tid_));
  segment_->sealed_itself.store(kBefore, std::memory_order_release);
  used_ = 0;
  names_.clear();
  waits_.clear();
  context_written_ = false;
}

Slot *ForeignJournal::reserve(uint32_t slots) {
  if (used_ + slots > kSegmentSlots) return nullptr;
  used_ += slots;
  return segment_->slot(used_ - slots);
}

bool ForeignJournal::add_text(RecordKind kind, const HeadSlot &head, const std::string &text) {
  Slot *slots = reserve(1 + text_slots(text.size()));
  if (slots == nullptr) return false;
  write_text_record(slots, kind, static_cast<uint16_t>(segment_->epoch.load()), head, text);
  return true;
}

uint64_t ForeignJournal::recorded_hash(const FileName &name) const {
  return place_.hasher.is_on() ? place_.hasher.file_hash(name.hash) : name.hash;
}

bool ForeignJournal::add_name(const FileName &name, const std::string &recorded) {
  if (names_.count(name.hash) != 0) return true;
  HeadSlot head{};
  head.id = static_cast<uint32_t>(name.identity.type);
  head.hash = recorded_hash(name);
  head.dev = name.identity.dev;
  head.ino = name.identity.ino;
  head.btime_ns = name.identity.btime_ns;
  head.block_bytes = name.identity.block_bytes;
  head.is_summed = is_left_to_totals(name.path, place_.included, place_.excluded);
  return add_text(kNameRecord, head, recorded) && names_.insert(name.hash).second;
}

bool ForeignJournal::add_context() {
  HeadSlot head{};
  head.id = context_;
  return context_written_ || (context_written_ = add_text(kContextRecord, head, recorded_tags(place_.hasher, tags_)));
}

Slot *ForeignJournal::add(int tid, const Record &record, const std::string *members, const ProcessTime *time) {
  const size_t most_tags = place_.hasher.is_on() ? kMaxTagsBytes : tags_.size();
  uint32_t wanted = 5 + text_slots(most_tags) + (members == nullptr ? 0 : 1 + text_slots(members->size()));
  const FileName *files[] = {record.file, record.file2};
  std::string names[2];
  for (int i = 0; i < 2; ++i) {
    if (files[i] == nullptr) continue;
    names[i] = recorded_file(place_.hasher, *files[i]);
    wanted += 1 + text_slots(names[i].size());
  }
  if (used_ + wanted > kSegmentSlots) seal();
  if (tid != tid_) {
    tid_ = tid;
    if (auto *head = reinterpret_cast<HeadSlot *>(reserve(1))) {
      head->tid = static_cast<uint32_t>(tid);
      head->mark.store(make_mark(kThreadRecord, static_cast<uint16_t>(segment_->epoch.load())),
                       std::memory_order_release);
    }
  }
  bool whole = add_context();
  for (int i = 0; i < 2; ++i) whole = whole && (files[i] == nullptr || add_name(*files[i], names[i]));
  if (members != nullptr) whole = whole && add_text(kProcessRecord, HeadSlot{}, *members);
  if (time != nullptr) {
    if (auto *slot = reinterpret_cast<TimeSlot *>(reserve(1))) {
      slot->t0 = record.t0;
      slot->time = *time;
      slot->mark.store(make_mark(kTimeRecord, static_cast<uint16_t>(segment_->epoch.load())),
                       std::memory_order_release);
    }
  }
  Slot *s = whole ? reserve(1) : nullptr;
  if (s == nullptr) {
    segment_->lost[static_cast<int>(Loss::kNoJournal)].fetch_add(1);
    return nullptr;
  }
  s->context = context_;
  s->t0 = record.t0;
  s->t1 = record.t1;
  s->file = record.file != nullptr ? recorded_hash(*record.file) : 0;
  s->file2 = record.file2 != nullptr ? recorded_hash(*record.file2) : record.number2;
  s->offset = record.offset;
  s->count = record.count;
  s->ret = record.ret;
  s->mark.store(make_mark(static_cast<uint16_t>(record.fn), static_cast<uint16_t>(segment_->epoch.load())),
                std::memory_order_release);
  return s;
}

void ForeignJournal::add_wait(int tid, const Record &record) {
  // As session/waits.h has them, whose ticks are those of 10 us.
  constexpr uint64_t kLongestSpanNs = 250'000'000, kLongestPauseNs = 10'000'000, kOwnLineNs = 100'000'000;
  Slot *&last = waits_[{tid, record.fn}];
  const uint64_t file = record.file != nullptr ? recorded_hash(*record.file) : 0, ticks = record.t1 - record.t0;
  const bool joins = last != nullptr && last->context == context_ && last->file == file &&
                     last->count == record.count && ns_in(record.t0 - last->t1) <= kLongestPauseNs &&
                     ns_in(record.t1 - last->t0) <= kLongestSpanNs && ns_in(ticks) < kOwnLineNs;
  if (joins) {
    ++last->file2;  // blocked_calls()
    last->offset += static_cast<int64_t>(ticks);
    last->t1 = record.t1;
    return;
  }
  Slot *slot = add(tid, record);
  waits_[{tid, record.fn}] = slot;  // sealing forgets them
}

}  // namespace tailrace::launcher
