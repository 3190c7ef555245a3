// Journal to trace file: every kind of record becomes its line, blocks are split and agree with their headers, and what
// can't be written is counted.
#include <errno.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "format/lock_kind.h"
#include "format/run_id.h"
#include "segments.h"

using namespace tailrace;
using namespace tailrace::test;

namespace {

class Seal : public TraceFileTest {};

TEST_F(Seal, ALineIsTheRecord) {
  Segment s(trace_);
  s.context(1, "workflow=w,stage=s,tag%");  // broken tags are no tags
  s.context(2, "workflow=w,stage=s,try=0");
  uint64_t file = s.name("/data/in\"put", {FileType::kRegular, 254ULL << 32 | 1, 123, 99, 65536});
  s.event(Fn::f_read, file, 4096, 2, 8192, 512);
  ASSERT_EQ(s.seal(), 0);
  auto blocks = read_blocks(trace_);
  ASSERT_EQ(blocks.size(), 1u);
  char hash[17] = {}, host[9] = {};
  put_hex(hash, file, 16);
  put_hex(host, fnv32("node-1"), 8);
  std::string h = hash, n = host;
  ASSERT_EQ(blocks[0].lines.size(), 4u);
  EXPECT_EQ(
      blocks[0].lines[0],
      R"({"name":"HH","cat":"tailrace","ph":"M","pid":7,"tid":70,"args":{"name":"node-1","value":")" + n + "\"}}");
  EXPECT_EQ(
      blocks[0].lines[1],
      R"({"name":"clock","cat":"tailrace","ph":"M","pid":7,"tid":70,"args":{"realtime_ns":1700000000000000000,"monotonic_ns":5000000000}})");
  EXPECT_EQ(blocks[0].lines[2],
            R"({"name":"FH","cat":"tailrace","ph":"M","pid":7,"tid":70,"args":{"name":"/data/in\"put","value":")" + h +
                R"(","type":"reg","dev":"254:1","ino":123,"btime":99,"blksize":65536}})");
  EXPECT_EQ(
      blocks[0].lines[3],
      R"({"name":"read","cat":"POSIX","ph":"X","pid":7,"tid":70,"ts":1700000000000001,"dur":0.204,"args":{"offset":512,"ns":1,"fhash":")" +
          h + R"(","count":8192,"size":4096,"workflow":"w","stage":"s","tag.try":"0"}})");
}

TEST_F(Seal, ALineLeavesOutWhatItsOtherFieldsTell) {
  Segment s(trace_);
  struct Row {
    Fn fn;
    int64_t ret;
    uint64_t count, file2;
    const char *args;
  };
  const Row rows[] = {
      {Fn::f_read, 9, 9, 0, R"("size":9})"},
      {Fn::f_read, 5, 9, 0, R"("count":9,"size":5})"},
      {Fn::f_read, -9, 9, 0, R"("count":9,"size":0,"errno":9})"},
      {Fn::f_send, 9, 9, 0, R"("dir":"w","size":9})"},
      {Fn::f_getline, 9, UINT64_MAX, 0, R"("count":null,"dir":"r","size":9})"},
      {Fn::f_fread, 8, 8, 4, R"("size":8,"ret":2})"},
      {Fn::f_fputc, 3, 3, 0, R"("calls":3,"dir":"w","size":3})"},
      {Fn::f_H5Dread, kUnknownBytes, 4, 0, R"("count":4,"dir":"r","ret":0})"},
      {Fn::f_H5Dread, 4, 4, 0, R"("size":4,"ret":0})"},
      {Fn::f_getpwnam, 7, 1, 0, R"("dir":"r","count":null,"size":7,"ret":1})"},
      {Fn::f_stat, -2, 0, 0, R"("errno":2})"},
      {Fn::f_stat, 0, 0, 0, R"("ret":0})"},
  };
  for (const Row &row : rows) s.event(row.fn, 0, row.ret, 1, row.count, -1, row.file2);
  ASSERT_EQ(s.seal(), 0);
  auto lines = read_blocks(trace_)[0].lines;
  ASSERT_EQ(lines.size(), 2 + std::size(rows));
  for (size_t i = 0; i < std::size(rows); ++i) {
    const std::string &line = lines[2 + i];
    const char *after_ns = strchr(strstr(line.c_str(), "\"ns\":"), ',') + 1;
    EXPECT_EQ(std::string(after_ns), std::string(rows[i].args) + "}");
  }
}

