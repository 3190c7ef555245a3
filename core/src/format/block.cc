// See format/block.h.
#include "format/block.h"

#include "base/sys.h"
#include "format/checked_file.h"
#include "format/crc32.h"

namespace tailrace {
namespace {

char *put_le16(char *p, size_t v) {
  p[0] = static_cast<char>(v & 0xFF);
  p[1] = static_cast<char>(v >> 8 & 0xFF);
  return p + 2;
}

char *put_le32(char *p, uint32_t v) { return put_le16(put_le16(p, v & 0xFFFF), v >> 16); }

size_t le16(const char *p) {
  return static_cast<unsigned char>(p[0]) | static_cast<size_t>(static_cast<unsigned char>(p[1])) << 8;
}

constexpr int kEnospc = 28, kEintr = 4, kEfbig = 27;

}  // namespace

string_view frame_member(char *deflate, size_t deflate_bytes, string_view header, uint32_t crc, size_t raw_bytes) {
  const size_t header_bytes = header.size() + kHeaderCheckBytes;
  char *begin = deflate - header_bytes - kFrameBytes;
  char *p = put(begin, string_view("\x1f\x8b\x08\x04\0\0\0\0\0\xff", kGzipFixedBytes));
  p = put_le16(p, header_bytes + 4);
  p = put(p, "TR");
  p = put_le16(p, header_bytes);
  header.remove_suffix(1);  // the closing brace
  p = put(p, header);
  p = put(p, ",\"crc\":\"");
  p = put_hex(p, crc32_of(header.data(), header.size()), 8);
  p = put(p, "\"}");
  p = put_le32(deflate + deflate_bytes, crc);
  p = put_le32(p, static_cast<uint32_t>(raw_bytes));
  return {begin, static_cast<size_t>(p - begin)};
}

int append_member(const char *path, string_view member) {
  int fd = open_regular(path, O_WRONLY | O_CREAT | O_APPEND);
  if (fd < 0) return fd;
  int64_t before = sys::lseek(fd, 0, SEEK_END);
  size_t done = 0;
  int status = static_cast<uint64_t>(before) + member.size() > sys::file_size_limit() ? -kEfbig : 0;
  while (status == 0 && done < member.size()) {
    long n = sys::write(fd, member.data() + done, member.size() - done);
    if (n == -kEintr) continue;
    if (n <= 0) {
      status = n == 0 ? -kEnospc : static_cast<int>(n);
      break;
    }
    done += static_cast<size_t>(n);
  }
  if (status < 0 && before >= 0) sys::ftruncate(fd, before);
  // The records stay in the journal, and may get to another file: an empty one would seem to have lost them.
  if (status < 0 && before == 0) sys::unlink(path);
  // NFS and quotas report a full disk only here.
  int closed = sys::close(fd);
  return status < 0 ? status : closed;
}

bool BlockWalk::next(BlockPlace &place) {
  if (offset_ + kFrameBytes + kGzipTrailerBytes > file_bytes_) return false;
  long n = sys::pread(fd_, buffer_, sizeof buffer_, static_cast<int64_t>(offset_));
  if (n < static_cast<long>(kFrameBytes)) return false;
  if (memcmp(buffer_, "\x1f\x8b\x08", 3) != 0) {
    // A torn tail follows whole blocks, or begins as one.
    foreign_ = offset_ == 0;
    return false;
  }
  size_t extra = le16(buffer_ + kGzipFixedBytes);
  if (buffer_[3] != 4 || extra < 4 || memcmp(buffer_ + 12, "TR", 2) != 0) {
    foreign_ = true;
    return false;
  }
  size_t header_bytes = le16(buffer_ + 14);
  if (header_bytes + 4 != extra || kFrameBytes + header_bytes > static_cast<size_t>(n)) return false;
  place.header = {buffer_ + kFrameBytes, header_bytes};
  uint64_t deflate_bytes;
  if (!header_number(place.header, "comp", deflate_bytes)) return false;
  place.offset = offset_;
  place.member_bytes = kFrameBytes + header_bytes + deflate_bytes + kGzipTrailerBytes;
  if (deflate_bytes > file_bytes_ || offset_ + place.member_bytes > file_bytes_) return false;
  offset_ += place.member_bytes;
  return true;
}

bool go_on_behind(SegmentHeader &segment, string_view header) {
  uint64_t slots, block;
  if (!header_number(header, "slots", slots)) return false;
  if (header_number(header, "block", block) && block >= segment.blocks.load()) {
    segment.blocks.store(static_cast<uint32_t>(block) + 1);
  }
  if (slots <= segment.first_slot.load()) return false;
  segment.first_slot.store(static_cast<uint32_t>(slots));
  return true;
}

void take_reported_losses(SegmentHeader &segment, string_view header) {
  size_t at = header.find("\"lost\":{");
  if (at == string_view::npos) return;
  string_view lost = slice(header, at, header.size() - at);
  size_t end = lost.find('}');
  if (end == string_view::npos) return;
  lost = slice(lost, 0, end);
  for (int i = 0; i < static_cast<int>(Loss::kCount); ++i) {
    uint64_t reported, has = segment.lost[i].load();
    // Others may only add to it: children without a journal.
    if (header_number(lost, kLossNames[i], reported)) segment.lost[i].fetch_sub(has < reported ? has : reported);
  }
}

// Where the process ended in the few instructions between noting a block and taking off its losses (seal.cc), these are
// counted twice.
static bool take_stock(SegmentHeader &segment, BlockWalk &walk, int fd, uint64_t file_bytes) {
  BlockPlace place;
  while (walk.next(place)) {
    uint64_t seg, epoch;
    if (header_number(place.header, "seg", seg) && header_number(place.header, "epoch", epoch) &&
        seg == segment.segment && epoch == segment.epoch.load()) {
      if (go_on_behind(segment, place.header)) take_reported_losses(segment, place.header);
    }
  }
  if (walk.foreign()) return false;
  if (walk.offset() < file_bytes) sys::ftruncate(fd, static_cast<int64_t>(walk.offset()));
  return true;
}

bool reconcile_with_trace_file(SegmentHeader &segment) {
  int fd = open_regular(segment.trace_path, O_RDWR);
  if (fd < 0) return true;
  bool ours = true;
  auto bytes = static_cast<uint64_t>(sys::lseek(fd, 0, SEEK_END));
  walk_blocks(fd, bytes, 0, [&](BlockWalk &walk) { ours = bytes == 0 || take_stock(segment, walk, fd, bytes); });
  sys::close(fd);
  return ours;
}

bool header_number(string_view header, string_view key, uint64_t &value) {
  for (size_t i = 0; i + key.size() + 3 < header.size(); ++i) {
    if (header[i] != '"' || memcmp(header.data() + i + 1, key.data(), key.size()) != 0) continue;
    if (header[i + 1 + key.size()] != '"' || header[i + 2 + key.size()] != ':') continue;
    size_t at = i + key.size() + 3;
    string_view rest = slice(header, at, header.size() - at);
    if (!rest.empty() && rest[0] == '[') rest.remove_prefix(1);
    return take_decimal(rest, value);
  }
  return false;
}

}  // namespace tailrace
