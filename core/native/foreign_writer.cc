// See foreign_writer.h.
#include "foreign_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <utility>

#include "format/block.h"
#include "format/functions.h"
#include "inflate.h"
#include "json.h"
#include "saturating.h"
#include "trace_file.h"

namespace tailrace::native {

namespace {

constexpr size_t kBlockBytes = 1 << 20;
constexpr size_t kOpenBytes = 64 << 20;
constexpr size_t kMaxContextBytes = 32 << 10;  // of a header's list; a header has 60 KiB
constexpr size_t kMaxFactBytes = 16 << 10;
constexpr size_t kNameBytes = 160;  // of an entry of a table, without its characters

void put_number(int64_t value, std::string *out) {
  char text[24];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  out->append(text, static_cast<size_t>(end - text));
}

void put_member(const char *key, int64_t value, std::string *out) {
  out->append(key);
  put_number(value, out);
}

// 16 hex digits of a file's number.
void put_hash(const char *key, int32_t file, std::string *out) {
  out->append(key);
  char digits[16];
  for (int i = 0; i < 16; ++i) digits[15 - i] = "0123456789abcdef"[static_cast<uint64_t>(file) >> 4 * i & 15];
  out->append(digits, sizeof digits);
  out->push_back('"');
}

// Absent in the line where a reader takes `told` for it; null where it does not exist.
void put_told(const char *key, const std::optional<int64_t> &value, bool is_told, int64_t told, std::string *out) {
  if (is_told && value && *value == told) return;
  if (!value && !is_told) return;
  out->append(key);
  if (value) {
    put_number(*value, out);
  } else {
    out->append("null");
  }
}

bool is_above_libc(std::string_view category) {
  for (const CategoryRow &row : kCategories) {
    if (std::string_view(row.name.data(), row.name.size()) == category) return (row.traits & trait::kUpper) != 0;
  }
  constexpr std::string_view kOthers[] = {"MPI", "NETCDF", "PNETCDF", "ADIOS", "ADIOS2"};
  return std::find(std::begin(kOthers), std::end(kOthers), category) != std::end(kOthers);
}

constexpr uint64_t kMost = 1ULL << 53;  // of a count in a header

}  // namespace

void put_json(std::string_view text, std::string *out) {
  std::string scratch;
  text = clean_utf8(text, &scratch);
  out->push_back('"');
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out->push_back('\\');
      out->push_back(c);
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(static_cast<unsigned char>(c)));
      out->append(escaped);
    } else {
      out->push_back(c);
    }
  }
  out->push_back('"');
}

ForeignWriter::ForeignWriter(std::string path) : path_(std::move(path)) {
  fd_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd_ < 0) throw TraceFault(path_ + ": can't be made: " + std::strerror(errno));
  context("", "");
}

ForeignWriter::~ForeignWriter() {
  if (fd_ >= 0) close(fd_);
}

int32_t ForeignWriter::process(std::string_view host, int64_t pid, std::string_view start, std::string_view facts) {
  std::string key(host);
  key.append("\0", 1).append(start).append("\0", 1).append(std::to_string(pid));
  const auto [at, is_new] = process_numbers_.emplace(key, static_cast<int32_t>(processes_.size()));
  if (is_new) {
    processes_.emplace_back();
    Process &made = processes_.back();
    made.host = host;
    made.start = start;
    made.pid = pid;
    names_bytes_ += sizeof(Process) + key.size() + kNameBytes;
  }
  if (!facts.empty()) set_facts(at->second, facts);
  return at->second;
}

void ForeignWriter::set_facts(int32_t process, std::string_view facts) {
  if (facts.size() <= kMaxFactBytes) processes_.at(static_cast<size_t>(process)).facts = facts;
}

int32_t ForeignWriter::file(std::string_view path, std::string_view type) {
  std::string key(type);
  key.append("\0", 1).append(path);
  const auto [at, is_new] = file_numbers_.emplace(key, static_cast<int32_t>(files_.size()));
  if (is_new) {
    std::string line = ",\"args\":{\"name\":";
    put_json(path, &line);
    put_hash(",\"value\":\"", at->second, &line);
    if (!type.empty()) {
      line.append(",\"type\":");
      put_json(type, &line);
    }
    line.append("}}\n");
    names_bytes_ += key.size() + line.size() + kNameBytes;
    files_.push_back(std::move(line));
  }
  return at->second;
}