// Behind the nanoseconds of a line's args.
std::string args_of(const std::string &line) { return strchr(strstr(line.c_str(), "\"ns\":"), ',') + 1; }

TEST_F(Seal, AWaitTellsWhatItWasFor) {
  Segment s(trace_);
  const struct {
    Fn fn;
    int64_t ret;
    uint64_t timeout_ns, word;
    const char *args;
  } rows[] = {
      {Fn::f_nanosleep, 0, 5000, blocked_word(1, 0, false), R"("timeout_ns":5000,"ret":0}})"},
      {Fn::f_poll, 1, UINT64_MAX, blocked_word(1, 3, false), R"("descriptors":3,"ret":1}})"},
      {Fn::f_pthread_join, 0, UINT64_MAX, blocked_word(1, 71, false), R"("thread":71,"ret":0}})"},
      {Fn::f_pause, -4, UINT64_MAX, blocked_word(1, 0, false), R"("errno":4}})"},
      {Fn::f_poll, 0, 1000, blocked_word(9, 2, false), R"("timeout_ns":1000,"descriptors":2,"calls":9,"span":204}})"},
      {Fn::f_poll, 0, UINT64_MAX, blocked_word(1, 0, true), R"("calls":1,"at_once":1,"span":204}})"},
  };
  for (const auto &row : rows) s.event(row.fn, 0, row.ret, 1, row.timeout_ns, 180, row.word);
  ASSERT_EQ(s.seal(), 0);
  const auto lines = read_blocks(trace_)[0].lines;
  ASSERT_EQ(lines.size(), 2 + std::size(rows));
  for (size_t i = 0; i < std::size(rows); ++i) {
    EXPECT_EQ(args_of(lines[2 + i]), rows[i].args);
    // Of several calls their sum, which is less than what passed.
    const char *dur = i < 4 ? "\"dur\":0.204," : "\"dur\":0.180,";
    EXPECT_NE(lines[2 + i].find(dur), std::string::npos) << lines[2 + i];
  }
}

TEST_F(Seal, ALockTellsItsKindItsRangeAndTheHolder) {
  Segment s(trace_);
  s.event(Fn::f_fcntl, 0, 0, 1, 5, 10, lock_word(LOCK_EX, 42));
  s.event(Fn::f_flock, 0, 0, 1, 0, 0, lock_word(LOCK_SH | LOCK_NB, 0));
  s.event(Fn::f_fcntl, 0, -11, 1, 0, -1, 0);  // refused
  s.event(Fn::f_fcntl, 0, 7, 1, 0, -1, 0);    // a duplicate
  ASSERT_EQ(s.seal(), 0);
  const auto lines = read_blocks(trace_)[0].lines;
  ASSERT_EQ(lines.size(), 6u);
  EXPECT_EQ(args_of(lines[2]), R"("flags":2,"count":5,"holder":42,"ret":0}})");
  EXPECT_NE(lines[2].find("\"offset\":10"), std::string::npos);
  EXPECT_EQ(args_of(lines[3]), R"("flags":5,"count":0,"ret":0}})");
  EXPECT_EQ(args_of(lines[4]), R"("errno":11}})");
  EXPECT_EQ(args_of(lines[5]), R"("ret":7}})");
}

TEST_F(Seal, AThreadAndATasksEndsHaveTheProcessorTimeThatIsKnown) {
  Segment s(trace_);
  s.context(1, "task=t");
  s.event(Fn::kEnter, 0, 0, 1, 100, 20);
  s.event(Fn::kLeave, 0, 0, 1, UINT64_MAX, -1);
  s.event(Fn::kThread, 0, 0, 1, 100, -1);
  ASSERT_EQ(s.seal(), 0);
  const auto lines = read_blocks(trace_)[0].lines;
  EXPECT_EQ(args_of(lines[2]), R"("run_ns":100,"ready_ns":20,"task":"t"}})");
  EXPECT_EQ(args_of(lines[3]), R"("task":"t"}})");
  EXPECT_EQ(args_of(lines[4]), R"("run_ns":100,"task":"t"}})");
}

