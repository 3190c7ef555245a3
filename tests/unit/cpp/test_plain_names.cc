// linker/plain_names.h, and which of them are chosen (format/choices.h).
#include "linker/plain_names.h"

#include <gtest/gtest.h>

#include <string>

#include "format/choices.h"

using namespace tailrace;

namespace {

std::string plain(string_view symbol) {
  char room[1024];
  Writer out(room, sizeof room);
  write_plain_name(symbol, out);
  return std::string(out.view());
}

TEST(PlainNames, ParametersAndTemplateArgumentsAreLeftOut) {
  EXPECT_EQ(plain("_ZN4mesh6Reader4nextIiEET_S2_RKSt6vectorIS2_SaIS2_EE"), "mesh::Reader::next");
  EXPECT_EQ(plain("_Z5solvei"), "solve");
  EXPECT_EQ(plain("_ZNKSt6vectorIiSaIiEE4sizeEv"), "std::vector::size");
  EXPECT_EQ(plain("_ZNSt5dequeISt4pairIiN1a1bEESaIS3_EE4pushERKS3_"), "std::deque::push");
  EXPECT_EQ(plain("_ZSt4moveIRiEONSt16remove_referenceIT_E4typeEOS2_"), "std::move");
}

TEST(PlainNames, ConstructorsDestructorsAndOperators) {
  EXPECT_EQ(plain("_ZN4mesh6ReaderC2Ev"), "mesh::Reader::Reader");
  EXPECT_EQ(plain("_ZN4mesh6ReaderD0Ev"), "mesh::Reader::~Reader");
  EXPECT_EQ(plain("_ZN4mesh4ListIiEC1ERKS1_"), "mesh::List::List");
  EXPECT_EQ(plain("_ZN4mesh6ReaderpLEi"), "mesh::Reader::operator+=");
  EXPECT_EQ(plain("_ZNK4mesh6ReadercvbEv"), "mesh::Reader::operator bool");
  EXPECT_EQ(plain("_ZN4mesh6ReadernwEm"), "mesh::Reader::operator new");
}

TEST(PlainNames, NamesWithoutAName) {
  EXPECT_EQ(plain("_ZN3app12_GLOBAL__N_16hiddenEv"), "app::(anonymous namespace)::hidden");
  EXPECT_EQ(plain("_ZZ4mainENKUlvE_clEv"), "main::{lambda#1}::operator()");
  EXPECT_EQ(plain("_ZZN1a1fEiENKUliiE1_clEii"), "a::f::{lambda#3}::operator()");
  EXPECT_EQ(plain("_ZL6staticv"), "static");
}

TEST(PlainNames, FortranAndCopiesOfTheCompiler) {
  EXPECT_EQ(plain("__solver_MOD_step"), "solver::step");
  EXPECT_EQ(plain("read_row.constprop.0"), "read_row");
  EXPECT_EQ(plain("_ZN4mesh4readEv.cold"), "mesh::read");
  EXPECT_EQ(plain("solve_"), "solve_");
}

TEST(PlainNames, WhatIsNotUnderstoodStays) {
  for (const char *symbol :
       {"_Z", "_ZN", "_ZN4mesh", "_ZN99mesh1aEv", "_ZNS1_1aEv", "_ZTV4mesh", "_ZQQ", "main", "_"}) {
    EXPECT_EQ(plain(symbol), symbol);
  }
  // Nesting is bounded.
  const std::string deep = "_Z1fI" + std::string(5000, 'P') + "iEvv", nested = "_ZN1aI" + std::string(9000, 'N');
  EXPECT_EQ(plain(deep.substr(0, 500)), deep.substr(0, 500));
  EXPECT_EQ(plain(nested.substr(0, 500)), nested.substr(0, 500));
}

bool chosen(string_view name, string_view patterns) { return is_function_chosen(name, "libmesh.so.2", patterns); }

TEST(FunctionChoice, ANameIsAllInIt) {
  EXPECT_TRUE(chosen("mesh::Reader::next", "mesh"));
  EXPECT_TRUE(chosen("mesh::Reader::next", "other:mesh::Reader"));
  EXPECT_TRUE(chosen("mesh", "mesh"));
  EXPECT_FALSE(chosen("meshes::next", "mesh"));
  EXPECT_FALSE(chosen("mesh::Reader", "Reader"));
  EXPECT_FALSE(chosen("mesh", ""));
}

TEST(FunctionChoice, SingleColonsSeparateAndDoubleOnesDoNot) {
  EXPECT_TRUE(chosen("read_row", "mesh::*:read_*"));
  EXPECT_TRUE(chosen("mesh::next", "mesh::n*:read_*"));
  EXPECT_FALSE(chosen("mesh::last", "mesh::n*:read_*"));
}

TEST(FunctionChoice, ExclusionsWin) {
  EXPECT_FALSE(chosen("mesh::dot", "!mesh::dot:mesh"));
  EXPECT_TRUE(chosen("mesh::next", "!mesh::dot:mesh"));
  EXPECT_TRUE(chosen("anything", "!mesh::dot"));
  EXPECT_FALSE(chosen("mesh::dot", "!mesh"));
}

TEST(FunctionChoice, AnObjectIsChosenByItsFile) {
  EXPECT_TRUE(chosen("next", "libmesh.so*/"));
  EXPECT_TRUE(chosen("next", "libmesh.so*/n*"));
  EXPECT_FALSE(chosen("next", "libother.so/*"));
  EXPECT_FALSE(chosen("next", "*:!libmesh.so.2/next"));
  EXPECT_TRUE(chosen("Vector::operator/", "Vector::operator/"));
}

TEST(FunctionChoice, AnEmptyPatternIsAMistake) {
  EXPECT_TRUE(are_function_patterns("a::b:c"));
  EXPECT_FALSE(are_function_patterns("a:"));
  EXPECT_FALSE(are_function_patterns("!"));
  EXPECT_FALSE(are_function_patterns(""));
}

}  // namespace