int32_t ForeignWriter::context(std::string_view tags, std::string_view members) {
  const auto [at, is_new] = context_numbers_.emplace(std::string(tags), static_cast<int32_t>(contexts_.size()));
  if (is_new) {
    contexts_.push_back({std::string(tags), std::string(members)});
    names_bytes_ += tags.size() * 2 + members.size() + kNameBytes;
  }
  return at->second;
}

void ForeignWriter::define(Process &process, int32_t file) {
  const auto at = static_cast<size_t>(file);
  const std::string &line = files_.at(at);
  if (process.defined.size() <= at / 64) process.defined.resize(at / 64 + 1);
  uint64_t &word = process.defined[at / 64];
  if ((word >> at % 64 & 1) != 0) return;
  word |= 1ULL << at % 64;
  process.text.append("{\"name\":\"FH\",\"cat\":\"tailrace\",\"ph\":\"M\",\"pid\":");
  put_number(process.pid, &process.text);
  process.text.append(",\"tid\":");
  put_number(process.pid, &process.text);
  process.text.append(line);
  ++process.lines;
}

void ForeignWriter::event(int32_t number, const ForeignEvent &e) {
  Process &process = processes_.at(static_cast<size_t>(number));
  const size_t before = process.text.size();
  if (e.file >= 0) define(process, e.file);
  if (e.file2 >= 0) define(process, e.file2);
  std::string &out = process.text;
  out.append("{\"name\":");
  put_json(e.name, &out);
  out.append(",\"cat\":");
  put_json(e.cat, &out);
  put_member(",\"ph\":\"X\",\"pid\":", process.pid, &out);
  put_member(",\"tid\":", e.tid, &out);
  const int64_t ts = std::max<int64_t>(e.ts_ns, 0), dur = std::max<int64_t>(e.dur_ns, 0);
  put_member(",\"ts\":", ts / 1000, &out);
  put_member(",\"dur\":", dur / 1000, &out);
  const auto rest = static_cast<int>(dur % 1000);
  // '.' is '0' - 2.
  for (const int digit : {-2, rest / 100, rest / 10 % 10, rest % 10}) out.push_back(static_cast<char>('0' + digit));
  put_member(",\"args\":{\"ns\":", ts % 1000, &out);
  if (e.file >= 0) put_hash(",\"fhash\":\"", e.file, &out);
  if (e.file2 >= 0) put_hash(",\"fhash2\":\"", e.file2, &out);
  const bool in_totals = e.lines > 1 || e.calls > 1;
  if (e.offset) put_member(",\"offset\":", *e.offset, &out);
  if (e.size) put_member(",\"size\":", *e.size, &out);
  if (e.error) put_member(",\"errno\":", *e.error, &out);
  const bool tells = e.size && !in_totals;
  if (e.error) {
    put_told(",\"ret\":", e.ret, true, -1, &out);
  } else {
    put_told(",\"ret\":", e.ret, tells, e.size.value_or(0), &out);
  }
  put_told(",\"count\":", e.count, tells, e.size.value_or(0), &out);
  const Direction told = told_direction(string_view(e.name.data(), e.name.size()));
  const std::string_view told_text = !e.size || told == Direction::N ? "" : told == Direction::W ? "w" : "r";
  if (e.direction != told_text) {
    out.append(",\"dir\":");
    if (e.direction.empty()) {
      out.append("null");
    } else {
      put_json(e.direction, &out);
    }
  }
  if (e.flags) put_member(",\"flags\":", *e.flags, &out);
  if (in_totals) {
    put_member(",\"calls\":", e.calls, &out);
    put_member(",\"lines\":", e.lines, &out);
    put_member(",\"span\":", std::max(e.span_ns, int64_t{0}), &out);
    put_member(",\"last\":", std::max(e.span_ns, int64_t{0}), &out);
  }
  out.append(e.more);
  out.append(contexts_.at(static_cast<size_t>(e.context)).members);
  out.append("}}\n");

  const int64_t end = plus(ts, in_totals ? std::max<int64_t>(e.span_ns, 0) : dur);
  process.t0 = process.began ? std::min(process.t0, ts) : ts;
  process.t1 = process.began ? std::max(process.t1, end) : end;
  process.began = true;
  ++process.lines;
  ++process.events;
  if (in_totals) {
    ++process.totals;
    process.totals_calls = std::min(kMost, process.totals_calls + static_cast<uint64_t>(e.lines));
  }
  if (e.size && *e.size > 0 && !is_above_libc(e.cat)) {
    const auto size = std::min(kMost, static_cast<uint64_t>(*e.size));
    if (e.direction.find('r') != std::string_view::npos) process.read = std::min(kMost, process.read + size);
    if (e.direction.find('w') != std::string_view::npos) process.written = std::min(kMost, process.written + size);
  }
  if (std::find(process.contexts.begin(), process.contexts.end(), e.context) == process.contexts.end()) {
    process.contexts.push_back(e.context);
    process.context_bytes += 2 * contexts_[static_cast<size_t>(e.context)].tags.size() + 8;
  }
  ++sums_.events;
  sums_.calls += static_cast<uint64_t>(e.lines);
  open_bytes_ += process.text.size() - before;
  if (process.text.size() >= kBlockBytes || process.context_bytes >= kMaxContextBytes) write(process);
  if (open_bytes_ >= kOpenBytes) write_all();
}

