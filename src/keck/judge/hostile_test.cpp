// Sessions with a candidate that lies, cheats or dies. Each is that candidate's fail, and the reference stays usable.
#include <gtest/gtest.h>

#include "keck/judge/peer_for_test.h"
#include "keck/judge/session.h"

namespace kz::keck {
namespace {

struct Hostile {
  const char* name;
  std::function<void(int)> program;
  Outcome outcome;
  Stage stage;
  const char* reason;
  bool timing = false;
};

// A candidate whose forward is the given function.
using CallFunction = std::function<void(class Liar&, Frame&)>;
class Liar final : public PeerProgram {
 public:
  Liar(int socket, CallFunction lie) : PeerProgram(socket), lie_(std::move(lie)) {}
  using PeerProgram::frame_fd_;
  using PeerProgram::input;
  using PeerProgram::kElements;
  using PeerProgram::list;
  using PeerProgram::outputs_;
  using PeerProgram::send;
  using PeerProgram::send_raw;
  using PeerProgram::send_value;
  using PeerProgram::seq_;
  using PeerProgram::tensor;
  void honest(Frame& frame) { PeerProgram::call(frame); }
  std::vector<float> right(Frame& frame) {
    const float* x = input(frame);
    std::vector<float> y(kElements);
    for (size_t i = 0; i < y.size(); ++i) y[i] = 2 * x[i] + 1;
    return y;
  }
  int calls = 0;
  std::vector<float> buffer = std::vector<float>(kElements);

 private:
  void call(Frame& frame) override {
    ++calls;
    lie_(*this, frame);
  }
  CallFunction lie_;
};

std::function<void(int)> on_call(CallFunction lie) {
  return [lie = std::move(lie)](int socket) { Liar(socket, lie).serve(); };
}

// Sends the right output under a claim that is changed.
std::function<void(int)> with_claim(const std::function<void(TensorRef&)>& change) {
  return on_call([change](Liar& liar, Frame& frame) {
    liar.buffer = liar.right(frame);
    Value v = Liar::tensor(liar.buffer.data());
    change(v.tensor);
    liar.send_value(v);
  });
}

// Sends the right values after they were changed.
std::function<void(int)> with_values(const std::function<void(std::vector<float>&)>& change) {
  return on_call([change](Liar& liar, Frame& frame) {
    std::vector<float>& y = liar.outputs_.emplace_back(liar.right(frame));
    change(y);
    liar.send_value(Liar::tensor(y.data()));
  });
}

std::string nested(int depth) {
  std::string out;
  for (int i = 0; i < depth; ++i) out += std::string("\x05\x01\0\0\0", 5);
  return out + '\0';
}

class DeadOnArrival final : public PeerProgram {
  using PeerProgram::PeerProgram;
  void answer(Frame&) override { ::_exit(3); }
};

class Chatty final : public PeerProgram {
 public:
  explicit Chatty(int socket) : PeerProgram(socket) {}

