// The sampler beside journals that their processes are still making.
#include "sampler.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <memory>
#include <thread>

#include "segments.h"

using namespace tailrace;
using namespace tailrace::test;

namespace {

bool comes_true(const std::function<bool()> &condition) {
  for (int i = 0; i < 1000 && !condition(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return condition();
}

class SamplerTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(mkdir(journals_.c_str(), 0700), 0); }

  size_t lines_of(const std::string &name) const {
    size_t found = 0;
    const std::string folder = directory_ / "samples";
    const std::unique_ptr<DIR, int (*)(DIR *)> listing(opendir(folder.c_str()), closedir);
    while (const dirent *entry = listing ? readdir(listing.get()) : nullptr) {
      const std::string text = read_file(std::string(folder).append("/").append(entry->d_name));
      const std::string begin = "{\"name\":\"" + name + '"';
      for (size_t at = text.find(begin); at != std::string::npos; at = text.find(begin, at + 1)) ++found;
    }
    return found;
  }

  TemporaryDirectory directory_;
  std::string journals_ = directory_ / "journals";
  std::string journal_ = journals_ + "/node_1-" + std::to_string(getpid()) + "-1.0.tj";
};

TEST_F(SamplerTest, AJournalWithoutItsHeaderYetIsReadAgain) {
  const Segment segment(directory_ / "trace", journal_, 0, getpid());
  segment.header()->magic = 0;
  const launcher::SamplerThread sampler(directory_.path(), {journals_}, 100);
  ASSERT_TRUE(comes_true([&] { return lines_of("node") >= 3; }));
  EXPECT_EQ(lines_of("process"), 0U);
  segment.header()->magic = kJournalMagic;
  EXPECT_TRUE(comes_true([&] { return lines_of("process") >= 1; }));
}

TEST_F(SamplerTest, AProcessOfAnotherPidNamespaceIsNotSampled) {
  const Segment segment(directory_ / "trace", journal_, 0, getpid());
  segment.header()->pid_namespace = pid_namespace() + 1;
  const launcher::SamplerThread sampler(directory_.path(), {journals_}, 100);
  ASSERT_TRUE(comes_true([&] { return lines_of("node") >= 3; }));
  EXPECT_EQ(lines_of("process"), 0U);
}

}  // namespace