// A machine whose clock was never set begins at 1970.
TEST_F(Seal, TimesSoonAfterTheEpochAreWhole) {
  Segment s(trace_);
  s.header()->start_realtime_ns = s.header()->start_monotonic_ns + 4'999'000'000;
  const uint64_t file = s.name("/data/input");
  for (int i = 0; i < 40; ++i) {
    Slot *read = s.event(Fn::f_read, file, 4096, 1, 4096, 4096 * i);
    read->t0 = 5'000'000'000 + 97'000ULL * static_cast<uint64_t>(i);
    read->t1 = read->t0 + 204;
  }
  ASSERT_EQ(s.seal(), 0);
  const auto lines = read_blocks(trace_).at(0).lines;
  ASSERT_EQ(lines.size(), 43u);
  for (int i = 0; i < 40; ++i) {
    const std::string time = "\"ts\":" + std::to_string(9'999'000 + 97 * i) + ",\"dur\":0.204,";
    EXPECT_NE(lines[static_cast<size_t>(i) + 3].find(time), std::string::npos) << lines[static_cast<size_t>(i) + 3];
  }
}

TEST_F(Seal, TheHeaderAgreesWithItsBlock) {
  Segment s(trace_, "", 3);
  s.context(1, "stage=a");
  s.context(2, "");
  uint64_t in = s.name("/in"), out = s.name("/out", {FileType::kRegular, 1, 2, 0});
  s.event(Fn::f_read, in, 100, 1, 100);
  s.event(Fn::f_write, out, 50, 2, 60);
  s.event(Fn::f_copy_file_range, in, 7, 1, 7, -1, out);
  s.event(Fn::f_write, out, -28, 1, 60);
  SealTotals totals;
  ASSERT_EQ(s.seal(&totals), 0);
  auto blocks = read_blocks(trace_);
  ASSERT_EQ(blocks.size(), 1u);
  const Block &b = blocks[0];
  EXPECT_EQ(number(b, "v"), 2u);
  EXPECT_EQ(number(b, "lines"), b.lines.size());
  EXPECT_EQ(number(b, "events"), 4u);
  EXPECT_EQ(number(b, "read"), 107u);
  EXPECT_EQ(number(b, "written"), 57u);
  EXPECT_EQ(number(b, "seg"), 3u);
  EXPECT_EQ(number(b, "epoch"), 1u);
  EXPECT_EQ(number(b, "t0"), 1'700'000'000'000'001'001u);
  EXPECT_EQ(number(b, "t1"), 1'700'000'000'000'004'205u);
  EXPECT_NE(b.header.find(R"("contexts":["stage=a",""])"), std::string::npos) << b.header;
  EXPECT_NE(b.header.find(R"("host":"node-1")"), std::string::npos);
  EXPECT_EQ(b.header.find("lost"), std::string::npos);
  EXPECT_EQ(count(b.json, "\"errno\":28"), 1);
  EXPECT_EQ(count(b.json, "\"dir\":\"rw\""), 1);
  EXPECT_EQ(totals.blocks, 1u);
  EXPECT_EQ(totals.events, 4u);
  EXPECT_EQ(totals.read_bytes, 107u);
  EXPECT_EQ(totals.written_bytes, 57u);
}

TEST_F(Seal, EveryFunctionMakesALine) {
  Segment s(trace_);
  s.context(1, "stage=s");
  uint64_t file = s.name("/f");
  int functions = 0;
  for (size_t f = 1; f < kFunctionCount; ++f, ++functions) s.event(static_cast<Fn>(f), file, f % 3 ? 5 : -2, 1, 9, 4);
  ASSERT_EQ(s.seal(), 0);
  auto blocks = read_blocks(trace_);
  ASSERT_EQ(blocks.size(), 1u);
  EXPECT_EQ(number(blocks[0], "events"), static_cast<uint64_t>(functions));
  for (const std::string &line : blocks[0].lines) {
    EXPECT_EQ(line.substr(0, 9), "{\"name\":\"");
    EXPECT_EQ(line.substr(line.size() - 2), "}}");
    EXPECT_EQ(line.find(",,"), std::string::npos) << line;
    EXPECT_EQ(line.find(",}"), std::string::npos) << line;
    EXPECT_EQ(count(line, "\"offset\""), line.find("\"offset\"") == std::string::npos ? 0 : 1) << line;
  }
}

TEST_F(Seal, AContextIdMeansItsLastRecord) {
  Segment s(trace_);
  s.context(1, "task=before");
  s.event(Fn::f_fsync, 0, 0, 1);
  s.context(1, "task=after");  // the program image after execve starts at 1 again
  s.event(Fn::f_fsync, 0, 0, 1);
  s.event(Fn::f_fsync, 0, 0, 9);  // never described
  ASSERT_EQ(s.seal(), 0);
  auto blocks = read_blocks(trace_);
  EXPECT_EQ(count(blocks[0].json, "\"task\":\"before\""), 1);
  EXPECT_EQ(count(blocks[0].json, "\"task\":\"after\""), 1);
  EXPECT_NE(blocks[0].header.find(R"("contexts":["task=before","task=after",""])"), std::string::npos)
      << blocks[0].header;
}

