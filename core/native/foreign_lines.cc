// See foreign_lines.h.
#include "foreign_lines.h"

#include <algorithm>
#include <cstring>

#include "json.h"

namespace tailrace::native {

namespace {
constexpr size_t kPieceBytes = 1 << 20;
constexpr size_t kMaxLineBytes = 1 << 20;  // a longer line is no event's
constexpr uint64_t kMostRatio = 200;       // each line of a trace has times of its own
constexpr uint64_t kMostRatioBytes = 64 << 20;
}  // namespace

ForeignLines::ForeignLines(const std::string &path) : file_(path), size_(file_.size()) {
  uint8_t magic[2] = {};
  is_gzip_ = file_.read_at(0, sizeof magic, magic) == sizeof magic && magic[0] == 0x1F && magic[1] == 0x8B;
  input_.resize(kPieceBytes);
  text_.resize(kMaxLineBytes + kPieceBytes + 1 + kPadBytes);
}

size_t ForeignLines::read_piece() {
  const size_t got = file_.read_at(offset_, input_.size(), input_.data());
  offset_ += got;
  return got;
}

size_t ForeignLines::inflate_piece() {
  for (;;) {
    size_t made = 0;
    switch (inflater_.next(reinterpret_cast<uint8_t *>(text_.data()) + end_, kPieceBytes, &made)) {
      case GzipInflater::Status::kHasOutput: return made;
      case GzipInflater::Status::kDamaged: torn_ = true; return 0;
      case GzipInflater::Status::kNeedsInput: break;
    }
    const size_t got = read_piece();
    if (got == 0) {
      torn_ = !inflater_.between_members();
      return 0;
    }
    inflater_.feed(input_.data(), got);
  }
}

bool ForeignLines::fill() {
  std::memmove(text_.data(), text_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  size_t got = 0;
  if (is_gzip_) {
    got = inflate_piece();
  } else {
    got = file_.read_at(offset_, kPieceBytes, reinterpret_cast<uint8_t *>(text_.data()) + end_);
    offset_ += got;
  }
  end_ += got;
  made_ += got;
  if (made_ > kMostRatioBytes && made_ / kMostRatio > size_) {
    throw TraceFault(file_.path() + ": it inflates to more than " + std::to_string(kMostRatio) +
                     " times its size: no trace does");
  }
  return got > 0;
}

bool ForeignLines::next(std::string_view *line) {
  for (;;) {
    char *from = text_.data() + begin_;
    auto *stop = static_cast<char *>(std::memchr(from, '\n', end_ - begin_));
    if (stop == nullptr && end_ - begin_ < kMaxLineBytes && !ended_) {
      ended_ = !fill();
      continue;
    }
    const bool cut = stop == nullptr && !ended_;
    if (stop == nullptr && begin_ == end_) return false;
    const size_t bytes = stop != nullptr ? static_cast<size_t>(stop - from) : end_ - begin_;
    begin_ += bytes + (stop != nullptr ? 1 : 0);
    const bool skipped = skipping_;
    skipping_ = cut;
    if (skipped) continue;
    // What follows a line without a newline is not looked at again.
    if (stop == nullptr) from[bytes] = '\n';
    *line = {from, bytes};
    return true;
  }
}

}  // namespace tailrace::native