void ForeignWriter::write_all() {
  for (Process &process : processes_) write(process);
}

void ForeignWriter::write(Process &process) {
  if (process.events == 0) return;
  std::string header = "{\"v\":2,\"raw\":";
  put_number(static_cast<int64_t>(process.text.size()), &header);
  put_member(",\"lines\":", static_cast<int64_t>(process.lines), &header);
  put_member(",\"events\":", static_cast<int64_t>(process.events), &header);
  put_member(",\"t0\":", process.t0, &header);
  put_member(",\"t1\":", process.t1, &header);
  header.append(",\"host\":");
  put_json(process.host, &header);
  put_member(",\"pid\":", process.pid, &header);
  header.append(",\"start\":");
  put_json(process.start, &header);
  put_member(",\"seg\":0,\"epoch\":", static_cast<int64_t>(process.blocks++), &header);
  put_member(",\"slots\":", static_cast<int64_t>(process.events), &header);
  put_member(",\"read\":", static_cast<int64_t>(process.read), &header);
  put_member(",\"written\":", static_cast<int64_t>(process.written), &header);
  if (process.totals > 0) {
    put_member(",\"totals\":[", static_cast<int64_t>(process.totals), &header);
    put_member(",", static_cast<int64_t>(process.totals_calls), &header);
    header.append("]");
  }
  header.append(",\"contexts\":[");
  for (size_t i = 0; i < process.contexts.size(); ++i) {
    if (i > 0) header.push_back(',');
    put_json(contexts_[static_cast<size_t>(process.contexts[i])].tags, &header);
  }
  header.append("]");
  if (!process.facts.empty()) header.append(",\"process\":").append(process.facts);
  // Between the two lies the deflate stream's size, which is known last.
  const size_t room = kFrameBytes + header.size() + 40 + kHeaderCheckBytes;
  const size_t bound = deflate_bound(process.text.size());
  member_.resize(room + bound + kGzipTrailerBytes);
  const size_t deflated = deflate_fast(reinterpret_cast<const uint8_t *>(process.text.data()), process.text.size(),
                                       member_.data() + room, bound);
  put_member(",\"comp\":", static_cast<int64_t>(deflated), &header);
  header.append("}");
  if (header.size() > kMaxHeaderBytes) throw TraceFault(path_ + ": a block's header is longer than the format allows");
  const uint32_t crc = crc32_of(reinterpret_cast<const uint8_t *>(process.text.data()), process.text.size());
  const string_view member = frame_member(reinterpret_cast<char *>(member_.data()) + room, deflated,
                                          string_view(header.data(), header.size()), crc, process.text.size());
  const char *at = member.data();
  size_t left = member.size();
  while (left > 0) {
    const ssize_t n = ::write(fd_, at, left);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw TraceFault(path_ + ": can't be written: " + std::strerror(n < 0 ? errno : ENOSPC));
    at += n;
    left -= static_cast<size_t>(n);
  }
  sums_.read += process.read;
  sums_.written += process.written;
  const bool first = sums_.t1 == 0;
  sums_.t0 = first ? process.t0 : std::min(sums_.t0, process.t0);
  sums_.t1 = std::max(sums_.t1, process.t1);
  open_bytes_ -= process.text.size();
  process.text.clear();
  process.text.shrink_to_fit();
  process.defined.clear();
  process.contexts.clear();
  process.context_bytes = 0;
  process.lines = process.events = process.read = process.written = process.totals = process.totals_calls = 0;
  process.began = false;
}

ForeignSums ForeignWriter::finish() {
  write_all();
  if (fd_ >= 0 && close(std::exchange(fd_, -1)) < 0) {
    throw TraceFault(path_ + ": can't be written: " + std::strerror(errno));
  }
  return sums_;
}

}  // namespace tailrace::native