TEST_F(Seal, TornAndUnnamedRecords) {
  Segment s(trace_);
  s.context(1, "stage=s");
  s.event(Fn::f_read, 0x1234, 5, 1, 5);  // without its file's name record
  s.torn();
  s.event(Fn::f_write, 0, 6, 1, 6);
  ASSERT_EQ(s.seal(), 0);
  auto blocks = read_blocks(trace_);
  ASSERT_EQ(blocks.size(), 1u);
  EXPECT_EQ(number(blocks[0], "events"), 2u);
  EXPECT_EQ(count(blocks[0].json, "fhash"), 0);
  EXPECT_NE(blocks[0].header.find(R"("unnamed":1)"), std::string::npos) << blocks[0].header;
}

TEST_F(Seal, ANameHasNothingOfAnEarlierRecordOfItsSlots) {
  Segment s(trace_);
  memset(static_cast<void *>(s.header()->slot(0)), 0xAA, 8 * sizeof(Slot));
  const uint64_t file = s.name("/data/input");
  for (int i = 0; i < 20; ++i) s.event(Fn::f_read, file, 4096, 1, 4096, 4096 * i);
  ASSERT_EQ(s.seal(), 0);
  EXPECT_EQ(read_blocks(trace_).at(0).lines.size(), 23u) << "a line each";
}

TEST_F(Seal, IncompleteTextIsNoText) {
  Segment s(trace_);
  s.text_record(kContextRecord, 1, "stage=" + std::string(200, 's'));
  s.event(Fn::f_fsync, 0, 0, 1);
  reinterpret_cast<TextSlot *>(s.header()->slot(2))->mark.store(0);
  ASSERT_EQ(s.seal(), 0);
  EXPECT_EQ(count(read_blocks(trace_)[0].json, "\"stage\""), 0);
}

TEST_F(Seal, LongPathsSpanSlots) {
  Segment s(trace_);
  s.context(1, "stage=s");
  std::vector<std::string> paths;
  for (size_t n : {1, 55, 56, 57, 111, 112, 113, 4095}) {
    paths.push_back("/" + std::string(n, 'p'));
    s.event(Fn::f_read, s.name(paths.back()), 1, 1, 1);
  }
  std::string wild = "/\xff" + std::string(4000, '\x01');
  s.event(Fn::f_read, s.name(wild), 1, 1, 1);
  ASSERT_EQ(s.seal(), 0);
  auto blocks = read_blocks(trace_);
  for (const std::string &path : paths) EXPECT_EQ(count(blocks[0].json, "\"name\":\"" + path + "\""), 1);
  EXPECT_EQ(count(blocks[0].json, "\"bytes\":\"2fff0101"), 1);
}

TEST_F(Seal, BlocksAreSplitAtAMebibyteAndEachIsComplete) {
  Segment s(trace_);
  std::string tags = "stage=s";
  for (int i = 0; i < 5; ++i) tags += ",k" + std::to_string(i) + "=" + std::string(1000, 'v');
  s.context(1, tags);
  uint64_t file = s.name("/file");
  for (int i = 0; i < 1000; ++i) s.event(Fn::f_write, file, i, 1, 10);
  ASSERT_EQ(s.seal(), 0);
  auto blocks = read_blocks(trace_);
  ASSERT_GE(blocks.size(), 4u);
  uint64_t events = 0, written = 0, slots = 0;
  for (const Block &b : blocks) {
    EXPECT_LE(b.json.size(), kBlockRawBytes + 64 * 1024);
    EXPECT_EQ(number(b, "lines"), b.lines.size());
    EXPECT_EQ(count(b.json, "\"name\":\"HH\""), 1);
    EXPECT_EQ(count(b.json, "\"name\":\"FH\""), 1);
    EXPECT_EQ(count(b.header, "stage=s"), 1);
    EXPECT_EQ(static_cast<uint64_t>(count(b.json, "\"ph\":\"X\"")), number(b, "events"));
    EXPECT_GT(number(b, "slots"), slots);
    slots = number(b, "slots");
    events += number(b, "events");
    written += number(b, "written");
  }
  EXPECT_EQ(events, 1000u);
  EXPECT_EQ(written, 999u * 1000 / 2);
  EXPECT_EQ(slots, s.used());
}

