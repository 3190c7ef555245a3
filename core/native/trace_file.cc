// See trace_file.h.
#include "trace_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "format/crc32.h"
#include "json.h"

namespace tailrace::native {

namespace {

constexpr int64_t kFormatVersion = 2;
constexpr size_t kFixedBytes = 12;    // RFC 1952's header with XLEN
constexpr size_t kSubfieldBytes = 4;  // SI1, SI2, LEN
constexpr size_t kTrailerBytes = 8;   // CRC32, ISIZE
constexpr size_t kFirstRead = 4096;   // holds all but the headers with very many contexts
constexpr size_t kMaxHeader = kFixedBytes + 65535;
// Deflate can't shrink further than this (RFC 1951: 258 bytes in two bits), and no event line is shorter than this.
constexpr uint64_t kMaxRatio = 1032;
// The writer's blocks have little more than 1 MiB of text (format/seal.h); room for later ones.
constexpr uint64_t kMaxRawBytes = 16 << 20;
constexpr uint64_t kMinEventBytes = 16;

uint32_t le16(const uint8_t *p) { return static_cast<uint32_t>(p[0]) | static_cast<uint32_t>(p[1]) << 8; }
uint32_t le32(const uint8_t *p) { return le16(p) | le16(p + 2) << 16; }

enum class Frame { kOurs, kShort, kForeign, kNotGzip };

// The kind of a member by its first bytes. kShort: too few bytes to tell.
Frame frame_of(const uint8_t *p, size_t bytes) {
  constexpr uint8_t kMagic[] = {0x1F, 0x8B, 8};
  const size_t seen = std::min(bytes, sizeof kMagic);
  if (std::memcmp(p, kMagic, seen) != 0) return Frame::kNotGzip;
  if (bytes < kFixedBytes + kSubfieldBytes) return Frame::kShort;
  const bool ours = p[3] == 4 && p[12] == 'T' && p[13] == 'R' && le16(p + 10) == le16(p + 14) + kSubfieldBytes;
  return ours ? Frame::kOurs : Frame::kForeign;
}

uint64_t natural(const Value &value) {
  if (value.kind != Value::Kind::kNumber) throw JsonError("a number is expected");
  const int64_t v = integer_of(value.text);
  if (v < 0) throw JsonError("a number can't be negative");
  return static_cast<uint64_t>(v);
}

struct NumberKey {
  const char *key;
  uint64_t BlockHeader::*field;
};
constexpr NumberKey kNumberKeys[] = {
    {"comp", &BlockHeader::deflated_bytes},
    {"raw", &BlockHeader::raw_bytes},
    {"lines", &BlockHeader::lines},
    {"events", &BlockHeader::events},
};

struct ChecksumError : JsonError {
  using JsonError::JsonError;
};

// Throws ChecksumError where the header's last key is a checksum, and it is another one: `,"crc":"01234567"}`. Older
// blocks have none.
void check_bytes(std::string_view json) {
  constexpr std::string_view kKey = ",\"crc\":\"";
  constexpr size_t kDigits = 8;
  constexpr size_t kCheckBytes = kKey.size() + kDigits + 2;
  if (json.size() < kCheckBytes || json.substr(json.size() - kCheckBytes, kKey.size()) != kKey) return;
  const std::string_view covered = json.substr(0, json.size() - kCheckBytes);
  char digits[kDigits + 1];
  std::snprintf(digits, sizeof digits, "%08x", tailrace::crc32_of(covered.data(), covered.size()));
  if (json.substr(json.size() - kDigits - 2, kDigits) != digits) throw ChecksumError("it does not match its checksum");
}

// Parses the payload; throws JsonError.
BlockHeader parse_header(const uint8_t *p) {
  BlockHeader header;
  header.extra_bytes = le16(p + 10);
  header.json.assign(reinterpret_cast<const char *>(p) + kFixedBytes + kSubfieldBytes, le16(p + 14));
  check_bytes(header.json);
  std::string text = header.json;
  std::replace(text.begin(), text.end(), '\n', ' ');
  text.push_back('\n');
  text.append(kPadBytes, '\0');
  size_t found = 0;
  std::string scratch;
  each_member(text.data(), [&](std::string_view key, const Value &value) {
    if (key == "v") header.version = static_cast<int64_t>(natural(value));
    if (key == "host") header.host = text_of(value, &scratch);
    if (key == "start") header.start = text_of(value, &scratch);
    for (const NumberKey &row : kNumberKeys) {
      if (key == row.key) {
        header.*row.field = natural(value);
        ++found;
      }
    }
  });
  if (header.version > kFormatVersion) return header;
  if (header.version < 1 || found != std::size(kNumberKeys))
    throw JsonError("v, comp, raw, lines or events is missing");
  return header;
}

// Refuses counts that no deflate stream can have, before memory is allocated for them.
void check_counts(const BlockHeader &header) {
  if (header.deflated_bytes > (1ULL << 32) || header.raw_bytes > kMaxRawBytes ||
      header.raw_bytes / kMaxRatio > header.deflated_bytes || header.events > header.raw_bytes / kMinEventBytes ||
      header.events > header.lines) {
    throw JsonError("comp, raw, lines and events contradict each other");
  }
}

std::string version_words(int64_t version) {
  return "the block has format version " + std::to_string(version) + ", this reader knows up to " +
         std::to_string(kFormatVersion) + "; update tailrace";
}

// The start of the next block header in [from, end), or `end`. Needed only after a torn block, so it may read the rest
// of the file.
uint64_t next_header(const TraceFile &file, uint64_t from, uint64_t end) {
  constexpr size_t kWindow = 1 << 20;
  constexpr size_t kNeed = kFixedBytes + kSubfieldBytes + 1;
  std::vector<uint8_t> window(kWindow + kNeed);
  for (uint64_t at = from; at < end; at += kWindow) {
    const size_t got = file.read_at(at, window.size(), window.data());
    for (size_t i = 0; i + kNeed <= got; ++i) {
      const auto *hit = static_cast<const uint8_t *>(std::memchr(window.data() + i, 0x1F, got - i));
      if (hit == nullptr) break;
      i = static_cast<size_t>(hit - window.data());
      if (i + kNeed <= got && frame_of(hit, got - i) == Frame::kOurs && hit[kNeed - 1] == '{') return at + i;
    }
  }
  return end;
}

// A walk over the headers of one file.
class Scanner {
 public:
  Scanner(const TraceFile &file, uint64_t at, size_t most)
      : file_(file), at_(at), end_(file.size()), most_(most), bytes_(kMaxHeader) {}

