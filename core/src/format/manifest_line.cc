// See format/manifest_line.h.
#include "format/manifest_line.h"

#include "format/crc32.h"

namespace tailrace {

static void end_line(Writer &out, size_t begin) {
  const string_view line = slice(out.view(), begin, out.size() - begin);
  const uint32_t crc = crc32_of(line.data(), line.size());
  (out << ",\"crc\":\"").hex(crc, 8) << "\"}\n";
}

void write_manifest_line(Writer &out, string_view name, uint64_t blocks) {
  const size_t begin = out.size();
  (out << "{\"file\":").json(name);
  if (blocks != kBlocksUnknown) (out << ",\"blocks\":").number(static_cast<int64_t>(blocks));
  end_line(out, begin);
}

void write_removal_line(Writer &out, uint64_t ns) {
  const size_t begin = out.size();
  (out << "{\"journals\":\"removed\",\"ns\":").number(static_cast<int64_t>(ns));
  end_line(out, begin);
}

}  // namespace tailrace
