// See bursts.h. Rows are assigned to their actors by counting, and sorted within an actor. In partial tables an actor's
// rows are contiguous, so that sorting and summing touch few pages of each at a time.
#include "bursts.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace tailrace::native {

namespace {

constexpr int64_t kFirstOfKey = std::numeric_limits<int64_t>::max();
constexpr int64_t kTruncation = kFirstOfKey - 1;

// Of one actor, in the order of bursts.
struct Row {
  int64_t key;  // 2 * file + direction
  int64_t first_ns;
  Place place;
  bool stale;  // no truncation or cut: of two that begin together, that comes first

  bool operator<(const Row &o) const {
    if (key != o.key) return key < o.key;
    if (first_ns != o.first_ns) return first_ns < o.first_ns;
    if (stale != o.stale) return o.stale;
    return place < o.place;
  }
};

// Where the intervals of each row begin; one more than there are rows.
std::vector<uint32_t> bounds(const IntervalView &intervals, size_t rows) {
  std::vector<uint32_t> begin(rows + 1, 0);
  size_t at = 0;
  for (size_t row = 0; row <= rows; ++row) {
    while (at < intervals.size && static_cast<size_t>(intervals.group[at]) < row) ++at;
    begin[row] = static_cast<uint32_t>(at);
  }
  return begin;
}

// The rows that Fold reads: of accesses, and of partial tables.
class Accesses {
 public:
  explicit Accesses(const std::vector<Access> &rows) : rows_(rows) {}

  size_t size() const { return rows_.size(); }
  size_t extents() const { return rows_.size(); }
  size_t times() const { return rows_.size(); }
  void prefetch(size_t row) const { __builtin_prefetch(&rows_[row]); }

  size_t who(size_t row) const { return static_cast<size_t>(rows_[row].who); }
  int64_t file(size_t row) const { return rows_[row].file; }
  int64_t direction(size_t row) const { return rows_[row].direction; }
  int64_t first_ns(size_t row) const { return rows_[row].first_ns; }
  int64_t last_ns(size_t row) const { return rows_[row].last_ns; }
  bool fresh(size_t row) const { return rows_[row].fresh; }
  bool cut(size_t row) const { return rows_[row].cut; }
  bool hides(size_t) const { return false; }
  bool exact(size_t) const { return true; }
  void add_sums(size_t row, int64_t *sums) const {
    const Access &access = rows_[row];
    sums[kBytes] = plus(sums[kBytes], access.bytes);
    sums[kCalls] = plus(sums[kCalls], access.calls);
    sums[kMapped] = plus(sums[kMapped], access.mapped);
    if (access.offset < 0) sums[kLoose] = plus(sums[kLoose], access.bytes);
    if (access.relayed) sums[kRelayed] = plus(sums[kRelayed], access.bytes);
  }
  int64_t from(size_t row) const { return moves(row) && rows_[row].offset >= 0 ? rows_[row].offset : -1; }
  int64_t to(size_t row) const {
    const Access &access = rows_[row];
    return from(row) < 0 ? -1 : plus(access.offset, plus(access.bytes, access.mapped));
  }
  void add_extents(size_t row, IntervalSet *set) const {
    const Access &access = rows_[row];
    if (access.offset < 0) return;
    const int64_t end = plus(access.offset, plus(access.bytes, access.mapped));
    set->add({access.offset, end, minus(end, access.offset)});
  }
  void add_times(size_t row, IntervalSet *set) const {
    const Access &access = rows_[row];
    set->add({access.first_ns, access.last_ns, minus(access.last_ns, access.first_ns)});
  }

 private:
  bool moves(size_t row) const { return rows_[row].bytes > 0 || rows_[row].mapped > 0; }

  const std::vector<Access> &rows_;
};

class PartialBursts {
 public:
  explicit PartialBursts(const BurstPart &part)
      : part_(part),
        extents_at_(bounds(part.extents, part.bursts.size)),
        times_at_(bounds(part.times, part.bursts.size)) {}

  size_t size() const { return part_.bursts.size; }
  size_t extents() const { return part_.extents.size; }
  size_t times() const { return part_.times.size; }
  void prefetch(size_t) const {}  // an actor's rows are contiguous

