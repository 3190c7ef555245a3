// Blocks of a trace file (docs/trace-format.md, "Block header"): finding them, and reading one.
//
// Invariant: a block is returned only when its frame, its CRC-32 and its length are right. Any fault throws TraceFault,
// which names the file and the offset.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace tailrace::native {

// Becomes tailrace.errors.TraceError.
struct TraceFault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct BlockHeader {
  std::string json;  // the payload as it is in the file
  int64_t version = 0;
  uint64_t extra_bytes = 0;  // XLEN: the deflate stream starts 12 + XLEN bytes into the member
  uint64_t deflated_bytes = 0;
  uint64_t raw_bytes = 0;
  uint64_t lines = 0;
  uint64_t events = 0;
  std::string host;
  std::string start;

  uint64_t member_bytes() const { return 12 + extra_bytes + deflated_bytes + 8; }
};

struct FoundBlock {
  uint64_t offset;
  uint64_t member_bytes;
  std::string header_json;
};

struct Scan {
  std::vector<FoundBlock> blocks;
  uint64_t torn_bytes = 0;  // from start_offset to where the scan ended, less the blocks
  std::string cause;        // "" or "foreign", "version": why the scan stopped early
  std::string problem;      // the sentence for the user
};

// A file open for reading. Throws TraceFault when it can't be opened or read.
class TraceFile {
 public:
  explicit TraceFile(std::string path);
  ~TraceFile();
  TraceFile(const TraceFile &) = delete;
  TraceFile &operator=(const TraceFile &) = delete;

  // As many bytes as there are, up to `bytes`.
  size_t read_at(uint64_t offset, size_t bytes, uint8_t *out) const;
  uint64_t size() const;
  const std::string &path() const { return path_; }
  [[noreturn]] void fail(uint64_t offset, const std::string &what) const;

 private:
  std::string path_;
  int fd_;
};

// Walks the headers from `start_offset`, one read a block. A block that does not reach its promised end is torn; the
// scan continues at the next header after it, since a later writer may have appended to a torn file. It ends after
// `most` blocks, the file's end where that is 0: the next scan starts behind the last one.
Scan scan_blocks(const TraceFile &file, uint64_t start_offset, size_t most = 0);

// The header of the block at `offset`, which must be there.
BlockHeader header_at(const TraceFile &file, uint64_t offset);

// Reads the block and inflates it into `raw`, which is resized to hold `raw_bytes` plus a final newline (added only
// when the text has none) and kPadBytes. Returns the length with that newline.
size_t inflate_block(const TraceFile &file, uint64_t offset, const BlockHeader &header, std::vector<uint8_t> *member,
                     std::vector<char> *raw);

}  // namespace tailrace::native
