// Settings: hidden from the program, injected into the programs that it starts; over random environments.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "format/settings.h"

using namespace tailrace;

namespace {

// An environment in memory of its own, as the kernel gives one.
class Environment {
 public:
  explicit Environment(const std::vector<std::string> &entries) {
    for (const std::string &e : entries) {
      memory_.push_back(std::make_unique<char[]>(e.size() + 1));
      memcpy(memory_.back().get(), e.c_str(), e.size() + 1);
      pointers_.push_back(memory_.back().get());
    }
    pointers_.push_back(nullptr);
  }
  char **get() { return pointers_.data(); }
  static std::vector<std::string> read(char *const *environment) {
    std::vector<std::string> all;
    for (; environment && *environment; ++environment) all.emplace_back(*environment);
    return all;
  }

 private:
  std::vector<std::unique_ptr<char[]>> memory_;
  std::vector<char *> pointers_;
};

std::vector<std::string> hidden(const std::vector<std::string> &entries) {
  Environment e(entries);
  hide_settings(e.get());
  return Environment::read(e.get());
}

std::vector<std::string> for_child(const StartEnvironment &start, string_view tags, string_view process,
                                   const std::vector<std::string> &entries) {
  Environment e(entries);
  ChildEnvironment child(start, tags, "job=7", process, e.get(), start.preload);
  std::vector<char> memory(child.bytes() + 64, '#');
  std::vector<std::string> all = Environment::read(child.build(memory.data()));
  for (size_t i = child.bytes(); i < memory.size(); ++i) EXPECT_EQ(memory[i], '#') << "written past its memory";
  return all;
}

StartEnvironment started(const std::vector<std::string> &entries) {
  Environment e(entries);
  StartEnvironment start;
  EXPECT_TRUE(read_environment(e.get(), start));
  return start;  // the values are copies
}

bool contains(const std::vector<std::string> &all, const std::string &entry) {
  for (const std::string &e : all) {
    if (e == entry) return true;
  }
  return false;
}

TEST(Settings, NothingIsReadWithoutARun) {
  Environment e({"TAILRACE_TAGS=a=b", "PATH=/bin"});
  StartEnvironment start;
  EXPECT_FALSE(read_environment(e.get(), start));
  EXPECT_FALSE(read_environment(nullptr, start));
}

TEST(Settings, AreReadWithTheirDefaults) {
  StartEnvironment s = started({"TAILRACE_RUN=/run", "TAILRACE_TAGS=", "LD_PRELOAD=/x.so:/y/libtailrace.so /z.so",
                                "SLURM_JOB_ID=7", "FLUX_JOB_ID=f1", "PMI_RANK=3", "TAILRACE_RUNNER=no"});
  EXPECT_EQ(s[Setting::TAILRACE_RUN], "/run");
  EXPECT_EQ(s[Setting::TAILRACE_TAGS], "");
  EXPECT_EQ(s[Setting::TAILRACE_JOURNAL_DIR], "/dev/shm");
  EXPECT_EQ(s.preload, "/y/libtailrace.so");
  EXPECT_EQ(s.managed, "task=7,job=f1,rank=3");
}

TEST(Settings, Hiding) {
  using Entries = std::vector<std::string>;
  EXPECT_EQ(hidden({"A=1", "TAILRACE_RUN=/r", "TAILRACE_TAGS=a=b", "B=2"}), (Entries{"A=1", "B=2"}));
  EXPECT_EQ(hidden({"LD_PRELOAD=/l/libtailrace.so"}), Entries{});
  EXPECT_EQ(hidden({"LD_PRELOAD=/x.so:/l/libtailrace.so"}), (Entries{"LD_PRELOAD=/x.so"}));
  EXPECT_EQ(hidden({"LD_PRELOAD=/l/libtailrace.so:/x.so"}), (Entries{"LD_PRELOAD=/x.so"}));
  EXPECT_EQ(hidden({"LD_PRELOAD=/x.so /y.so"}), (Entries{"LD_PRELOAD=/x.so /y.so"}));
  EXPECT_EQ(hidden({"LD_PRELOAD=/x.so  : /y.so:"}), (Entries{"LD_PRELOAD=/x.so  : /y.so:"}));
  EXPECT_EQ(hidden({"LD_PRELOAD="}), (Entries{"LD_PRELOAD="}));
  EXPECT_EQ(hidden({"TAILRACE_RUNNER=mine", "XTAILRACE_RUN=1", "TAILRACE_RUN"}),
            (Entries{"TAILRACE_RUNNER=mine", "XTAILRACE_RUN=1", "TAILRACE_RUN"}));
  EXPECT_EQ(hidden({}), Entries{});
  hide_settings(nullptr);
}

TEST(Settings, AChildGetsThemBack) {
  StartEnvironment start = started({"TAILRACE_RUN=/run", "LD_PRELOAD=/l/libtailrace.so"});
  auto child = for_child(start, "stage=s", "1:2:3:4", {"A=1", "LD_PRELOAD=/other.so", "TAILRACE_TAGS=old=1"});
  EXPECT_TRUE(contains(child, "TAILRACE_RUN=/run"));
  EXPECT_TRUE(contains(child, "TAILRACE_TAGS=stage=s"));
  EXPECT_TRUE(contains(child, "TAILRACE_PROCESS=1:2:3:4"));
  EXPECT_TRUE(contains(child, "LD_PRELOAD=/l/libtailrace.so:/other.so"));
  EXPECT_TRUE(contains(child, "A=1"));
  EXPECT_TRUE(contains(child, "TAILRACE_MANAGED_TAGS=job=7"));
  EXPECT_EQ(child.size(), 6u);
  EXPECT_EQ(for_child(start, "", "", {}).size(), 3u);
  Environment e({"TAILRACE_TAGS=mine=1"});
  EXPECT_EQ(ChildEnvironment::tags_in(start, e.get()), "mine=1");
  EXPECT_EQ(ChildEnvironment::tags_in(start, nullptr), "");
}

TEST(Settings, AProgramMayRemoveExposedSettings) {
  std::vector<std::string> exposed = {"TAILRACE_RUN=/run", "TAILRACE_TAGS=a=1", "TAILRACE_PROPAGATE=environment",
                                      "LD_PRELOAD=/x.so:/l/libtailrace.so"};
  StartEnvironment start = started(exposed);
  auto wanted = [&](const std::vector<std::string> &entries) {
    return is_wanted_in(start, Environment(entries).get());
  };
  EXPECT_TRUE(wanted(exposed));
  EXPECT_FALSE(wanted({}));
  EXPECT_FALSE(wanted({"TAILRACE_RUN=/run"}));
  EXPECT_FALSE(wanted({"TAILRACE_RUN=/run", "LD_PRELOAD=/x.so"}));
  EXPECT_FALSE(wanted({"TAILRACE_RUN=", "LD_PRELOAD=/l/libtailrace.so"}));
  EXPECT_FALSE(is_wanted_in(start, nullptr));
  EXPECT_TRUE(is_wanted_in(started({"TAILRACE_RUN=/run"}), nullptr));
  EXPECT_TRUE(is_wanted_in(started({"TAILRACE_RUN=/run", "TAILRACE_PROPAGATE=never heard of"}), nullptr));
  // The program did not set the values that it was started with.
  EXPECT_EQ(ChildEnvironment::tags_in(start, Environment(exposed).get()), "");
  EXPECT_EQ(ChildEnvironment::tags_in(start, Environment({"TAILRACE_TAGS=a=2"}).get()), "a=2");

  Environment process({"A=1", "TAILRACE_PROCESS=1:2", "TAILRACE_RUN=/run"});
  hide_identity(process.get());
  EXPECT_EQ(Environment::read(process.get()), (std::vector<std::string>{"A=1", "TAILRACE_RUN=/run"}));
  hide_identity(nullptr);
}

TEST(Settings, AProgramThatCanNotBeTracedGetsNoneOfThem) {
  StartEnvironment start = started({"TAILRACE_RUN=/run", "LD_PRELOAD=/l/libtailrace.so"});
  auto without = [&](const std::vector<std::string> &entries) {
    Environment e(entries);
    ChildEnvironment child(start, "", "", "", e.get(), start.preload);
    std::vector<char> memory(child.bytes() + 64, '#');
    std::vector<std::string> all = Environment::read(child.build_without(memory.data()));
    for (size_t i = child.bytes(); i < memory.size(); ++i) EXPECT_EQ(memory[i], '#') << "written past its memory";
    EXPECT_EQ(Environment::read(e.get()), entries) << "the program's own is changed";
    return all;
  };
  using Entries = std::vector<std::string>;
  EXPECT_EQ(without({}), Entries{});
  EXPECT_EQ(without({"A=1", "TAILRACE_RUN=/run", "LD_PRELOAD=/l/libtailrace.so", "B=2"}), (Entries{"A=1", "B=2"}));
  EXPECT_EQ(without({"LD_PRELOAD=/x.so:/l/libtailrace.so:/y.so"}), (Entries{"LD_PRELOAD=/x.so:/y.so"}));
  EXPECT_EQ(without({"LD_PRELOAD=/x.so", "LD_PRELOAD=/l/libtailrace.so:/y.so"}), (Entries{"LD_PRELOAD=/y.so"}));
}

// For any environment: hiding leaves the rest in order, restoring gives the child all of it and the settings, and
// hiding in the child gives the program's own view again.
TEST(Settings, HidingUndoesRestoringOverRandomEnvironments) {
  std::mt19937 random(6);
  static const char *const names[] = {"A",
                                      "PATH",
                                      "LD_PRELOAD",
                                      "TAILRACE_RUN",
                                      "TAILRACE_TAGS",
                                      "TAILRACE_X",
                                      "TAILRACE_CLOCK",
                                      "TAILRACE_PROCESS",
                                      "",
                                      "ODD NAME",
                                      "TAILRACE_JOURNAL_DIR"};
  static const char *const values[] = {"",
                                       "1",
                                       "=",
                                       "a=b",
                                       "/x.so",
                                       "/x.so:/y.so",
                                       "/l/libtailrace.so",
                                       "/x.so:/l/libtailrace.so:/y.so",
                                       " : ",
                                       "long value with blanks",
                                       "/p/libtailrace.so.not"};
  for (int i = 0; i < 20000; ++i) {
    std::vector<std::string> entries{"TAILRACE_RUN=/run"};
    for (size_t n = random() % 12; n > 0; --n) {
      std::string name = names[random() % (sizeof names / sizeof *names)];
      // A name that is there twice is left out: programs differ in which one they use.
      bool twice = false;
      for (const std::string &e : entries) twice = twice || e.compare(0, name.size() + 1, name + "=") == 0;
      if (!twice)
        entries.push_back(name + (random() % 20 ? "=" : "") + values[random() % (sizeof values / sizeof *values)]);
    }
    StartEnvironment start = started(entries);
    std::vector<std::string> visible = hidden(entries);
    for (const std::string &e : visible) {
      if (e.rfind("LD_PRELOAD=", 0) == 0) {
        ASSERT_EQ((e + ":").find("/libtailrace.so:"), std::string::npos) << e;
      }
      ASSERT_FALSE(e.rfind("TAILRACE_RUN=", 0) == 0) << e;
    }
    auto child = for_child(start, start[Setting::TAILRACE_TAGS], "", visible);
    auto again = hidden(child);
    // LD_PRELOAD may have moved to the front, and with ours between others its separators are colons.
    auto normal = [](std::vector<std::string> all) {
      std::vector<std::string> out;
      for (std::string &e : all) {
        if (e.rfind("LD_PRELOAD=", 0) == 0) {
          std::string list;
          for (char c : e.substr(11)) {
            if (c == ' ') c = ':';
            if (c != ':' || (!list.empty() && list.back() != ':')) list += c;
          }
          while (!list.empty() && list.back() == ':') list.pop_back();
          if (list.empty()) continue;
          e = "LD_PRELOAD=" + list;
        }
        out.push_back(e);
      }
      std::sort(out.begin(), out.end());
      return out;
    };
    ASSERT_EQ(normal(again), normal(visible));
    StartEnvironment second = started(child);
    ASSERT_EQ(second[Setting::TAILRACE_RUN], "/run");
    ASSERT_EQ(second[Setting::TAILRACE_TAGS], start[Setting::TAILRACE_TAGS]);
    ASSERT_EQ(second.preload, start.preload);
  }
}

}  // namespace