  size_t who(size_t row) const { return static_cast<size_t>(part_.who[value(row, kWho)]); }
  int64_t file(size_t row) const { return part_.file[value(row, kFile)]; }
  int64_t direction(size_t row) const { return value(row, kDirection); }
  int64_t first_ns(size_t row) const { return value(row, kFirst); }
  int64_t last_ns(size_t row) const { return value(row, kLast); }
  bool fresh(size_t row) const { return part_.bursts.fresh[row]; }
  bool cut(size_t row) const { return part_.bursts.cut[row]; }
  bool hides(size_t row) const { return part_.bursts.hides[row]; }
  bool exact(size_t row) const { return part_.bursts.exact[row]; }
  void add_sums(size_t row, int64_t *sums) const {
    for (const BurstColumn column : {kBytes, kCalls, kLoose, kMapped, kRelayed, kBackward}) {
      sums[column] = plus(sums[column], value(row, column));
    }
  }
  int64_t from(size_t row) const { return value(row, kFrom); }
  int64_t to(size_t row) const { return value(row, kTo); }
  void add_extents(size_t row, IntervalSet *set) const { add(part_.extents, extents_at_, row, set); }
  void add_times(size_t row, IntervalSet *set) const { add(part_.times, times_at_, row, set); }

 private:
  int64_t value(size_t row, BurstColumn column) const { return part_.bursts.column[column][row]; }
  static void add(const IntervalView &from, const std::vector<uint32_t> &at, size_t row, IntervalSet *set) {
    for (size_t i = at[row]; i < at[row + 1]; ++i) set->add(from.at(i));
  }

  const BurstPart &part_;
  std::vector<uint32_t> extents_at_, times_at_;
};

template <typename Source>
class Fold {
 public:
  Fold(const std::vector<Source> &parts, const BurstLimits &limits) : parts_(parts), limits_(limits) {
    size_t rows = 0, extents = 0, times = 0;
    for (const Source &part : parts) {
      constexpr size_t kMost = std::numeric_limits<uint32_t>::max();
      if (part.size() >= kMost || part.extents() >= kMost || part.times() >= kMost) {
        throw std::length_error("a part of the edge table has 2^32 rows; make the partitions smaller");
      }
      rows += part.size();
      extents += part.extents();
      times += part.times();
    }
    out_.bursts.reserve(rows);
    out_.extents.reserve(extents);
    out_.times.reserve(times);
  }

  BurstTable run(size_t actors) {
    std::vector<size_t> begin(actors + 1, 0);
    for (const Source &part : parts_) {
      for (size_t row = 0; row < part.size(); ++row) ++begin[part.who(row) + 1];
    }
    for (size_t i = 0; i < actors; ++i) begin[i + 1] += begin[i];
    std::vector<Place> places(begin[actors]);
    std::vector<size_t> next(begin.begin(), begin.end() - 1);
    for (size_t p = 0; p < parts_.size(); ++p) {
      for (size_t row = 0; row < parts_[p].size(); ++row) {
        places[next[parts_[p].who(row)]++] = {static_cast<uint32_t>(p), static_cast<uint32_t>(row)};
      }
    }
    for (size_t i = 0; i < actors; ++i) fold_actor(i, places.data() + begin[i], places.data() + begin[i + 1]);
    return std::move(out_);
  }

 private:
  const Source &part(const Row &row) const { return parts_[row.place.part]; }

  void fold_actor(size_t who, const Place *begin, const Place *end) {
    constexpr std::ptrdiff_t kAhead = 8;
    rows_.clear();
    for (const Place *place = begin; place != end; ++place) {
      if (end - place > kAhead) parts_[place[kAhead].part].prefetch(place[kAhead].row);
      const Source &part = parts_[place->part];
      const size_t row = place->row;
      rows_.push_back(
          {2 * part.file(row) + part.direction(row), part.first_ns(row), *place, !part.fresh(row) && !part.cut(row)});
    }
    sort_rows();
    for (size_t row = 0; row < rows_.size();) {
      size_t next = row + 1;
      while (next < rows_.size() && rows_[next].key == rows_[row].key) ++next;
      fold_key(static_cast<int64_t>(who), row, next);
      row = next;
    }
  }

  // Mostly rows come in runs of one key that are in order: then runs are sorted, not rows.
  void sort_rows() {
    runs_.clear();
    for (size_t row = 0; row < rows_.size(); ++row) {
      const bool goes_on = row > 0 && rows_[row].key == rows_[row - 1].key && rows_[row - 1] < rows_[row];
      if (goes_on) {
        runs_.back().end = row + 1;
      } else {
        runs_.push_back({row, row + 1});
      }
    }
    if (runs_.size() * 8 < rows_.size()) {
      std::sort(runs_.begin(), runs_.end(), [this](Run a, Run b) { return rows_[a.begin] < rows_[b.begin]; });
      sorted_.clear();
      for (const Run &run : runs_)
        sorted_.insert(sorted_.end(), &rows_[run.begin], &rows_[run.begin] + (run.end - run.begin));
      rows_.swap(sorted_);
    }
    if (!std::is_sorted(rows_.begin(), rows_.end())) std::sort(rows_.begin(), rows_.end());
  }

