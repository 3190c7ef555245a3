// Lines of totals: what one says of its calls, where it ends, and that blocks have room for them.
#include "format/totals.h"

#include "format/choices.h"
#include "segments.h"

using namespace tailrace;
using namespace tailrace::test;

namespace {

class Totals : public ::testing::Test {
 protected:
  Totals() : s_(trace_) {
    s_.header()->detail = static_cast<uint32_t>(DetailKind::kTotals);
    s_.context(1, "stage=s");
    file_ = s_.name("/f");
  }
  std::vector<Block> sealed() {
    EXPECT_EQ(s_.seal(), 0);
    return read_blocks(trace_);
  }
  void reads(int count, int64_t offset, int64_t bytes = 512) {
    for (int i = 0; i < count; ++i) s_.event(Fn::f_read, file_, bytes, 1, 512, offset + i * bytes);
  }
  // The lines of events, without those of names.
  static std::vector<std::string> events(const Block &block) {
    std::vector<std::string> found;
    for (const std::string &line : block.lines) {
      if (line.find("\"ph\":\"X\"") != std::string::npos) found.push_back(line);
    }
    return found;
  }

  TemporaryDirectory directory_;
  std::string trace_ = directory_ / "t.pfw.gz";
  Segment s_;
  uint64_t file_;
};

TEST_F(Totals, ALineHasSumsAndPieces) {
  reads(4, 0);
  Slot *later = s_.event(Fn::f_pread, file_, 100, 1, UINT64_MAX, 1024);
  later->t0 += 20'000;
  later->t1 += 20'000;
  std::vector<Block> blocks = sealed();
  ASSERT_EQ(blocks.size(), 1u);
  EXPECT_EQ(number(blocks[0], "events"), 2u);
  EXPECT_EQ(number(blocks[0], "read"), 2148u);
  EXPECT_NE(blocks[0].header.find(R"("totals":[2,5])"), std::string::npos) << blocks[0].header;
  std::vector<std::string> lines = events(blocks[0]);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_NE(lines[0].find(R"("ts":1700000000000001,"dur":0.816,"args":{"ns":1,)"), std::string::npos) << lines[0];
  EXPECT_NE(
      lines[0].find(R"("lines":4,"calls":4,"count":2048,"dir":"r","size":2048,"span":3204,"last":3000,"followed":3,)"
                    R"("sizes":[10,4],"durs":[8,4],"pieces":[4,[0,3204,4,2048,816],[20796,204,1,100,204,[256,25]]],)"
                    R"("stage":"s"}})"),
      std::string::npos)
      << lines[0];
  EXPECT_NE(lines[1].find(R"("name":"pread")"), std::string::npos) << lines[1];
  EXPECT_NE(lines[1].find(R"("lines":1,"calls":1,"dir":"r","size":100,"span":204,"last":0,"sizes":[7,1],"durs":[8,1],)"
                          R"("pieces":[],"stage":"s"}})"),
            std::string::npos)
      << lines[1];
}

TEST_F(Totals, CallsThatTouchABlockMoreThanTheyNeedAreCounted) {
  file_ = s_.name("/blocks", {FileType::kRegular, 254ULL << 32 | 1, 124, 99, 4096});
  s_.event(Fn::f_pread, file_, 4096, 1, 4096, 100);     // the first: another line may have ended there
  s_.event(Fn::f_pread, file_, 4096, 1, 4096, 4196);    // goes on
  s_.event(Fn::f_pread, file_, 4096, 1, 4096, 16'484);  // touches two
  s_.event(Fn::f_pread, file_, 3996, 1, 4096, 32'868);  // inside of one
  s_.event(Fn::f_pread, file_, 8192, 1, 8192, 40'960);  // two, as it needs
  s_.event(Fn::f_pread, file_, 4098, 1, 8192, 65'535);  // three in place of two
  s_.event(Fn::f_pread, file_, 0, 1, 8192, 1'000'001);  // nothing
  std::vector<Block> blocks = sealed();
  std::vector<std::string> lines = events(blocks[0]);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find(R"("followed":1,"placed":6,"unaligned":2,)"), std::string::npos) << lines[0];
}

TEST_F(Totals, ALineEndsBeforeOtherCallsOnItsFile) {
  reads(5, 0);
  s_.event(Fn::f_read, file_, -11, 1, 512);  // failed: moves nothing, changes nothing
  reads(5, 2560);
  s_.event(Fn::f_open, file_, 3, 1, 01001);
  reads(5, 0);
  std::vector<Block> blocks = sealed();
  std::vector<std::string> lines = events(blocks[0]);
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_NE(lines[0].find("\"errno\":11"), std::string::npos);
  EXPECT_NE(lines[1].find("\"lines\":10"), std::string::npos);
  EXPECT_NE(lines[2].find("\"name\":\"open\""), std::string::npos);
  EXPECT_NE(lines[3].find("\"lines\":5"), std::string::npos);
}

TEST_F(Totals, AContextOrAThreadEndsALine) {
  s_.context(2, "stage=t");
  reads(4, 0);
  for (int i = 0; i < 4; ++i) s_.event(Fn::f_read, file_, 1, 2, 1, i);
  s_.context(2, "stage=u");  // another program image counts from 1 again
  for (int i = 0; i < 4; ++i) s_.event(Fn::f_read, file_, 1, 2, 1, i);
  s_.thread(71);
  for (int i = 0; i < 4; ++i) s_.event(Fn::f_read, file_, 1, 2, 1, i);
  std::vector<std::string> lines = events(sealed()[0]);
  ASSERT_EQ(lines.size(), 4u);
  const char *stages[] = {"\"s\"", "\"t\"", "\"u\"", "\"u\""};
  for (int i = 0; i < 4; ++i) {
    EXPECT_NE(lines[i].find(std::string("\"stage\":") + stages[i]), std::string::npos) << lines[i];
    EXPECT_NE(lines[i].find(i < 3 ? "\"tid\":70" : "\"tid\":71"), std::string::npos) << lines[i];
  }
}

TEST_F(Totals, ThreeCallsAreLinesOfTheirOwn) {
  reads(3, 0);
  std::vector<Block> blocks = sealed();
  EXPECT_EQ(number(blocks[0], "events"), 3u);
  EXPECT_EQ(count(blocks[0].json, "\"size\":512"), 3);
  EXPECT_EQ(blocks[0].header.find("totals"), std::string::npos);
}

TEST_F(Totals, BlocksHaveRoomForManyGroupsOfLongContexts) {
  std::string tags = "stage=s";
  for (int i = 0; i < 7; ++i) tags += ",k" + std::to_string(i) + "=" + std::string(1000, 'x');
  s_.context(2, tags);
  std::vector<uint64_t> files;
  for (int i = 0; i < 400; ++i) files.push_back(s_.name("/d/" + std::to_string(i)));
  for (int round = 0; round < 6; ++round) {
    for (uint64_t file : files) s_.event(round % 2 ? Fn::f_read : Fn::f_readv, file, 7, 2, 7, round * 1'000'000'007LL);
  }
  std::vector<Block> blocks = sealed();
  EXPECT_GT(blocks.size(), 3u);
  uint64_t read = 0, calls = 0;
  for (const Block &block : blocks) {
    read += number(block, "read");
    EXPECT_LT(block.json.size(), kBlockRawBytes + kLineSlackBytes);
    for (const std::string &line : events(block)) {
      size_t at = line.find("\"lines\":");
      calls += at == std::string::npos ? 1 : std::stoul(line.substr(at + 8));
    }
  }
  EXPECT_EQ(read, 400u * 6 * 7);
  EXPECT_EQ(calls, 400u * 6);
}

// A hash is repeated from the line before, and not written out 30 kB behind its first one.
TEST_F(Totals, AFilesNameIsBesideItsLines) {
  std::vector<uint64_t> files;
  for (int i = 0; i < 200; ++i) files.push_back(s_.name("/d/" + std::to_string(i)));
  for (int round = 0; round < 5; ++round) {
    for (size_t i = 0; i < files.size(); ++i) {
      if (round < 1 || i % 2) s_.event(Fn::f_stat, files[i], 0, 1);
    }
  }
  std::vector<Block> blocks = sealed();
  ASSERT_EQ(blocks.size(), 1u);
  const std::vector<std::string> &lines = blocks[0].lines;
  ASSERT_EQ(events(blocks[0]).size(), 200u);
  for (size_t i = 1; i < lines.size(); ++i) {
    const size_t at = lines[i].find("\"fhash\":");
    if (at == std::string::npos) continue;
    EXPECT_NE(lines[i - 1].find("\"value\":" + lines[i].substr(at + 8, 18)), std::string::npos) << lines[i];
  }
}

TEST_F(Totals, BlocksHaveRoomForLongNames) {
  std::vector<uint64_t> files;
  for (int i = 0; i < 45; ++i)
    files.push_back(s_.name("/" + std::to_string(i) + std::string(4000, i % 2 ? '\1' : '\xFF')));
  for (int round = 0; round < 5; ++round) {
    for (uint64_t file : files) s_.event(Fn::f_read, file, 7, 1, 7, round * 7);
  }
  uint64_t read = 0;
  for (const Block &block : sealed()) {
    read += number(block, "read");
    EXPECT_LT(block.json.size(), kBlockRawBytes + kLineSlackBytes);
  }
  EXPECT_EQ(read, 45u * 5 * 7);
}

TEST_F(Totals, ManyRangesAreAllKept) {
  for (int i = 0; i < 3500; ++i) s_.event(Fn::f_pread, file_, 3, 1, 3, (i * 7919LL % 3500) * 1'000'000'000'000LL);
  std::vector<Block> blocks = sealed();
  ASSERT_EQ(blocks.size(), 1u);
  EXPECT_EQ(count(events(blocks[0])[0], ",3,999999999997"), 3499);
}

TEST(Detail, Words) {
  Detail detail;
  EXPECT_TRUE(parse_detail("full", detail));
  EXPECT_EQ(detail.kind, DetailKind::kFull);
  EXPECT_TRUE(parse_detail("totals", detail));
  EXPECT_EQ(detail.kind, DetailKind::kTotals);
  EXPECT_TRUE(parse_detail("auto", detail));
  EXPECT_EQ(detail.budget_bytes, kDefaultBudgetBytes);
  EXPECT_TRUE(parse_detail("auto:3K", detail));
  EXPECT_EQ(detail.kind, DetailKind::kAuto);
  EXPECT_EQ(detail.budget_bytes, 3072u);
  for (const char *bad : {"", "some", "auto:", "auto:x", "auto:1T", "auto:1KB", "autos", "auto:99999999999999999G"}) {
    EXPECT_FALSE(parse_detail(bad, detail)) << bad;
  }
}

TEST(Detail, AutoIsFullUpToItsBudget) {
  TemporaryDirectory directory;
  std::string trace = directory / "t.pfw.gz";
  Segment s(trace);
  s.header()->detail = static_cast<uint32_t>(DetailKind::kAuto);
  s.header()->detail_budget = 100;
  for (int round = 0; round < 2; ++round) {
    s.context(1, "");
    uint64_t file = s.name("/f");
    for (int i = 0; i < 9; ++i) s.event(Fn::f_read, file, 5, 1, 5, i * 5);
    ASSERT_EQ(s.seal(), 0);
    s.empty();
  }
  auto blocks = read_blocks(trace);
  ASSERT_EQ(blocks.size(), 2u);
  EXPECT_EQ(number(blocks[0], "events"), 9u);
  EXPECT_EQ(number(blocks[1], "events"), 1u);
}

}  // namespace
