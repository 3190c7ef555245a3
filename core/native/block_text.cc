// inflate_block of trace_file.h, apart from what needs no inflating: the launcher reads headers only.
#include <cstring>

#include "inflate.h"
#include "json.h"
#include "trace_file.h"

namespace tailrace::native {

namespace {

constexpr size_t kFixedBytes = 12;   // RFC 1952's header with XLEN
constexpr size_t kTrailerBytes = 8;  // CRC32, ISIZE

uint32_t le32(const uint8_t *p) {
  return static_cast<uint32_t>(p[0]) | static_cast<uint32_t>(p[1]) << 8 | static_cast<uint32_t>(p[2]) << 16 |
         static_cast<uint32_t>(p[3]) << 24;
}

}  // namespace

size_t inflate_block(const TraceFile &file, uint64_t offset, const BlockHeader &header, std::vector<uint8_t> *member,
                     std::vector<char> *raw) {
  const uint64_t start = offset + kFixedBytes + header.extra_bytes;
  const size_t body = header.deflated_bytes + kTrailerBytes;
  if (member->size() < body) member->resize(body);
  if (file.read_at(start, body, member->data()) != body) file.fail(offset, "it is cut short");
  const size_t text_bytes = header.raw_bytes;
  if (raw->size() < text_bytes + 1 + kPadBytes) raw->resize(text_bytes + 1 + kPadBytes);
  auto *out = reinterpret_cast<uint8_t *>(raw->data());
  if (!inflate_exact(member->data(), header.deflated_bytes, out, text_bytes)) {
    file.fail(offset, "its deflate stream is damaged or is not of the length that its header promises");
  }
  const uint8_t *trailer = member->data() + header.deflated_bytes;
  if (crc32_of(out, text_bytes) != le32(trailer) || le32(trailer + 4) != static_cast<uint32_t>(text_bytes)) {
    file.fail(offset, "its bytes do not match their checksum (CRC-32)");
  }
  size_t length = text_bytes;
  if (length > 0 && (*raw)[length - 1] != '\n') (*raw)[length++] = '\n';
  std::memset(raw->data() + length, 0, kPadBytes);
  return length;
}

}  // namespace tailrace::native
