// Patterns of paths, and the choice of layers.
#include <gtest/gtest.h>

#include <string>

#include "format/choices.h"
#include "format/path_patterns.h"

using namespace tailrace;

namespace {

TEST(PathPatterns, APatternWithoutASlashIsOfTheLastName) {
  EXPECT_TRUE(matches_any_pattern("/data/a.log", "*.log"));
  EXPECT_TRUE(matches_any_pattern("/data/a.log", "b:?.log"));
  EXPECT_FALSE(matches_any_pattern("/data/a.log/x", "*.log"));
  EXPECT_FALSE(matches_any_pattern("/data/a.log", "a"));
}

TEST(PathPatterns, AStarTakesSlashesAndNothing) {
  EXPECT_TRUE(matches_any_pattern("/scratch/a/b", "/scratch/*"));
  EXPECT_TRUE(matches_any_pattern("/scratch/", "/scratch/*"));
  EXPECT_TRUE(matches_any_pattern("/a/x/b/x/c", "/*/x/c"));
  EXPECT_FALSE(matches_any_pattern("/scratch", "/scratch/*"));
}

TEST(PathPatterns, NoPatternMatchesNothing) {
  EXPECT_FALSE(matches_any_pattern("/a", ""));
  EXPECT_FALSE(matches_any_pattern("/a", ":"));
}

TEST(PathPatterns, ManyStarsTakeNoMoreThanTheProductOfTheLengths) {
  std::string pattern = "/";
  for (int i = 0; i < 2000; ++i) pattern += "*a";
  EXPECT_FALSE(matches_any_pattern("/" + std::string(4000, 'a') + "b", pattern));
}

TEST(LayerChoice, NamesAndTheWordsForAllAndNone) {
  uint32_t layers = 7;
  EXPECT_TRUE(parse_layers("all", layers));
  EXPECT_EQ(layers, 3U);
  EXPECT_TRUE(parse_layers("none", layers));
  EXPECT_EQ(layers, 0U);
  EXPECT_TRUE(parse_layers("mpiio", layers));
  EXPECT_EQ(layers, 2U);
  EXPECT_TRUE(parse_layers("hdf5,mpiio", layers));
  EXPECT_EQ(layers, 3U);
  EXPECT_FALSE(parse_layers("hdf", layers));
  EXPECT_EQ(layers, 3U) << "an unknown name leaves nothing out";
}

}  // namespace
