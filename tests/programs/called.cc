// Calls at known lines, by two threads and through templates; each line that reads or writes is marked.
#include <fcntl.h>
#include <unistd.h>

#include <thread>
#include <vector>

namespace planted {

template <class Row>
__attribute__((noinline)) void save(int fd, const std::vector<Row> &rows) {
  for (const Row &row : rows) {
    if (write(fd, &row, sizeof row) < 0) _exit(1);  // line: write
  }
}

class Solver {
 public:
  explicit Solver(int fd) : fd_(fd) {}
  __attribute__((noinline)) void step(int depth) {
    if (depth > 0) {
      step(depth - 1);
      ++steps_;
      return;
    }
    save(fd_, std::vector<double>(50));
  }

 private:
  int fd_, steps_ = 0;
};

}  // namespace planted

int main(int, char **argv) {
  const int fd = open(argv[1], O_CREAT | O_RDWR | O_TRUNC, 0600);
  planted::Solver(fd).step(5);
  std::thread([fd] { planted::Solver(fd).step(2); }).join();
  lseek(fd, 0, SEEK_SET);
  for (double row; read(fd, &row, sizeof row) > 0;) {  // line: read
  }
  return 0;
}
