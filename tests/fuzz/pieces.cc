// The pieces of a line of totals: any text is pieces with numbers in their bounds, or is refused.
#include "pieces.h"

#include <memory>
#include <stdexcept>

#include "fuzz.h"

using namespace tailrace::native;
using tailrace::fuzz::require;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  // The sanitizer checks the end of an allocation that is as long as the text.
  const std::unique_ptr<char[]> text(new char[size]);
  std::copy(data, data + size, text.get());
  constexpr int64_t kBegin = 1'700'000'000'000'000'000;
  try {
    PieceReader reader({text.get(), size}, kBegin);
    Piece piece;
    int64_t upto = kBegin;
    while (reader.next(&piece)) {
      require(piece.first_ns >= upto && piece.last_ns >= piece.first_ns, "pieces follow each other");
      upto = piece.last_ns;
      require(piece.calls >= 0 && piece.bytes >= 0 && piece.loose >= 0 && piece.from >= -1 && piece.to >= -1,
              "numbers are in their bounds");
      for (const Interval &range : piece.ranges) {
        require(range.start >= 0 && range.start <= range.end, "a range ends behind its begin");
      }
    }
  } catch (const std::invalid_argument &) {
  }
  return 0;
}
