// The same of C++: a static object that allocates before main, streams, threads, an exception, and a child.
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

static std::map<std::string, std::vector<int>> table{{"before main", std::vector<int>(1000, 1)}};

static void work(int number) {
  std::map<int, std::unique_ptr<std::string>> kept;
  for (int i = 0; i < 2000; ++i) {
    kept[i * 7 % 500] = std::make_unique<std::string>(static_cast<size_t>(i % 300), 'x');
  }
  try {
    throw std::runtime_error("thrown by " + std::to_string(number));
  } catch (const std::exception &e) {
    std::ofstream("thread" + std::to_string(number)) << kept.size() << ' ' << e.what() << '\n';
  }
}

int main() {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back(work, i);
  for (int i = 0; i < 20; ++i) {
    pid_t child = fork();
    if (child == 0) {
      { std::ofstream("child" + std::to_string(i)) << std::string(100, 'c') << '\n'; }
      _exit(0);
    }
    waitpid(child, nullptr, 0);
  }
  for (auto &thread : threads) thread.join();
  std::cout << table.begin()->second.size() << std::endl;
  return 7;
}
