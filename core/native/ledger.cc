// Binds the coverage ledger (accounts.h) and the table of causes. Rows are tuples, in the order that _native.pyi says.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include "accounts.h"
#include "causes.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace tailrace::native {
namespace {

template <typename T>
T at(const nb::tuple &row, size_t i, T fallback) {
  const nb::handle value = row[i];
  return value.is_none() ? fallback : nb::cast<T>(value);
}

std::optional<int64_t> number_at(const nb::tuple &row, size_t i) {
  return row[i].is_none() ? std::nullopt : std::optional(nb::cast<int64_t>(row[i]));
}

std::optional<Counts2> counts_at(const nb::tuple &row, size_t i) {
  const auto read = number_at(row, i), written = number_at(row, i + 1);
  return read && written ? std::optional(Counts2{*read, *written}) : std::nullopt;
}

AccountedProcess process_of(const nb::tuple &row) {
  AccountedProcess out;
  out.life.host = at<std::string>(row, 0, "");
  out.life.pid = at<int64_t>(row, 1, 0);
  out.start = at<std::string>(row, 2, "");
  out.life.ppid = number_at(row, 3);
  out.exe = at<std::string>(row, 4, "");
  out.life.begin = at<int64_t>(row, 5, 0);
  out.life.end = at<int64_t>(row, 6, out.life.begin);
  out.take_exit(at<std::string>(row, 7, ""));
  out.take_ledger(at<std::string>(row, 8, ""));
  out.take_start(at<std::string>(row, 9, ""));
  out.captured = {at<int64_t>(row, 10, 0), at<int64_t>(row, 11, 0)};
  out.is_lossy = nb::cast<bool>(row[12]);
  out.cut_off = at<std::string>(row, 13, "");
  out.gave_way = nb::cast<bool>(row[14]);
  return out;
}

SeenEnd end_of(const nb::tuple &row) {
  return {at<int64_t>(row, 0, -1), at<std::string>(row, 1, ""), at<int64_t>(row, 2, 0),
          at<int64_t>(row, 3, 0),  at<int64_t>(row, 4, 0),      at<int64_t>(row, 5, 0)};
}

AccountedWait wait_of(const nb::tuple &row) {
  const ProcessorTimes time{number_at(row, 9), number_at(row, 10), number_at(row, 11)};
  return {end_of(row), counts_at(row, 6), at<int64_t>(row, 8, 0), time};
}

FoundObstacle obstacle_of(const nb::tuple &row) {
  return {at<std::string>(row, 0, ""), at<int64_t>(row, 1, 0),      at<int64_t>(row, 2, 0),
          at<std::string>(row, 3, ""), at<std::string>(row, 4, ""), at<int64_t>(row, 5, -1)};
}

template <typename Row>
std::vector<Row> all_of(nb::sequence rows, Row (*make)(const nb::tuple &)) {
  std::vector<Row> out;
  for (nb::handle row : rows) out.push_back(make(nb::cast<nb::tuple>(row)));
  return out;
}

nb::object counted(const std::optional<Counts2> &bytes, size_t way) {
  return bytes ? nb::cast((*bytes)[way]) : nb::none();
}

nb::tuple tuple_of(const AccountRow &row) {
  return nb::make_tuple(row.process, row.host, row.pid, row.exe, row.start,
                        row.source != nullptr ? nb::cast(row.source) : nb::none(), row.signal, counted(row.kernel, 0),
                        counted(row.kernel, 1), row.captured[0], row.captured[1], row.ahead, row.share, row.cause_key,
                        row.cause, row.time.run_ns, row.time.ready_ns, row.time.ready_of_ns);
}

AccountRow row_of(const nb::tuple &row) {
  AccountRow out;
  out.process = nb::cast<int64_t>(row[0]);
  out.host = at<std::string>(row, 1, "");
  out.pid = nb::cast<int64_t>(row[2]);
  out.exe = at<std::string>(row, 3, "");
  out.start = at<std::string>(row, 4, "");
  out.source = row[5].is_none() ? nullptr : "";
  out.signal = number_at(row, 6);
  out.kernel = counts_at(row, 7);
  out.captured = {nb::cast<int64_t>(row[9]), nb::cast<int64_t>(row[10])};
  out.ahead = nb::cast<int64_t>(row[11]);
  if (!row[12].is_none()) out.share = nb::cast<double>(row[12]);
  out.cause_key = at<std::string>(row, 13, "");
  out.cause = at<std::string>(row, 14, "");
  return out;
}

nb::list accounts_of(nb::sequence processes, nb::sequence waits, nb::sequence obstacles, nb::callable unreadable) {
  const auto words = [&](const AccountedWait &wait) {
    const nb::object found = unreadable(wait.end.host, wait.end.pid);
    return found.is_none() ? std::string() : nb::cast<std::string>(found);
  };
  nb::list out;
  for (const AccountRow &row :
       accounts(all_of(processes, process_of), all_of(waits, wait_of), all_of(obstacles, obstacle_of), words))
    out.append(tuple_of(row));
  return out;
}

nb::dict total_of(nb::sequence rows) {
  const AccountTotal sums = total(all_of(rows, row_of));
  nb::dict out;
  out["processes"] = sums.processes;
  out["accounted"] = sums.accounted;
  out["untraced"] = sums.untraced;
  out["left_out"] = sums.left_out;
  out["below"] = sums.below;
  out["kernel_read"] = sums.kernel[0];
  out["kernel_written"] = sums.kernel[1];
  out["captured_read"] = sums.captured[0];
  out["captured_written"] = sums.captured[1];
  out["ahead"] = sums.ahead;
  out["share"] = sums.share;
  return out;
}

nb::list causes_of(nb::sequence rows) {
  nb::list out;
  for (const CauseGroup &group : by_cause(all_of(rows, row_of))) {
    nb::list members;
    for (const size_t row : group.rows) members.append(row);
    out.append(nb::make_tuple(group.cause_key, group.cause, group.advice, group.processes, group.accounted_bytes,
                              group.missing_bytes, group.program, members));
  }
  return out;
}

nb::tuple ends_of(nb::sequence processes, nb::sequence waits, nb::callable is_untraced) {
  std::vector<EndingProcess> lives;
  for (nb::handle handle : processes) {
    const auto row = nb::cast<nb::tuple>(handle);
    EndingProcess life{
        at<std::string>(row, 0, ""), at<int64_t>(row, 1, 0), number_at(row, 2), at<int64_t>(row, 3, 0), 0,
        nb::cast<bool>(row[5]),      number_at(row, 6)};
    life.end = at<int64_t>(row, 4, life.begin);
    lives.push_back(life);
  }
  const Ends ends = match_ends(lives, all_of(waits, end_of), [&](const std::string &host, int64_t pid) {
    return nb::cast<bool>(is_untraced(host, pid));
  });
  nb::list of, went_on, unmatched;
  for (const int64_t wait : ends.of) of.append(wait);
  for (const bool is : ends.went_on) went_on.append(is);
  for (const size_t wait : ends.unmatched) unmatched.append(wait);
  return nb::make_tuple(of, went_on, unmatched);
}

nb::list cause_table() {
  nb::list out;
  for (const CauseRow &row : cause_rows())
    out.append(nb::make_tuple(std::string(row.key), std::string(row.words), std::string(row.advice)));
  return out;
}

}  // namespace

void bind_ledger(nb::module_ &m) {
  m.def("accounts", &accounts_of, "processes"_a, "waits"_a, "obstacles"_a, "unreadable"_a,
        "The rows of the coverage ledger.");
  m.def("account_total", &total_of, "rows"_a, "The sums of rows of `accounts`.");
  m.def("account_causes", &causes_of, "rows"_a, "Rows of `accounts` that are short, by cause.");
  m.def("match_ends", &ends_of, "processes"_a, "waits"_a, "is_untraced"_a, "Matches processes with waits.");
  m.def("causes", &cause_table, "The table of causes: key, words, advice.");
  m.def("journal_reason", &journal_reason, "fact"_a, "Why a process made no journal, by the fact, in JSON.");
  m.attr("COMPLETE_SHARE") = kCompleteShare;
}

}  // namespace tailrace::native
