#include "lm/cpu/decode.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "base/random.h"
#include "lm/cpu/forward.h"
#include "lm/sampler.h"

namespace kz::lm::cpu {

namespace {

// What the threads share: requests not begun, completions not delivered.
struct Board {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Request> waiting;
  std::deque<Finished> finished;
  int running = 0;
  std::atomic<bool> cancelled{false};
  std::exception_ptr error;
  DecodeCounts counts;

  bool take(Request& out) {
    const std::lock_guard lock(mutex);
    if (waiting.empty() || cancelled) return false;
    out = std::move(waiting.front());
    waiting.pop_front();
    return true;
  }
};

// The keys and values of a prompt, shared by its completions; pages go back when the last one ends.
struct Prefix {
  PagePool& pool;
  std::vector<PageSpan> spans;
  std::vector<float> logits;  // after the last prompt token
  explicit Prefix(PagePool& p) : pool(p) {}
  Prefix(const Prefix&) = delete;
  ~Prefix() {
    for (const PageSpan& s : spans) pool.give(s.page);
  }
};

struct Sequence {
  std::shared_ptr<const Prefix> prefix;
  std::vector<PageSpan> spans;  // the prefix's, then its own
  int64_t position = 0;         // of the last token
  int64_t limit = 0;            // tokens that may be sampled
  Rng rng{0};
  Finished result;
};

class Worker {
 public:
  Worker(const PackedModel& model, const DecodeOptions& options, Board& board)
      : model_(model),
        options_(options),
        board_(board),
        pool_(model.config),
        forward_(model, pool_),
        sampler_(options.sampling) {}

  void run() {
    while (!board_.cancelled) {
      admit();
      if (active_.empty()) break;
      step();
    }
    for (Sequence& s : active_) release(s);
    active_.clear();
    const std::lock_guard lock(board_.mutex);
    board_.counts.prefilled += counts_.prefilled;
    board_.counts.sampled += counts_.sampled;
  }

 private:
  void admit() {
    while (active_.size() < static_cast<size_t>(options_.slots)) {
      if (next_ == request_.ids.size()) {
        prefix_.reset();
        next_ = 0;
        request_ = {};
        if (!board_.take(request_)) return;
        prefix_ = prefill(request_.prompt);
      }
      Sequence s;
      s.prefix = prefix_;
      s.spans = prefix_->spans;
      s.position = static_cast<int64_t>(request_.prompt.size()) - 1;
      s.limit = std::min<int64_t>(options_.sampling.max_new_tokens, model_.config.max_positions - s.position - 1);
      s.rng = Rng(derive_seed(request_.seeds[next_], "sample"));
      s.result.id = request_.ids[next_];
      ++next_;
      if (advance(s, prefix_->logits.data())) active_.push_back(std::move(s));
    }
  }

  std::shared_ptr<const Prefix> prefill(const std::vector<int32_t>& prompt) {
    constexpr int64_t kChunk = 96;  // rows of one pass
    auto prefix = std::make_shared<Prefix>(pool_);
    const auto n = static_cast<int64_t>(prompt.size());
    for (int64_t at = 0; at < n; at += kPage) prefix->spans.push_back({pool_.take(), std::min(kPage, n - at)});
    for (int64_t from = 0; from < n; from += kChunk) {
      rows_.clear();
      for (int64_t i = from; i < std::min(n, from + kChunk); ++i)
        rows_.push_back({prompt[static_cast<size_t>(i)], i, prefix->spans,
                         prefix->spans[static_cast<size_t>(i / kPage)].page, i % kPage, i == n - 1});
      forward_.run(rows_);
    }
    prefix->logits.assign(forward_.logits(0), forward_.logits(0) + model_.config.vocab);
    counts_.prefilled += static_cast<uint64_t>(n);
    return prefix;
  }

  void step() {
    rows_.clear();
    for (Sequence& s : active_) {
      ++s.position;
      const size_t shared = s.prefix->spans.size();
      if (s.spans.size() == shared || s.spans.back().count == kPage) s.spans.push_back({pool_.take(), 0});
      PageSpan& last = s.spans.back();
      rows_.push_back({s.result.tokens.back(), s.position, s.spans, last.page, last.count, true});
      ++last.count;
    }
    forward_.run(rows_);
    size_t kept = 0;
    for (size_t i = 0; i < active_.size(); ++i) {
      if (!advance(active_[i], forward_.logits(static_cast<int64_t>(i)))) continue;
      if (kept != i) active_[kept] = std::move(active_[i]);
      ++kept;
    }
    active_.resize(kept);
  }

