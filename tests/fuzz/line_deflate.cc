// The writer of deflate streams: any order of calls. Each takes a byte for the call, two for a number and, where the text
// is new, its bytes from the input. zlib reads the stream.
#include "format/line_deflate.h"

#include <zlib.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "fuzz.h"

using tailrace::LineDeflate;
using tailrace::fuzz::require;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  constexpr size_t kMostText = 300'000;
  if (size < 1) return 0;
  std::vector<char> text(kMostText + 64), out(LineDeflate::kLeastRoom + (data[0] & 1 ? 2 * kMostText : 1000));
  auto deflate = std::make_unique<LineDeflate>();
  deflate->begin(text.data(), out.data(), out.size());
  size_t used = 0;
  for (size_t i = 1; i + 3 <= size;) {
    const unsigned call = data[i] & 3;
    const size_t number = data[i + 1] | data[i + 2] << 8;
    // How often new text is written, so that short inputs fill many tables.
    const size_t times = 1 + (data[i] >> 2);
    i += 3;
    const size_t distance = std::min(number + 1, std::min(used, LineDeflate::kMaxDistance));
    if (call == 3) {
      const size_t n = number % 3000;
      if (distance == 0 || used + n > kMostText) continue;
      for (size_t k = 0; k < n; ++k) text[used + k] = text[used + k - distance];
      if (n != 0) deflate->repeat(distance, n);
      used += n;
      continue;
    }
    const size_t n = std::min(number % 512, size - i);
    for (size_t k = 0; k < times && used + n <= kMostText; ++k) {
      for (size_t b = 0; b < n; ++b) text[used + b] = static_cast<char>(data[i + b] + k);
      if (call == 0) deflate->add(n);
      if (call == 1) deflate->search(n);
      if (call == 2) deflate->follow(distance ? text.data() + used - distance : nullptr, n);
      used += n;
    }
    i += n;
  }
  const size_t bytes = deflate->finish();
  require(bytes <= out.size(), "a stream is within its room");
  if (bytes == 0) return 0;
  std::vector<char> back(used + 1);
  z_stream z{};
  inflateInit2(&z, -15);
  z.next_in = reinterpret_cast<Bytef *>(out.data());
  z.avail_in = static_cast<uInt>(bytes);
  z.next_out = reinterpret_cast<Bytef *>(back.data());
  z.avail_out = static_cast<uInt>(back.size());
  const int status = inflate(&z, Z_FINISH);
  require(status == Z_STREAM_END && z.avail_in == 0 && z.total_out == used, "zlib reads a whole stream");
  inflateEnd(&z);
  require(std::equal(text.begin(), text.begin() + static_cast<ptrdiff_t>(used), back.begin()), "the text comes back");
  return 0;
}