 private:
  void answer(Frame& frame) override {
    PeerProgram::answer(frame);
    // An answer to a call that has not come yet.
    if (frame.header.type == static_cast<uint16_t>(FrameType::kConstruct)) {
      ++seq_;
      buffer_.assign(kElements, 1.0f);
      send_value(tensor(buffer_.data()));
    }
  }
  std::vector<float> buffer_;
};

std::vector<Hostile> hostiles() {
  constexpr auto kFail = Outcome::kFail;
  constexpr auto kRun = Stage::kRun, kCompare = Stage::kCompare;
  return {
      {"honest", on_call([](Liar& l, Frame& f) { l.honest(f); }), Outcome::kPass, Stage::kNone, ""},
      {"dies at once", [](int s) { DeadOnArrival(s).serve(); }, kFail, Stage::kLoad, "crashed"},
      {"answers early", [](int s) { Chatty(s).serve(); }, kFail, kRun, "protocol"},
      {"answers twice",
       on_call([](Liar& l, Frame& f) { l.honest(f), l.send_value(Liar::tensor(l.outputs_.back().data())); }), kFail,
       kRun, "protocol"},
      {"answers late", on_call([](Liar& l, Frame& f) { ::sleep(2), l.honest(f); }), kFail, kRun, "timeout"},
      {"never answers", on_call([](Liar&, Frame&) { ::pause(); }), kFail, kRun, "timeout"},
      {"dribbles", on_call([](Liar& l, Frame&) {
         for (int i = 0; i < 16; ++i) l.send_raw("K"), ::usleep(100000);
       }),
       kFail, kRun, "timeout"},
      {"answers another question", on_call([](Liar& l, Frame& f) { ++l.seq_, l.honest(f); }), kFail, kRun, "protocol"},
      {"answers in another kind", on_call([](Liar& l, Frame&) { l.send(FrameType::kDone, ""); }), kFail, kRun,
       "protocol"},
      {"has no magic", on_call([](Liar& l, Frame&) { l.send_raw(std::string(16, 'x')); }), kFail, kRun, "protocol"},
      {"claims 4 GB", on_call([](Liar& l, Frame&) {
         FrameHeader h;
         h.type = static_cast<uint16_t>(FrameType::kValue), h.seq = l.seq_, h.size = 0xffffffff;
         l.send_raw({reinterpret_cast<char*>(&h), sizeof h});
       }),
       kFail, kRun, "protocol"},
      {"stops in a frame", on_call([](Liar& l, Frame&) { l.send_raw(std::string("KZ01\x61\0", 6)), ::_exit(0); }),
       kFail, kRun, "crashed"},
      {"is killed", on_call([](Liar&, Frame&) { ::kill(::getpid(), SIGKILL); }), kFail, kRun, "crashed"},
      {"sends descriptors", on_call([](Liar& l, Frame&) { l.send(FrameType::kValue, std::string(1, '\0'), {0}); }),
       kFail, kRun, "protocol"},
      {"sends nothing", on_call([](Liar& l, Frame&) { l.send(FrameType::kValue, ""); }), kFail, kRun, "protocol"},
      {"sends noise", on_call([](Liar& l, Frame&) { l.send(FrameType::kValue, std::string(1000, '\x0a')); }), kFail,
       kRun, "protocol"},
      {"nests for ever", on_call([](Liar& l, Frame&) { l.send(FrameType::kValue, nested(100000)); }), kFail, kRun,
       "protocol"},
      {"counts too far", on_call([](Liar& l, Frame&) { l.send(FrameType::kValue, "\x05\xff\xff\xff\xff"); }), kFail,
       kRun, "protocol"},
      {"raises noise", on_call([](Liar& l, Frame&) { l.send(FrameType::kRaised, "\x09"); }), kFail, kRun, "protocol"},
      {"raises", on_call([](Liar& l, Frame&) {
         l.send(FrameType::kRaised, std::string("\0\x01\0\0\0E\x01\0\0\0m\0\0\0\0", 15));
       }),
       kFail, kRun, "raised"},
      {"lies about the address", with_claim([](TensorRef& t) { t.address = 4096; }), kFail, kRun, "protocol"},
      {"points at the end of memory", with_claim([](TensorRef& t) { t.address = ~0ULL - 8; }), kFail, kRun, "protocol"},
      {"claims a huge shape",
       with_claim([](TensorRef& t) { t.shape = {1 << 30, 1 << 30, 1 << 30}, t.strides = {0, 0, 0}; }), kFail, kRun,
       "protocol"},
      {"hides a huge shape",
       with_claim([](TensorRef& t) { t.shape = {INT64_MAX, INT64_MAX, 0}, t.strides = {0, 0, 0}; }), kFail, kRun,
       "protocol"},
      {"claims a negative shape", with_claim([](TensorRef& t) { t.shape = {-64}; }), kFail, kRun, "protocol"},
      {"has negative strides", with_claim([](TensorRef& t) { t.strides = {-1}; }), kFail, kRun, "protocol"},
      {"looks before its storage", with_claim([](TensorRef& t) { t.storage_below = ~0ULL; }), kFail, kRun, "protocol"},
      {"leaves its storage", with_claim([](TensorRef& t) { t.strides = {2}; }), kFail, kRun, "protocol"},
      {"claims another device", with_claim([](TensorRef& t) { t.device = {DeviceType::kCuda, 0}; }), kFail, kCompare,
       "device"},
      {"claims another dtype", with_claim([](TensorRef& t) { t.dtype = Dtype::kInt32; }), kFail, kCompare, "dtype"},
      {"claims another shape", with_claim([](TensorRef& t) { t.shape = {8, 8}, t.strides = {8, 1}; }), kFail, kCompare,
       "shape"},
      {"broadcasts", with_claim([](TensorRef& t) { t.strides = {0}; }), kFail, kCompare, "wrong_values"},
      {"wraps its output", on_call([](Liar& l, Frame& f) {
         l.buffer = l.right(f);
         l.send_value(Liar::list({Liar::tensor(l.buffer.data())}));
       }),
       kFail, kCompare, "structure"},
      {"is off by a little", with_values([](auto& y) { y[63] *= 1.0001f; }), kFail, kCompare, "wrong_values"},
      {"is NaN", with_values([](auto& y) { y[5] = NAN; }), kFail, kCompare, "non_finite"},
      {"is infinite", with_values([](auto& y) { y[5] = INFINITY; }), kFail, kCompare, "non_finite"},
      {"is zero", with_values([](auto& y) { y.assign(64, 0); }), kFail, kCompare, "wrong_values"},
      {"destroys its input", on_call([](Liar& l, Frame& f) {
         std::vector<float>& y = l.outputs_.emplace_back(Liar::kElements);
         float* x = l.input(f);
         for (size_t i = 0; i < y.size(); ++i) y[i] = 2 * x[i] + 1;
         x[0] = 0;
         l.send_value(Liar::tensor(y.data()));
       }),
       kFail, kCompare, "input_mutated"},
      {"writes behind its input", on_call([](Liar& l, Frame& f) {
         std::vector<float>& y = l.outputs_.emplace_back(Liar::kElements);
         float* x = l.input(f);
         for (size_t i = 0; i < y.size(); ++i) y[i] = 2 * x[i] + 1;
         x[Liar::kElements] = 1;
         l.send_value(Liar::tensor(y.data()));
       }),
       kFail, kCompare, "out_of_bounds_write"},
      {"has one buffer", on_call([](Liar& l, Frame& f) {
         const std::vector<float> y = l.right(f);
         std::copy(y.begin(), y.end(), l.buffer.begin());
         l.send_value(Liar::tensor(l.buffer.data()));
       }),
       kFail, kCompare, "output_overwritten"},
      {"replays once it has been right", on_call([](Liar& l, Frame& f) {
         if (l.calls <= 5) return l.honest(f);
         l.send_value(Liar::tensor(l.outputs_.back().data()));
       }),
       kFail, kCompare, "wrong_values", true},
      {"dies while timed", on_call([](Liar& l, Frame& f) {
         if (l.calls > 20) ::_exit(0);
         l.honest(f);
       }),
       kFail, kRun, "crashed", true},
      {"doubles its answer while timed", on_call([](Liar& l, Frame& f) {
         l.honest(f);
         if (l.calls > 20) l.send_value(Liar::tensor(l.outputs_.back().data()));
       }),
       kFail, kRun, "protocol", true},
  };
}

SessionResult judge(const std::function<void(int)>& candidate_program, bool timing) {
  TestPeer reference([](int socket) { PeerProgram(socket).serve(); });
  TestPeer candidate(candidate_program);
  JudgeJob job;
  job.call_s = 0.4;
  job.construct_s = 0.4;
  job.deadline_s = 20;
  job.timing = timing;
  Session session(job, Peer(reference.take_socket(), reference.pid(), job.max_bytes),
                  Peer(candidate.take_socket(), candidate.pid(), job.max_bytes), {}, std::nullopt);
  return session.run();
}

class HostileTest : public testing::TestWithParam<size_t> {};

TEST_P(HostileTest, EndsAsItShould) {
  const Hostile hostile = hostiles().at(GetParam());
  SCOPED_TRACE(hostile.name);
  const JudgeReport report = judge(hostile.program, hostile.timing).report;
  EXPECT_EQ(report.outcome, hostile.outcome) << report.reason << ": " << report.message;
  EXPECT_EQ(report.stage, hostile.stage) << report.message;
  EXPECT_EQ(report.reason, hostile.reason) << report.message;
  EXPECT_TRUE(report.reference_clean);
  EXPECT_FALSE(report.timing.has_value());
}

INSTANTIATE_TEST_SUITE_P(All, HostileTest, testing::Range<size_t>(0, hostiles().size()));

TEST(Session, TimesAnHonestPair) {
  const auto honest = [](int socket) { PeerProgram(socket).serve(); };
  const JudgeReport report = judge(honest, true).report;
  ASSERT_EQ(report.outcome, Outcome::kPass) << report.message;
  ASSERT_TRUE(report.timing);
  EXPECT_GT(report.timing->speedup, 0);
  EXPECT_LT(report.timing->ci95[0], report.timing->ci95[1]);
  EXPECT_EQ(report.timing->method, "gated_cpu");
  EXPECT_EQ(report.correctness->passed, report.correctness->trials);
}

TEST(Session, ReferenceThatDiesIsNobodysFail) {
  TestPeer reference([](int socket) { DeadOnArrival(socket).serve(); });
  TestPeer candidate([](int socket) { PeerProgram(socket).serve(); });
  JudgeJob job;
  Session session(job, Peer(reference.take_socket(), reference.pid(), job.max_bytes),
                  Peer(candidate.take_socket(), candidate.pid(), job.max_bytes), {}, std::nullopt);
  const JudgeReport report = session.run().report;
  EXPECT_EQ(report.outcome, Outcome::kUnscored);
  EXPECT_EQ(report.reason, "reference_crashed");
  EXPECT_FALSE(report.reference_clean);
}

}  // namespace
}  // namespace kz::keck