  // Samples the next token; false when the sequence is complete (and delivered).
  bool advance(Sequence& s, const float* logits) {
    if (s.limit > 0) {
      const Sampled sampled = sampler_.sample(logits, model_.config.vocab, s.rng);
      s.result.tokens.push_back(sampled.token);
      s.result.logprobs.push_back(sampled.logprob);
      ++counts_.sampled;
      --s.limit;
      const auto& eos = model_.config.eos;
      s.result.stopped = std::find(eos.begin(), eos.end(), sampled.token) != eos.end() ||
                         (options_.stops && options_.stops(s.result.tokens));
    }
    if (s.limit > 0 && !s.result.stopped) return true;
    release(s);
    {
      const std::lock_guard lock(board_.mutex);
      board_.finished.push_back(std::move(s.result));
    }
    board_.changed.notify_one();
    return false;
  }

  void release(Sequence& s) {
    for (size_t i = s.prefix->spans.size(); i < s.spans.size(); ++i) pool_.give(s.spans[i].page);
    s.spans.clear();
    s.prefix.reset();
  }

  const PackedModel& model_;
  const DecodeOptions& options_;
  Board& board_;
  PagePool pool_;
  Forward forward_;
  Sampler sampler_;
  std::shared_ptr<const Prefix> prefix_;
  Request request_;
  size_t next_ = 0;
  std::vector<Sequence> active_;
  std::vector<Row> rows_;
  DecodeCounts counts_;
};

}  // namespace

DecodeCounts decode(const PackedModel& model, std::vector<Request> requests, const DecodeOptions& options,
                    const std::function<bool(Finished)>& done) {
  Board board;
  size_t total = 0;
  for (const Request& r : requests) total += r.ids.size();
  // A request larger than a thread's fair share is cut, so that one prompt with many completions uses all threads.
  const size_t share =
      std::max<size_t>(1, (total + static_cast<size_t>(options.threads) - 1) / static_cast<size_t>(options.threads));
  for (Request& r : requests) {
    for (size_t from = 0; from < r.ids.size(); from += share) {
      const size_t to = std::min(r.ids.size(), from + share);
      Request part;
      part.prompt = r.prompt;
      part.seeds.assign(r.seeds.begin() + static_cast<std::ptrdiff_t>(from),
                        r.seeds.begin() + static_cast<std::ptrdiff_t>(to));
      part.ids.assign(r.ids.begin() + static_cast<std::ptrdiff_t>(from),
                      r.ids.begin() + static_cast<std::ptrdiff_t>(to));
      board.waiting.push_back(std::move(part));
    }
  }
  const int threads = std::max(1, std::min<int>(options.threads, static_cast<int>(board.waiting.size())));
  // With few sequences each thread takes no more than its share, or the first would take them all.
  DecodeOptions own = options;
  own.slots = std::max(1, std::min<int>(options.slots, static_cast<int>((total + static_cast<size_t>(threads) - 1) /
                                                                        static_cast<size_t>(threads))));
  board.running = threads;
  std::vector<std::jthread> pool;
  for (int t = 0; t < threads; ++t) {
    pool.emplace_back([&] {
      std::exception_ptr error;
      try {
        Worker(model, own, board).run();
      } catch (...) {
        error = std::current_exception();
        board.cancelled = true;
      }
      {
        const std::lock_guard lock(board.mutex);
        --board.running;
        if (error && !board.error) board.error = error;
      }
      board.changed.notify_one();
    });
  }
  struct CancelOnExit {  // `done` may throw: the threads must still end before the board goes
    Board& board;
    ~CancelOnExit() { board.cancelled = true; }
  } cancel{board};
  for (;;) {
    std::unique_lock lock(board.mutex);
    board.changed.wait(lock, [&] { return !board.finished.empty() || board.running == 0; });
    if (board.finished.empty()) break;
    Finished next = std::move(board.finished.front());
    board.finished.pop_front();
    lock.unlock();
    if (!done(std::move(next))) board.cancelled = true;
  }
  for (std::jthread& t : pool) t.join();
  if (board.error) std::rethrow_exception(board.error);
  return board.counts;
}

}  // namespace kz::lm::cpu
