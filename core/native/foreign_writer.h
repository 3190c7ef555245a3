// Writes a trace file of ours from another tracer's events (analyzer/foreign): lines, blocks, headers.
//
// Invariants: what is written keeps docs/trace-format.md. A block has the events of one process and is framed when it
// has kBlockBytes of text, so memory goes by the number of processes whose blocks are open, and all of them are written
// when they hold kOpenBytes together. A file that is known by its name only has no type.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tailrace::native {

// One call, or several of one function (`lines` > 1). Texts need to live during the call of event() only.
struct ForeignEvent {
  std::string_view name, cat;
  int64_t tid = 0, ts_ns = 0, dur_ns = 0;
  int32_t file = -1, file2 = -1;
  int32_t context = 0;
  std::optional<int64_t> offset, size, count, ret, error, flags;
  std::string_view direction;  // "", r, w or rw
  int64_t calls = 1, lines = 1;
  int64_t span_ns = 0;    // of totals
  std::string_view more;  // further members, each after a comma
};

struct ForeignSums {
  uint64_t events = 0, calls = 0, read = 0, written = 0;
  int64_t t0 = 0, t1 = 0;
};

class ForeignWriter {
 public:
  // Throws TraceFault when the file can't be made; it must not exist.
  explicit ForeignWriter(std::string path);
  ~ForeignWriter();
  ForeignWriter(const ForeignWriter &) = delete;
  ForeignWriter &operator=(const ForeignWriter &) = delete;

  // A process, by its number. `facts` is the JSON object of its start event, or "".
  int32_t process(std::string_view host, int64_t pid, std::string_view start, std::string_view facts);
  void set_facts(int32_t process, std::string_view facts);
  // A file by its name, the same number for the same name and type ("" where only the name is known).
  int32_t file(std::string_view path, std::string_view type);
  // A context: its canonical tag string and the members of its lines, each after a comma.
  int32_t context(std::string_view tags, std::string_view members);
  void event(int32_t process, const ForeignEvent &event);
  // Writes what is left. Throws TraceFault when the file can't be written.
  ForeignSums finish();
  // Bytes that names and open blocks take.
  size_t memory() const { return names_bytes_ + open_bytes_; }

 private:
  struct Process {
    std::string host, start, facts;
    int64_t pid = 0;
    uint64_t blocks = 0;
    std::string text;
    uint64_t lines = 0, events = 0, read = 0, written = 0, totals = 0, totals_calls = 0;
    int64_t t0 = 0, t1 = 0;
    std::vector<int32_t> contexts;
    size_t context_bytes = 0;
    std::vector<uint64_t> defined;  // a bit a file
    bool began = false;
  };
  struct Context {
    std::string tags, members;
  };

  void define(Process &process, int32_t file);
  void write(Process &process);
  void write_all();

  std::string path_;
  int fd_ = -1;
  std::vector<Process> processes_;
  std::unordered_map<std::string, int32_t> process_numbers_, file_numbers_, context_numbers_;
  std::vector<std::string> files_;  // the lines that define them, from `args` on
  std::vector<Context> contexts_;
  ForeignSums sums_;
  size_t names_bytes_ = 0, open_bytes_ = 0;
  std::vector<uint8_t> member_;
};

// Appends the text as a JSON string, with its quotes; what is not UTF-8 becomes U+FFFD.
void put_json(std::string_view text, std::string *out);

}  // namespace tailrace::native
