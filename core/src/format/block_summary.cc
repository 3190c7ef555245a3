// See format/block_summary.h.
#include "format/block_summary.h"

#include "format/event_args.h"

namespace tailrace {

void BlockSummary::clear() {
  lines_ = events_ = read_ = written_ = t1_ = 0;
  t0_ = UINT64_MAX;
  uncounted_[0] = uncounted_[1] = 0;
  totals_lines_ = totals_records_ = stacks_ = 0;
  sealing_ns_ = 0;
  contexts_.truncate(0);
  reaped_.truncate(0);
  untraced_.truncate(0);
  process_ = exit_ = cut_off_ = {};
}

void BlockSummary::add_event(const Function &f, uint64_t t0_ns, uint64_t t1_ns, int64_t size) {
  ++lines_, ++events_;
  if (t0_ns < t0_) t0_ = t0_ns;
  if (t1_ns > t1_) t1_ = t1_ns;
  if (f.above) return;
  bool uncounted = f.uncounted;
  auto bytes = static_cast<uint64_t>(size);
  if (f.direction == Direction::R || f.direction == Direction::RW) read_ += bytes, uncounted_[0] += bytes * uncounted;
  if (f.direction == Direction::W || f.direction == Direction::RW) {
    written_ += bytes, uncounted_[1] += bytes * uncounted;
  }
}

// Tags need no escapes in JSON, so their quoted form can be searched for as it is.
void BlockSummary::add_context(string_view tags) {
  size_t before = contexts_.size();
  contexts_.json(tags);
  string_view all = contexts_.view();
  string_view quoted = slice(all, before, all.size() - before);
  bool listed = slice(all, 0, before).find(quoted) != string_view::npos;
  contexts_.truncate(before);
  if (listed) return;
  if (before) contexts_ << ',';
  contexts_.json(tags);
}

// [pid, status, rchar, wchar, kind, own, run_ns, ready_ns, ready_of_ns]: what could not be read is null. kind and own
// are what the process knew of the child. From the end on, what is null or 0 behind wchar is left out.
void BlockSummary::add_reaped(const Slot &slot, const ProcessTime &time) {
  if (slot.ret <= 0) return;
  const WaitedChild child = waited_child(slot.count);
  const bool moved = slot.offset >= 0;
  const int64_t numbers[] = {slot.ret,
                             child.status,
                             moved ? slot.offset : -1,
                             moved ? static_cast<int64_t>(slot.file2) : -1,
                             child.kind,
                             child.own_bytes,
                             time.run_ns,
                             time.ready_ns,
                             time.ready_of_ns};
  size_t n = sizeof numbers / sizeof numbers[0];
  while (n > 4 && numbers[n - 1] <= 0) --n;
  Writer &w = reaped_;
  w << (w.size() ? ",[" : "[");
  for (size_t i = 0; i < n; ++i) {
    if (i) w << ',';
    numbers[i] < 0 ? w << "null" : w.number(numbers[i]);
  }
  w << ']';
}

// [pid, why, program].
void BlockSummary::add_untraced(int64_t pid, Obstacle obstacle, string_view program) {
  Writer &w = untraced_;
  size_t before = w.size();
  w << (before ? ",[" : "[");
  w.number(pid) << ",\"" << kObstacleNames[static_cast<int>(obstacle)] << "\",";
  w.json(program) << ']';
  if (w.overflowed()) w.truncate(before);
}

void BlockSummary::set_process(string_view members) {
  Writer w(room_.process, sizeof room_.process);
  w << members;
  process_ = w.overflowed() ? string_view() : w.view();
}

string_view BlockSummary::set_exit(int64_t code, string_view account) {
  Writer w(room_.exit, sizeof room_.exit);
  w << "\"code\":";
  w.number(code);
  if (!account.empty() && account.size() + 1 < w.room()) w << ',' << account;
  exit_ = w.view();
  return exit_;
}

// What is compared with the kernel's account of a process that reported none itself (session/ledger.h).
static void write_ledger(Writer &h, const Ledger &l) {
  auto pair = [&](const char *key, const std::atomic<uint64_t> *n) {
    h << key;
    h.number(static_cast<int64_t>(n[0].load())) << ',';
    h.number(static_cast<int64_t>(n[1].load())) << ']';
  };
  pair(",\"ledger\":{\"base\":[", l.base);
  pair(",\"own\":[", l.own);
  pair(",\"reaped\":[", l.reaped);
  pair(",\"done\":[", l.done);
  h << ",\"ahead\":";
  h.number(l.ahead) << ",\"loaded\":";
  // Unsigned: a journal may hold anything.
  auto u = [](const std::atomic<int64_t> &n) { return static_cast<uint64_t>(n.load(std::memory_order_relaxed)); };
  h.number(static_cast<int64_t>(u(l.loaded) - u(l.base_loaded)));
  if (l.unseen_ring.load(std::memory_order_relaxed)) h << ",\"ring\":1";
  if (const int64_t n = l.ahead_before.load(std::memory_order_relaxed)) (h << ",\"ahead_before\":").number(n);
  if (const uint32_t how = l.executing.load(std::memory_order_relaxed)) (h << ",\"executing\":").number(how);
  if (const uint32_t n = l.untaken.load(std::memory_order_relaxed)) (h << ",\"untaken\":").number(n);
  h << '}';
}

void BlockSummary::write(Writer &h, const SegmentHeader &segment,
                         const uint64_t (&lost)[static_cast<int>(Loss::kCount)], size_t deflate_bytes, size_t raw_bytes,
                         uint32_t next_slot) const {
  auto number = [&](const char *key, uint64_t v) { h << ",\"" << key << "\":", h.number(static_cast<int64_t>(v)); };
  h << "{\"v\":2";
  number("comp", deflate_bytes);
  number("raw", raw_bytes);
  number("lines", lines_);
  number("events", events_);
  number("t0", events_ ? t0_ : 0);
  number("t1", t1_);
  number("pid", static_cast<uint64_t>(segment.pid));
  h << ",\"start\":\"";
  h.short_hex(segment.start_realtime_ns) << "\",\"host\":";
  h.json(segment.host_name());
  number("mono", segment.start_monotonic_ns);
  if (!run_.empty()) h << ",\"run\":\"" << run_ << '"';
  number("seg", segment.segment);
  number("epoch", segment.epoch.load(std::memory_order_relaxed));
  number("slots", next_slot);
  number("block", segment.blocks.load(std::memory_order_relaxed));
  // Of one width, so that a block that is written twice has the same length.
  constexpr uint64_t kMostNs = 1'000'000'000'000;
  if (sealing_ns_ && sealing_ns_ < kMostNs) {
    char digits[24];
    size_t n = static_cast<size_t>(put_decimal(digits, sealing_ns_) - digits);
    h << (by_process_ ? ",\"self_sealing\":" : ",\"sealing\":") << slice("            ", n, 12 - n)
      << string_view(digits, n);
  }
  number("read", read_);
  number("written", written_);
  if (totals_lines_) {
    h << ",\"totals\":[";
    h.number(static_cast<int64_t>(totals_lines_)) << ',';
    h.number(static_cast<int64_t>(totals_records_)) << ']';
  }
  if (stacks_) number("stacks", stacks_);
  if (uncounted_[0] || uncounted_[1]) {
    h << ",\"uncounted\":[";
    h.number(static_cast<int64_t>(uncounted_[0])) << ',';
    h.number(static_cast<int64_t>(uncounted_[1])) << ']';
  }
  // An empty one takes back those of earlier blocks.
  if (segment.ledger.is_known())
    write_ledger(h, segment.ledger);
  else if (segment.ledger.known != kNotHere)
    h << ",\"ledger\":{}";
  if (has_cut_off()) h << ",\"cut_off\":\"" << cut_off_ << '"';
  if (reaped_.size()) h << ",\"reaped\":[" << reaped_.view() << ']';
  if (untraced_.size()) h << ",\"untraced\":[" << untraced_.view() << ']';
  h << ",\"contexts\":[" << contexts_.view() << ']';
  bool any = false;
  for (int i = 0; i < static_cast<int>(Loss::kCount); ++i) {
    if (!lost[i]) continue;
    h << (any ? "," : ",\"lost\":{") << '"' << kLossNames[i] << "\":";
    h.number(static_cast<int64_t>(lost[i]));
    any = true;
  }
  if (any) h << '}';
  // The line in the block has it anyway.
  bool fits = process_.size() + kExitBytes + 64 < h.room();
  if (!process_.empty() && fits) h << ",\"process\":{" << process_ << '}';
  if (!exit_.empty()) h << ",\"exit\":{" << exit_ << '}';
  h << '}';
}

}  // namespace tailrace
