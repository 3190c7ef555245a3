// See hooks/libc/libc_call.h.
#include "hooks/libc/libc_call.h"

namespace tailrace {

void record_libc_call(const Call &call, Fn fn, LibcCall &account, int64_t ret, Leave leave) {
  int64_t bytes[2];
  Event e;
  e.fn = fn;
  e.count = static_cast<uint64_t>(ret);
  bool known = account.finish(bytes);
  bool reads = function(fn).direction == Direction::R;
  if (known) e.ret = bytes[reads ? kRead : kWritten];
  e.file2 = !known;
  if (leave != Leave::kIfItRead || e.ret > 0) record_path(call, e, nullptr);
  if (!known || leave != Leave::kBothWays) return;
  e.fn = reads ? Fn::kLibcWritten : Fn::kLibcRead;
  e.ret = bytes[reads ? kWritten : kRead];
  if (e.ret > 0) record_path(call, e, nullptr);
}

}  // namespace tailrace
