#include <gtest/gtest.h>

#include <map>
#include <string>

#include "format/functions.h"
#include "format/time_kinds.h"

namespace tailrace {
namespace {

Function row(size_t i) { return function(static_cast<Fn>(i)); }

// The analyzer identifies a function by its event's name alone.
TEST(Functions, RowsOfOneNameMeanTheSame) {
  std::map<std::string, uint32_t> meaning;
  for (size_t i = 1; i < kFunctionCount; ++i) {
    const Function f = row(i);
    const uint32_t traits = f.traits & ~trait::kUncounted;
    const auto seen = meaning.emplace(std::string(f.name), traits).first;
    EXPECT_EQ(seen->second, traits) << f.name.view();
  }
}

TEST(Functions, ARowOfTheHookTableHasItsFunction) {
  constexpr const char *kSymbols[] = {
#define HOOK(symbol, ...) #symbol,
#include "format/hooks.def"
#undef HOOK
  };
  size_t row = 0;
  for (const char *symbol : kSymbols) EXPECT_EQ(function(hook_function(row++)).symbol.view(), symbol);
}

TEST(Functions, ARowHasTheTraitsOfItsCategory) {
  EXPECT_TRUE(function(Fn::f_recv).uncounted);
  EXPECT_TRUE(function(Fn::f_mq_send).uncounted);
  EXPECT_TRUE(function(Fn::f_splice).uncounted);
  EXPECT_FALSE(function(Fn::f_read).uncounted);
  for (size_t i = 1; i < kFunctionCount; ++i) {
    const string_view category = row(i).category;
    const bool above = category == "HDF5" || category == "MPIIO" || category == "APP" || category == "GPU";
    EXPECT_EQ(row(i).above, above) << row(i).name.view();
  }
}

TEST(Functions, TransfersAreOfADirection) {
  for (size_t i = 1; i < kFunctionCount; ++i) {
    const Function f = row(i);
    const bool moves = f.shape == Shape::kTransfer || f.shape == Shape::kItems || f.shape == Shape::kPointer ||
                       f.shape == Shape::kStatus || f.shape == Shape::kChars || f.shape == Shape::kMessages ||
                       f.shape == Shape::kDone;
    const bool plain = f.shape == Shape::kPlain;
    EXPECT_TRUE(!moves || f.direction != Direction::N) << f.symbol.view() << " " << f.name.view();
    EXPECT_TRUE(!plain || f.direction == Direction::N) << f.symbol.view() << " " << f.name.view();
  }
}

std::string time_of(Fn fn) { return std::string(kTimeKindNames[function(fn).time_kind]); }

TEST(Functions, ARowTellsWhatItsTimeIs) {
  const std::pair<Fn, const char *> rows[] = {
      {Fn::f_read, "data"},       {Fn::f_fflush, "data"},    {Fn::kAioRead, "data"},   {Fn::f_getpwnam, "data"},
      {Fn::f_open, "metadata"},   {Fn::f_fopen, "metadata"}, {Fn::f_stat, "metadata"}, {Fn::f_mmap, "metadata"},
      {Fn::f_fsync, "flush"},     {Fn::f_msync, "flush"},    {Fn::f_recv, "socket"},   {Fn::f_accept, "socket"},
      {Fn::f_fcntl, "lock"},      {Fn::f_flock, "lock"},     {Fn::f_usleep, "sleep"},  {Fn::f_ppoll, "polling"},
      {Fn::f_waitpid, "child"},   {Fn::f_system, "child"},   {Fn::f_pclose, "child"},  {Fn::kFutex, "thread"},
      {Fn::f_sem_wait, "thread"}, {Fn::f_sigwait, "signal"}, {Fn::f_fork, "process"},  {Fn::f_execve, "process"},
      {Fn::kStart, ""},           {Fn::kThread, ""},         {Fn::kEnter, ""},         {Fn::kRegion, ""},
      {Fn::f_H5Dread, ""},
  };
  for (const auto &[fn, time] : rows) EXPECT_EQ(time_of(fn), time) << function(fn).name.view();
}

TEST(Functions, EveryWaitHasItsTime) {
  for (size_t i = 1; i < kFunctionCount; ++i) {
    const Function f = row(i);
    const bool waits = f.category.view() == "WAIT" && f.shape != Shape::kPlain;
    if (waits) EXPECT_NE(f.traits & trait::kTimeKind, 0u) << f.name.view();
  }
}

TEST(Functions, CategoriesAreUsed) {
  for (const CategoryRow &category : kCategories) {
    bool used = false;
    for (size_t i = 1; i < kFunctionCount && !used; ++i) used = row(i).category.view() == category.name;
    EXPECT_TRUE(used) << category.name;
  }
}

}  // namespace
}  // namespace tailrace