  Scan run() {
    const uint64_t start = at_;
    while (at_ < end_ && scan_.cause.empty() && !is_full()) step();
    const uint64_t reached = is_full() ? at_ : end_;
    uint64_t whole = 0;
    for (const FoundBlock &block : scan_.blocks) whole += block.member_bytes;
    scan_.torn_bytes = reached > start ? reached - start - whole : 0;
    return std::move(scan_);
  }

 private:
  bool is_full() const { return most_ > 0 && scan_.blocks.size() == most_; }

  void step() {
    size_t got = file_.read_at(at_, kFirstRead, bytes_.data());
    const Frame frame = frame_of(bytes_.data(), got);
    if (frame == Frame::kForeign || frame == Frame::kNotGzip) return not_ours(frame);
    if (frame == Frame::kShort) return resume_after(at_ + 1);
    const size_t need = kFixedBytes + le16(bytes_.data() + 10);
    if (got < need) got = file_.read_at(at_, need, bytes_.data());
    if (got < need) return resume_after(at_ + 1);
    take(need);
  }

  void take(size_t need) {
    BlockHeader header;
    try {
      header = parse_header(bytes_.data());
    } catch (const JsonError &error) {
      // Any other fault is that of a torn header, too.
      if (dynamic_cast<const ChecksumError *>(&error) != nullptr) note_damage(error);
      return resume_after(at_ + 1);
    }
    if (header.version > kFormatVersion) {
      scan_.cause = "version";
      scan_.problem = version_words(header.version);
      return;
    }
    const uint64_t next = at_ + header.member_bytes();  // can't wrap: both are below 2^63
    uint8_t trailer[kTrailerBytes];
    // After a power failure a file can have its full length and contain zeros. ISIZE shows that, for one read of the
    // page cache.
    const bool whole = next <= end_ && file_.read_at(next - kTrailerBytes, kTrailerBytes, trailer) == kTrailerBytes &&
                       le32(trailer + 4) == static_cast<uint32_t>(header.raw_bytes);
    if (!whole) return resume_after(at_ + need);
    if (believes(header)) scan_.blocks.push_back({at_, header.member_bytes(), std::move(header.json)});
    at_ = next;
  }

