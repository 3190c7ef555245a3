// Command lines and configurations of Apptainer and Singularity: which containers can have the library.
#include "session/container_words.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

using namespace tailrace;

namespace {

struct Case {
  const char *words;
  bool runs, cleans;
};

ContainerCommand command(const std::string &exe, const std::string &words, std::vector<std::string> environment = {}) {
  std::vector<std::string> parts = {"apptainer"};
  for (size_t at = 0; at < words.size();) {
    size_t end = std::min(words.find(' ', at), words.size());
    parts.push_back(words.substr(at, end - at));
    at = end + 1;
  }
  std::vector<char *> argv, entries;
  for (std::string &part : parts) argv.push_back(part.data());
  for (std::string &entry : environment) entries.push_back(entry.data());
  argv.push_back(nullptr);
  entries.push_back(nullptr);
  return ContainerCommand(exe, argv.data(), entries.data());
}

class Configuration : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = std::filesystem::temp_directory_path() / ("tailrace-words-" + std::to_string(::getpid()));
    std::filesystem::create_directories(root_ / "bin");
    std::filesystem::create_directories(root_ / "etc/apptainer");
    write("");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void write(const std::string &text) { std::ofstream(root_ / "etc/apptainer/apptainer.conf") << text; }
  std::string exe() const { return root_ / "bin/apptainer"; }

  std::filesystem::path root_;
};

}  // namespace

TEST_F(Configuration, ActionsAndTheirOptions) {
  const Case cases[] = {
      {"exec image.sif cp a b", true, false},
      {"--quiet -d exec image.sif cp", true, false},
      {"-c other.conf run image.sif", true, false},
      {"instance start image.sif name", true, false},
      {"exec --cleanenv image.sif cp", true, true},
      {"exec -eC image.sif cp", true, true},
      {"shell --containall image.sif", true, true},
      // Words of the program, behind the image.
      {"exec image.sif grep -w a", true, false},
      {"exec --bind /a image.sif env -e --writable", true, false},
      {"exec -B /a -H /b:/c image.sif grep -w", true, false},
      {"exec -B/a image.sif grep -w", true, false},
      {"exec --env=A=b --pwd /w image.sif grep -w", true, false},
      // It has no layer over the image, where a place could be made for a bind.
      {"exec --writable image cp", false, false},
      {"exec -w image cp", false, false},
      {"exec -uw image cp", false, false},
      {"exec --writable-tmpfs image cp", true, false},
      // It has the binds that it was started with.
      {"exec instance://name cp", false, false},
      {"instance stop name", false, false},
      {"instance", false, false},
      {"build image.sif image.def", false, false},
      {"pull docker://debian", false, false},
      {"exec", false, false},
      {"exec --bind", false, false},
      {"--version", false, false},
      {"-c", false, false},
      {"", false, false},
  };
  for (const Case &one : cases) {
    const ContainerCommand found = command(exe(), one.words);
    EXPECT_EQ(found.runs_container(), one.runs) << one.words;
    if (one.runs) EXPECT_EQ(found.cleans_environment(), one.cleans) << one.words;
  }
}

TEST_F(Configuration, Programs) {
  EXPECT_EQ(command(exe(), "exec image cp").prefix(), "APPTAINER");
  EXPECT_EQ(command(root_ / "bin/singularity", "exec image cp").prefix(), "SINGULARITY");
  EXPECT_FALSE(command("/usr/bin/apptainer2", "exec image cp").runs_container());
  EXPECT_FALSE(command("/usr/bin/cp", "exec image cp").runs_container());
}

TEST_F(Configuration, Variables) {
  EXPECT_FALSE(command(exe(), "exec image cp", {"APPTAINER_WRITABLE=true"}).runs_container());
  EXPECT_FALSE(command(exe(), "exec image cp", {"SINGULARITY_WRITABLE=1"}).runs_container());
  EXPECT_TRUE(command(exe(), "exec image cp", {"APPTAINER_WRITABLE=0", "SINGULARITY_WRITABLE="}).runs_container());
  EXPECT_TRUE(command(exe(), "exec image cp", {"APPTAINER_WRITABLE_TMPFS=1"}).runs_container());
  EXPECT_TRUE(command(exe(), "exec image cp", {"APPTAINER_CLEANENV=1"}).cleans_environment());
}

TEST_F(Configuration, WhatTheSiteForbids) {
  write("enable overlay = no\nenable underlay = yes\n");
  EXPECT_TRUE(command(exe(), "exec image cp").runs_container());
  write("# enable underlay = no\nenable overlay = no\n");
  EXPECT_TRUE(command(exe(), "exec image cp").runs_container());
  write("enable overlay=no\nenable underlay =  no");
  EXPECT_FALSE(command(exe(), "exec image cp").runs_container());
  write("user bind control = no\n");
  EXPECT_FALSE(command(exe(), "exec image cp").runs_container());
  std::filesystem::remove_all(root_ / "etc");
  EXPECT_TRUE(command(exe(), "exec image cp").runs_container());
}