TEST_F(Seal, ManyContextsStayBelowTheHeadersLimit) {
  Segment s(trace_);
  for (uint32_t i = 1; i <= 120; ++i) {
    s.context(i, "stage=s,task=" + std::to_string(i) + ",x=" + std::string(1000, 'x'));
    s.event(Fn::f_fsync, 0, 0, i);
  }
  ASSERT_EQ(s.seal(), 0);
  auto blocks = read_blocks(trace_);
  ASSERT_GT(blocks.size(), 1u);
  int tasks = 0;
  for (const Block &b : blocks) {
    EXPECT_LE(b.header.size(), kMaxHeaderBytes);
    EXPECT_EQ(count(b.header, "task="), static_cast<int>(number(b, "events")));
    tasks += count(b.json, "\"task\":");
  }
  EXPECT_EQ(tasks, 120);
}

TEST_F(Seal, AnEmptiedSegmentBeginsAnew) {
  Segment s(trace_);
  s.context(1, "task=first");
  for (int i = 0; i < 50; ++i) s.event(Fn::f_fsync, 0, 0, 1);
  ASSERT_EQ(s.seal(), 0);
  s.empty();
  // Fewer records than before: the slots after them are of the old epoch.
  s.context(1, "task=second");
  s.event(Fn::f_fsync, 0, 0, 1);
  ASSERT_EQ(s.seal(), 0);
  auto blocks = read_blocks(trace_);
  ASSERT_EQ(blocks.size(), 2u);
  EXPECT_EQ(number(blocks[1], "events"), 1u);
  EXPECT_EQ(number(blocks[1], "epoch"), 2u);
  EXPECT_EQ(count(blocks[1].json, "second"), 1);
  EXPECT_EQ(count(blocks[1].json, "\"tid\":71"), 3);
  EXPECT_GE(number(blocks[1], "t0"), number(blocks[0], "t1"));
}

TEST_F(Seal, EpochsWrapAround) {
  Segment s(trace_);
  s.event(Fn::f_fsync, 0, 0, 1);
  s.header()->epoch.store(0xFFFF);
  s.empty();
  EXPECT_EQ(s.header()->epoch.load(), 0x10001u);
  s.torn();  // the old slot, of an epoch whose low bits are the same
  EXPECT_EQ(s.header()->slot(0)->mark.load(), 0u);
}

TEST_F(Seal, WithoutRecordsNoFileIsMade) {
  Segment s(trace_);
  s.context(1, "stage=s");
  s.name("/unused");
  ASSERT_EQ(s.seal(), 0);
  EXPECT_NE(access(trace_.c_str(), F_OK), 0);
}

TEST_F(Seal, ThreadsTakeTurns) {
  Segment s(trace_);
  s.event(Fn::f_fsync, 0, 0, 1);
  s.thread(81);
  s.event(Fn::f_fsync, 0, 0, 1);
  ASSERT_EQ(s.seal(), 0);
  auto lines = read_blocks(trace_)[0].lines;
  EXPECT_NE(lines[lines.size() - 2].find("\"tid\":70"), std::string::npos);
  EXPECT_NE(lines.back().find("\"tid\":81"), std::string::npos);
}

TEST_F(Seal, ProcessAndExitAreInTheHeader) {
  Segment s(trace_);
  s.text_record(kProcessRecord, 0, R"("ppid":1,"exe":"/bin/x","cwd":"/","uid":0,"argv":["x","\"q\""])");
  s.event(Fn::kStart, 0, 0, 1);
  s.event(Fn::f__exit, 0, 3, 1);
  ASSERT_EQ(s.seal(), 0);
  Block b = read_blocks(trace_)[0];
  EXPECT_NE(b.header.find(R"("process":{"ppid":1,"exe":"/bin/x","cwd":"/","uid":0,"argv":["x","\"q\""]})"),
            std::string::npos)
      << b.header;
  EXPECT_NE(b.header.find(R"("exit":{"code":3)"), std::string::npos) << b.header;
  EXPECT_EQ(count(b.json, R"("ppid":1,"exe":"/bin/x")"), 1);
}

TEST_F(Seal, ADamagedProcessRecordLeavesTheHeaderReadable) {
  for (const char *damaged : {R"("exe":"/bin/x)", R"("argv":["x")", R"("argv":["x"}])", "\"exe\":\"a\nb\"", "]["}) {
    Segment s(trace_);
    s.text_record(kProcessRecord, 0, damaged);
    s.event(Fn::kStart, 0, 0, 1);
    ASSERT_EQ(s.seal(), 0);
    Block b = read_blocks(trace_).back();
    EXPECT_EQ(b.header.find("process"), std::string::npos) << b.header;
    EXPECT_EQ(number(b, "events"), 1u);
  }
}