  // Who counts by headers and who reads the blocks believe the same ones (header_at).
  bool believes(const BlockHeader &header) {
    try {
      check_counts(header);
      return true;
    } catch (const JsonError &error) {
      note_damage(error);
      return false;
    }
  }

  void note_damage(const JsonError &error) {
    if (scan_.problem.empty())
      scan_.problem = "block at byte " + std::to_string(at_) + ": the header is damaged: " + error.what();
  }

  void not_ours(Frame frame) {
    if (!scan_.blocks.empty() || at_ > 0) return resume_after(at_ + 1);
    scan_.cause = "foreign";
    scan_.problem =
        frame == Frame::kForeign ? "a gzip file, but not tailrace's: its header has no TR field" : "not a gzip file";
  }

  void resume_after(uint64_t from) { at_ = next_header(file_, from, end_); }

  const TraceFile &file_;
  uint64_t at_;
  uint64_t end_;
  size_t most_;
  std::vector<uint8_t> bytes_;
  Scan scan_;
};

}  // namespace

// Without O_NONBLOCK, opening a FIFO waits for a writer.
TraceFile::TraceFile(std::string path)
    : path_(std::move(path)), fd_(::open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)) {
  if (fd_ < 0) throw TraceFault(path_ + ": can't be opened: " + std::strerror(errno));
  struct stat st;
  if (::fstat(fd_, &st) == 0 && S_ISREG(st.st_mode)) return;
  ::close(fd_);
  throw TraceFault(path_ + ": it is not a regular file");
}

TraceFile::~TraceFile() { ::close(fd_); }

size_t TraceFile::read_at(uint64_t offset, size_t bytes, uint8_t *out) const {
  size_t done = 0;
  while (done < bytes) {
    const ssize_t n = ::pread(fd_, out + done, bytes - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(offset, std::string("can't be read: ") + std::strerror(errno));
    if (n == 0) break;
    done += static_cast<size_t>(n);
  }
  return done;
}

uint64_t TraceFile::size() const {
  struct stat st;
  if (::fstat(fd_, &st) != 0) fail(0, std::string("can't be examined: ") + std::strerror(errno));
  return static_cast<uint64_t>(st.st_size);
}

void TraceFile::fail(uint64_t offset, const std::string &what) const {
  throw TraceFault(path_ + ": block at byte " + std::to_string(offset) + ": " + what);
}

Scan scan_blocks(const TraceFile &file, uint64_t start_offset, size_t most) {
  return Scanner(file, start_offset, most).run();
}

BlockHeader header_at(const TraceFile &file, uint64_t offset) {
  std::vector<uint8_t> bytes(kMaxHeader);
  size_t got = file.read_at(offset, kFirstRead, bytes.data());
  if (frame_of(bytes.data(), got) != Frame::kOurs) file.fail(offset, "there is no block of tailrace");
  const size_t need = kFixedBytes + le16(bytes.data() + 10);
  if (got < need) got = file.read_at(offset, need, bytes.data());
  if (got < need) file.fail(offset, "the header is cut short");
  BlockHeader header;
  try {
    header = parse_header(bytes.data());
    if (header.version <= kFormatVersion) check_counts(header);
  } catch (const JsonError &error) {
    file.fail(offset, std::string("the header is damaged: ") + error.what());
  }
  if (header.version > kFormatVersion) file.fail(offset, version_words(header.version));
  return header;
}

}  // namespace tailrace::native