  void fold_key(int64_t who, size_t begin, size_t end) {
    starts_.clear();
    int64_t upto = 0;
    for (size_t row = begin; row < end; ++row) {
      const int64_t pause = row == begin        ? kFirstOfKey
                            : !rows_[row].stale ? kTruncation
                                                : minus(rows_[row].first_ns, upto);
      if (pause > limits_.pause_ns) starts_.push_back({pause, row});
      const int64_t last = part(rows_[row]).last_ns(rows_[row].place.row);
      upto = row == begin ? last : std::max(upto, last);
    }
    if (starts_.size() > limits_.bursts) keep_longest_pauses();
    for (size_t i = 0; i < starts_.size(); ++i) {
      put_burst(who, starts_[i].row, i + 1 < starts_.size() ? starts_[i + 1].row : end);
    }
  }

  void keep_longest_pauses() {
    const auto kept_end = starts_.begin() + static_cast<std::ptrdiff_t>(limits_.bursts);
    std::nth_element(starts_.begin(), kept_end, starts_.end(), [](const Start &a, const Start &b) {
      return a.pause != b.pause ? a.pause > b.pause : a.row < b.row;
    });
    starts_.erase(kept_end, starts_.end());
    std::sort(starts_.begin(), starts_.end(), [](const Start &a, const Start &b) { return a.row < b.row; });
  }

  void put_burst(int64_t who, size_t begin, size_t end) {
    int64_t last = std::numeric_limits<int64_t>::min();
    int64_t sums[kBurstColumns] = {};
    sums[kFrom] = sums[kTo] = -1;
    bool exact = true, hides = false;
    extents_.clear();
    times_.clear();
    for (size_t row = begin; row < end; ++row) {
      const Source &source = part(rows_[row]);
      const size_t at = rows_[row].place.row;
      last = std::max(last, source.last_ns(at));
      source.add_sums(at, sums);
      if (source.from(at) >= 0) {
        if (sums[kFrom] < 0) sums[kFrom] = source.from(at);
        if (source.from(at) < sums[kTo]) sums[kBackward] = plus(sums[kBackward], 1);
        sums[kTo] = source.to(at);
      }
      exact &= source.exact(at) && (row == begin || rows_[row].stale);
      hides |= source.hides(at) || (row != begin && source.fresh(at));
      source.add_extents(at, &extents_);
      source.add_times(at, &times_);
    }
    exact &= !extents_.unite(limits_.extents);
    times_.unite(limits_.times);

    const auto number = static_cast<int64_t>(out_.bursts.size());
    out_.extents.add(number, extents_);
    out_.times.add(number, times_);
    const Row &first = rows_[begin];
    const int64_t key[] = {who, first.key / 2, first.key % 2, first.first_ns, last};
    for (size_t column = 0; column < kBytes; ++column) out_.bursts.column[column].push_back(key[column]);
    for (size_t column = kBytes; column < kBurstColumns; ++column) out_.bursts.column[column].push_back(sums[column]);
    out_.bursts.fresh.push_back(part(first).fresh(first.place.row));
    out_.bursts.hides.push_back(hides);
    out_.bursts.cut.push_back(part(first).cut(first.place.row));
    out_.bursts.exact.push_back(exact);
  }

  struct Run {
    size_t begin, end;
  };
  struct Start {
    int64_t pause;
    size_t row;
  };

  const std::vector<Source> &parts_;
  const BurstLimits limits_;
  std::vector<Row> rows_, sorted_;  // of one actor
  std::vector<Run> runs_;
  std::vector<Start> starts_;  // of one key
  IntervalSet extents_, times_;
  BurstTable out_;
};

}  // namespace

BurstTable fold_accesses(const std::vector<Access> &accesses, size_t actors, const BurstLimits &limits) {
  const std::vector<Accesses> sources{Accesses(accesses)};
  return Fold<Accesses>(sources, limits).run(actors);
}

BurstTable fold_bursts(const std::vector<BurstPart> &parts, size_t actors, const BurstLimits &limits) {
  const std::vector<PartialBursts> sources(parts.begin(), parts.end());
  return Fold<PartialBursts>(sources, limits).run(actors);
}

}  // namespace tailrace::native
