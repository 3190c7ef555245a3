// The fold of events into edges: any events in two partitions, and the two combined. Eight bytes are an event; the
// first byte of all is the begin of the second partition.
#include <limits>
#include <vector>

#include "accesses.h"
#include "bursts.h"
#include "fuzz.h"

using namespace tailrace::native;
using tailrace::fuzz::require;

namespace {

constexpr size_t kEventBytes = 8, kFiles = 4;
constexpr BurstLimits kLimits{3, 3, 2, 2};
constexpr int64_t kEnds[] = {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max(),
                             std::numeric_limits<int64_t>::max() - 1, 0};

// The columns of a partition.
struct Partition {
  std::vector<int32_t> codes[kTextColumns];
  std::vector<int64_t> numbers[kNumberColumns];
  std::vector<uint32_t> bits[kBitColumns];

  Partition() {
    for (std::vector<uint32_t> &column : bits) column.push_back(0);
    for (const BitName &row : kBitNames) {
      const size_t column = row.bit >= kReads        ? kDir
                            : row.bit >= kStreamType ? kFtype
                            : row.bit >= kUpper      ? kCat
                                                     : kName;
      bits[column].push_back(row.bit);
    }
    bits[kDir].push_back(kReads | kWrites);
  }

  void add(const uint8_t *b) {
    for (size_t i = 0; i < kTextColumns; ++i) codes[i].push_back(0);
    const uint8_t wanted[kBitColumns] = {b[0], b[1], static_cast<uint8_t>(b[1] >> 4), b[2]};
    for (size_t i = 0; i < kBitColumns; ++i) codes[i].back() = static_cast<int32_t>(wanted[i] % bits[i].size());
    codes[kFile1].back() = b[3] & 3;
    codes[kFile2].back() = b[3] >> 2 & 3;
    codes[kPath].back() = b[3] >> 4 & 3;
    codes[kPath2].back() = b[3] >> 6;
    codes[kTask].back() = b[2] >> 6;
    codes[kStart].back() = b[2] >> 5 & 1;
    const int64_t end = kEnds[b[7] & 3];
    const bool extreme = (b[7] & 0x1C) == 0x1C;
    const int64_t values[kNumberColumns] = {extreme && (b[7] & 0x20) != 0 ? end : b[4],
                                            extreme && (b[7] & 0x40) != 0 ? end : b[5] & 15,
                                            extreme && (b[7] & 0x80) != 0 ? end : b[5] >> 4,
                                            b[5],
                                            b[6] - 128,
                                            b[7] >> 7,
                                            int64_t{b[6]} << 3,
                                            b[6] & 3,
                                            b[2] >> 4 & 1,
                                            extreme ? end : b[6] - 3,
                                            1,
                                            -1,
                                            -1,
                                            0};
    for (size_t i = 0; i < kNumberColumns; ++i) numbers[i].push_back(values[i]);
  }

  EventFold fold() const {
    Events events;
    events.rows = codes[0].size();
    events.files = kFiles;
    for (size_t i = 0; i < kTextColumns; ++i) events.code[i] = codes[i].data();
    for (size_t i = 0; i < kNumberColumns; ++i) events.number[i] = numbers[i].data();
    for (size_t i = 0; i < kBitColumns; ++i) {
      events.bits[i] = bits[i].data();
      events.meanings[i] = bits[i].size();
    }
    return fold_events(events, kLimits, 2);
  }
};

IntervalView view(const Intervals &rows) {
  return {rows.group.data(), rows.start.data(), rows.end.data(), rows.weight.data(), rows.group.size()};
}

// The table as a part of another, with its own actors.
struct Part {
  std::vector<int64_t> who, file;
  BurstPart part;

  Part(const EventFold &fold, size_t first_actor) {
    for (size_t i = 0; i < fold.actors.size(); ++i) who.push_back(static_cast<int64_t>(first_actor + i));
    for (size_t i = 0; i < fold.file_codes.size(); ++i) file.push_back(fold.file_codes[i]);
    const Bursts &bursts = fold.edges.bursts;
    for (size_t i = 0; i < kBurstColumns; ++i) part.bursts.column[i] = bursts.column[i].data();
    part.bursts.fresh = bursts.fresh.data();
    part.bursts.cut = bursts.cut.data();
    part.bursts.hides = bursts.hides.data();
    part.bursts.exact = bursts.exact.data();
    part.bursts.size = bursts.size();
    part.extents = view(fold.edges.extents);
    part.times = view(fold.edges.times);
    part.who = who.data();
    part.file = file.data();
  }
};

void check_intervals(const Intervals &rows, size_t groups, size_t limit) {
  size_t in_group = 0;
  for (size_t i = 0; i < rows.group.size(); ++i) {
    require(rows.group[i] >= 0 && static_cast<size_t>(rows.group[i]) < groups, "an interval is of a burst");
    const bool same = i > 0 && rows.group[i] == rows.group[i - 1];
    in_group = same ? in_group + 1 : 1;
    require(in_group <= limit, "no more intervals than the limit");
    require(i == 0 || rows.group[i] >= rows.group[i - 1], "intervals are in the order of their groups");
    require(!same || rows.start[i] > rows.start[i - 1], "and of their starts");
  }
}

int64_t check(const BurstTable &table) {
  const Bursts &bursts = table.bursts;
  int64_t calls = 0;
  size_t of_key = 0;
  for (size_t i = 0; i < bursts.size(); ++i) {
    calls += bursts.column[kCalls][i];
    bool same = i > 0;
    for (size_t column = kWho; same && column <= kDirection; ++column) {
      const int64_t before = bursts.column[column][i - 1], here = bursts.column[column][i];
      require(before <= here, "bursts are in the order of their keys");
      same = before == here;
    }
    of_key = same ? of_key + 1 : 1;
    require(of_key <= kLimits.bursts, "no more bursts than the limit");
    require(!same || bursts.column[kFirst][i - 1] <= bursts.column[kFirst][i], "and of their times");
  }
  check_intervals(table.extents, bursts.size(), kLimits.extents);
  check_intervals(table.times, bursts.size(), kLimits.times);
  return calls;
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 1) return 0;
  Partition partitions[2];
  for (size_t at = 1; at + kEventBytes <= size; at += kEventBytes) {
    partitions[at / kEventBytes < data[0] ? 0 : 1].add(data + at);
  }
  const EventFold folds[2] = {partitions[0].fold(), partitions[1].fold()};
  const Part a(folds[0], 0), b(folds[1], folds[0].actors.size());
  const BurstTable both = fold_bursts({a.part, b.part}, folds[0].actors.size() + folds[1].actors.size(), kLimits);
  require(check(both) == check(folds[0].edges) + check(folds[1].edges), "no call is lost when tables are combined");
  return 0;
}
