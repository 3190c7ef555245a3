// C++ streams: by lines, by blocks, with seeks, and over std::cin.
//   fstream TEXT DATA      fstream cin < numbers
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

static int sum_of_cin() {
  long number, sum = 0;
  while (std::cin >> number) sum += number;
  std::cout << sum << std::endl;
  return 0;
}

int main(int argc, char **argv) {
  if (argc == 2) return sum_of_cin();
  {
    std::ifstream in(argv[1]);
    std::ofstream out("lines");
    for (std::string line; std::getline(in, line);) out << line << '\n';
  }
  {
    std::ifstream in(argv[2], std::ios::binary);
    std::ofstream out("blocks", std::ios::binary);
    std::vector<char> block(10000);
    while (in.read(block.data(), static_cast<std::streamsize>(block.size())) || in.gcount() > 0) {
      out.write(block.data(), in.gcount());
    }
  }
  std::fstream both("both", std::ios::in | std::ios::out | std::ios::trunc);
  for (int i = 0; i < 1000; ++i) both << i << ' ';
  both.seekg(0);
  int first;
  both >> first;
  both.seekp(10);
  both << "here";
  return 0;
}
