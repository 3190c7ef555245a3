// Sealing the journal of a dead process, which may have died at any instruction, or been hostile. The input is a byte,
// the beginning of the segment's header and its slots: the byte decides whether the header's fixed fields are corrected,
// since otherwise few inputs would pass them. It is sealed twice: in memory whose ends the sanitizer checks, and as a
// file, as `tailrace seal` does.
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include <memory>
#include <new>

#include "format/seal.h"
#include "fuzz.h"
#include "trace_file.h"

using namespace tailrace;
using fuzz::require;

namespace {

// More than the header's numbers take, so that a further field doesn't change the seeds.
constexpr size_t kHeaderInput = 1024;
static_assert(offsetof(SegmentHeader, host) <= kHeaderInput, "the header's numbers are of the input");

void put_right(SegmentHeader &segment, uint32_t slots) {
  segment.magic = kJournalMagic;
  segment.version = kJournalVersion;
  segment.slots = kSegmentSlots;
  segment.allocated_slots.store(slots);
  segment.pid = 4194304;  // more than the kernel's largest
  segment.pid_namespace = pid_namespace();
  segment.homeless.store(0);
  segment.host_bytes = 4;
  segment.path_bytes = static_cast<uint32_t>(strlen(segment.trace_path));
  if (slots) segment.epoch.store(mark_epoch(segment.slot(0)->mark.load()));
}

struct Place {
  std::string directory, journals, trace;
  Place() {
    char name[] = "/tmp/tailrace-fuzz-XXXXXX";
    require(mkdtemp(name) != nullptr, "a directory can be made");
    directory = name;
    journals = directory + "/j";
    trace = directory + "/t.pfw.gz";
  }
  ~Place() {
    unlink(trace.c_str());
    unlink((journals + "/h-1-1.0.tj").c_str());
    rmdir(journals.c_str());
    rmdir(directory.c_str());
  }
};

const Place &place() {
  static const Place one;
  return one;
}

// Sealed blocks can be read: frame, checksum and length of each are right. The header may be no JSON where the
// journal's process record was none.
void check_trace() {
  if (access(place().trace.c_str(), F_OK) != 0) return;
  {
    const native::TraceFile file(place().trace);
    int fd = open(place().trace.c_str(), O_RDONLY);
    auto walk = std::make_unique<BlockWalk>(fd, file.size());
    BlockPlace block;
    std::vector<uint8_t> member;
    std::vector<char> raw;
    while (walk->next(block)) {
      native::BlockHeader header;
      try {
        header = native::header_at(file, block.offset);
      } catch (const native::TraceFault &) {
        continue;
      }
      native::inflate_block(file, block.offset, header, &member, &raw);
    }
    require(walk->torn_bytes() == 0, "a sealed file is whole");
    close(fd);
  }
  unlink(place().trace.c_str());
}

struct FreeDeleter {
  void operator()(void *p) const { free(p); }
};

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 1 + kHeaderInput) return 0;
  bool is_right = data[0] & 1;
  ++data;
  auto slots = static_cast<uint32_t>((size - 1 - kHeaderInput) / sizeof(Slot));
  if (slots > kSegmentSlots) slots = kSegmentSlots;
  size_t bytes = segment_bytes(slots);
  std::unique_ptr<void, FreeDeleter> memory(aligned_alloc(64, bytes));
  memset(memory.get(), 0, kSegmentHeaderBytes);
  auto &segment = *static_cast<SegmentHeader *>(memory.get());
  memcpy(memory.get(), data, kHeaderInput);
  memset(segment.host, 'h', sizeof segment.host);
  memset(segment.trace_path, 0, sizeof segment.trace_path);
  memcpy(segment.trace_path, place().trace.c_str(), place().trace.size());
  memcpy(static_cast<void *>(segment.slot(0)), data + kHeaderInput, slots * sizeof(Slot));
  if (is_right) put_right(segment, slots);
  // A size above the file's is refused; here it would be a read out of bounds.
  if (segment.allocated_slots.load() > slots) segment.allocated_slots.store(slots);

  std::string path = place().journals + "/h-1-1.0.tj";
  mkdir(place().journals.c_str(), 0700);
  int fd = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
  require(fd >= 0 && write(fd, memory.get(), bytes) == static_cast<ssize_t>(bytes), "a journal can be written");
  close(fd);
  SealedJournals result;
  require(seal_dead_journals(place().journals.c_str(), result, place().directory) == 0, "the directory can be read");
  check_trace();

  if (segment.host_bytes <= sizeof segment.host) {
    SealScratch *scratch = make_seal_scratch();
    ClockSample now = sample_clock(static_cast<ClockKind>(segment.clock_kind));
    uint64_t unwritten = 0;
    seal_segment(segment, segment.allocated_slots.load(), *scratch, now, nullptr, &unwritten);
    free_seal_scratch(scratch);
    check_trace();
  }
  return 0;
}