TEST_F(Seal, LossesAreReportedOnce) {
  Segment s(trace_);
  s.header()->lost[static_cast<int>(Loss::kNoJournal)].store(5);
  s.event(Fn::f_fsync, 0, 0, 1);
  SealTotals totals;
  ASSERT_EQ(s.seal(&totals), 0);
  s.empty();
  s.event(Fn::f_fsync, 0, 0, 1);
  ASSERT_EQ(s.seal(&totals), 0);
  auto blocks = read_blocks(trace_);
  EXPECT_NE(blocks[0].header.find(R"("lost":{"no_journal":5})"), std::string::npos) << blocks[0].header;
  EXPECT_EQ(blocks[1].header.find("lost"), std::string::npos);
  EXPECT_EQ(totals.lost[static_cast<int>(Loss::kNoJournal)], 5u);
}

// Other threads count theirs in the first segment while that is sealed.
TEST_F(Seal, LossesAmidABlockAreReportedOnce) {
  Segment s(trace_);
  auto &lost = s.header()->lost[static_cast<int>(Loss::kNoJournal)];
  std::atomic<bool> ends{false};
  uint64_t counted = 0;
  std::thread other([&] {
    for (; !ends.load(); ++counted) lost.fetch_add(1);
  });
  for (int block = 0; block < 100; ++block) {
    for (int i = 0; i < 20; ++i) s.event(Fn::f_fsync, 0, 0, 1);
    ASSERT_EQ(s.seal(), 0);
    s.empty();
  }
  ends.store(true);
  other.join();
  uint64_t reported = 0;
  for (const Block &b : read_blocks(trace_)) {
    uint64_t n = 0;
    if (header_number(b.header, "no_journal", n)) reported += n;
  }
  EXPECT_EQ(reported + lost.load(), counted);
}

TEST_F(Seal, UnwrittenRecordsStayAndAreCounted) {
  Segment s(directory_ / "gone/t.pfw.gz");
  for (int i = 0; i < 3; ++i) s.event(Fn::f_fsync, 0, 0, 1);
  uint64_t unwritten = 0;
  EXPECT_EQ(s.seal(nullptr, &unwritten), -ENOENT);
  EXPECT_EQ(unwritten, 3u);
  EXPECT_EQ(s.header()->first_slot.load(), 0u);
  // Its owner decides whether that is a loss.
  EXPECT_EQ(s.header()->lost[static_cast<int>(Loss::kNotWritten)].load(), 0u);
}

TEST(RunId, IsTheValueOfTheFirstKeyAndNoText) {
  const std::string first(32, '1'), second(32, '2');
  EXPECT_EQ(run_id_in("{\"format\": 1, \"run_id\": \"" + first + "\", \"x\": {\"run_id\":\"" + second + "\"}}"), first);
  EXPECT_EQ(
      run_id_in("{\"command\": [\"run_id\", \"\\\"run_id\\\": \\\"" + first + "\"],\n\"run_id\":\t\"" + second + "\"}"),
      second);
  for (const std::string &none : {std::string("{}"), "{\"run_id\": \"" + first + "0\"}", "{\"run_id\": \"" + first,
                                  "{\"run_id\": \"" + std::string(32, 'g') + "\"}", std::string("\"run_id\"")}) {
    EXPECT_EQ(run_id_in(none), "") << none;
  }
}

TEST_F(Seal, ABlockHasTheIdOfItsRunAsSoonAsThereIsOne) {
  const std::string trace = directory_ / "run/trace/t.pfw.gz", id(32, 'a');
  std::filesystem::create_directories(directory_ / "run/trace");
  Segment s(trace);
  s.event(Fn::f_fsync, 0, 0, 1);
  ASSERT_EQ(s.seal(), 0);
  std::ofstream(directory_ / "run/run.json") << "{\"run_id\": \"" << id << "\"}";
  s.event(Fn::f_fsync, 0, 0, 1);
  ASSERT_EQ(s.seal(), 0);
  const auto blocks = read_blocks(trace);
  ASSERT_EQ(blocks.size(), 2u);
  EXPECT_EQ(blocks[0].header.find("\"run\""), std::string::npos);
  EXPECT_NE(blocks[1].header.find("\"run\":\"" + id + "\""), std::string::npos);
}

}  // namespace
