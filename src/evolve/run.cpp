#include "evolve/run.h"

#include <cmath>
#include <cstdio>

#include "base/clock.h"
#include "base/log.h"
#include "corpus/split.h"
#include "evolve/summary.h"

namespace kz::evolve {
namespace {

constexpr int64_t kUnitBefore = -1, kUnitAfter = -2, kUnitTasks = -3;

std::string checkpoint_name(Role role, int64_t step) {
  char digits[32];
  std::snprintf(digits, sizeof digits, "%06lld", static_cast<long long>(step) + 1);
  return std::string(to_string(role)) + "-" + digits;
}

class Runner {
 public:
  Runner(RunFolder& run, const EvolveOptions& options, RunParts& parts, const Reporter& reporter)
      : run_(run),
        options_(options),
        parts_(parts),
        reporter_(reporter),
        archive_(options.per_sequence),
        book_(run.store(), *parts.judge, parts.replay) {}

  Status work() {
    KZ_TRY(restore());
    KZ_TRY(evaluation("before", options_.evaluation.before, options_.evaluation.seed, kUnitBefore));
    for (int64_t step = next_; step < options_.steps(); ++step) {
      if (out_of_time()) {
        log::info("the loop stops early: " + std::to_string(step) + " of " + std::to_string(options_.steps()) +
                  " steps fit into loop.max_minutes");
        break;
      }
      KZ_TRY(one_step(step));
    }
    KZ_TRY(rounds());
    KZ_TRY(evaluation("after", options_.evaluation.after, options_.evaluation.after_seed, kUnitAfter));
    return run_.store().set_meta("finished", utc_now());
  }

 private:
  Status restore() {
    Store& store = run_.store();
    KZ_ASSIGN(lists_, store.lists());
    if (lists_.empty()) {
      if (parts_.lists.empty() && options_.steps() > 0)
        return fail("config", "no API lists: set lists.families or lists.apis");
      KZ_TRY(store.add_lists(parts_.lists));
      lists_ = parts_.lists;
    }
    KZ_ASSIGN(auto modules, store.modules());
    archive_.restore(std::move(modules));
    KZ_TRY(exclude_tasks());
    KZ_ASSIGN(const auto last, store.last_step());
    KZ_ASSIGN(spent_, store.seconds());
    if (last) {
      next_ = last->step + 1;
      coder_checkpoint_ = last->coder_checkpoint;
      proposer_checkpoint_ = last->proposer_checkpoint;
      if (!coder_checkpoint_.empty()) KZ_TRY(parts_.coder->load(run_.checkpoint(coder_checkpoint_)));
      if (!proposer_checkpoint_.empty()) KZ_TRY(parts_.proposer->load(run_.checkpoint(proposer_checkpoint_)));
    }
    KZ_TRY(run_.keep_checkpoints({coder_checkpoint_, proposer_checkpoint_}));
    KZ_ASSIGN(auto events, bench::EventWriter::open(run_.path() / "tb", "kernelzero"));
    events_ = std::make_unique<bench::EventWriter>(std::move(events));
    return {};
  }

  // Modules like those of the evaluation never enter the archive. Tasks of a folder have no operator sequence yet: the
  // gate reads it, whatever else it thinks of them.
  Status exclude_tasks() {
    std::vector<std::string> sequences, hashes;
    book_.begin(kUnitTasks);
    for (size_t i = 0; i < parts_.tasks.size(); ++i) {
      sequences.push_back(parts_.tasks[i].sequence);
      if (!parts_.tasks[i].sequence.empty()) continue;
      keck::ModuleRequest request;
      request.module = parts_.tasks[i].source;
      KZ_TRY(book_.ask(i, request));
    }
    KZ_TRY(book_.drain());
    for (size_t i = 0; i < parts_.tasks.size(); ++i) {
      if (!parts_.tasks[i].sequence.empty()) continue;
      const keck::ModuleReport& report = book_.report(i).report;
      parts_.tasks[i].sequence = corpus::sequence_of(report.operators);
      sequences.push_back(parts_.tasks[i].sequence);
      hashes.push_back(report.canonical_hash);
    }
    archive_.exclude(sequences, hashes);
    return {};
  }

  Loop loop() {
    return Loop{options_,
                lists_,
                archive_,
                book_,
                *parts_.coder,
                *parts_.proposer,
                parts_.coder_format,
                parts_.proposer_format,
                reporter_.progress};
  }

  Status evaluation(const std::string& name, bool wanted, uint64_t seed, int64_t unit) {
    if (!wanted || parts_.tasks.empty()) return {};
    KZ_ASSIGN(auto done, run_.store().evaluation(name));
    if (!done) {
      if (reporter_.evaluation) reporter_.evaluation(name, nullptr);
      Loop l = loop();
      KZ_ASSIGN(const auto made, evaluate(l, parts_.tasks, name, seed, unit, next_));
      KZ_TRY(run_.store().commit_evaluation(made));
      for (const auto& [key, value] : made.numbers) KZ_TRY(events_->scalar("evaluation/" + key, next_, value));
      done = made;
    }
    if (reporter_.evaluation) reporter_.evaluation(name, &*done);
    return {};
  }

  // Would one more step of mean length pass the limit?
  bool out_of_time() const {
    if (options_.max_minutes <= 0 || next_ == 0) return false;
    return spent_ + spent_ / static_cast<double>(next_) > options_.max_minutes * 60;
  }

  Status one_step(int64_t step) {
    const Place place = place_of(step, options_);
    Stopwatch watch;
    Loop l = loop();
    auto made = place.role == Role::kProposer ? proposer_step(l, step, place.ordinal) : coder_step(l, step);
    if (!made) return tl::unexpected(made.error());
    StepRecord& record = *made;
    record.round = place.round;
    record.index = place.index;
    std::string& checkpoint = place.role == Role::kProposer ? proposer_checkpoint_ : coder_checkpoint_;
    checkpoint = checkpoint_name(place.role, step);
    Stopwatch saving;
    const Learner& learner = place.role == Role::kProposer ? *parts_.proposer : *parts_.coder;
    KZ_TRY(learner.save(run_.checkpoint(checkpoint)));
    record.metrics["time/checkpoint"] = saving.seconds();
    record.coder_checkpoint = coder_checkpoint_;
    record.proposer_checkpoint = proposer_checkpoint_;
    record.seconds = watch.seconds();
    record.metrics["time/step"] = record.seconds;
    KZ_TRY(run_.store().commit_step(record));
    KZ_TRY(run_.keep_checkpoints({coder_checkpoint_, proposer_checkpoint_}));
    for (const auto& [name, value] : record.metrics) KZ_TRY(events_->scalar(name, step, value));

    next_ = step + 1;
    spent_ += record.seconds;
    double left = spent_ / static_cast<double>(next_) * static_cast<double>(options_.steps() - next_);
    if (options_.max_minutes > 0) left = std::min(left, options_.max_minutes * 60 - spent_);
    if (reporter_.step) reporter_.step(place, record, std::max(0.0, left));
    if (next_ % (options_.proposer_steps + options_.coder_steps) == 0) {
      KZ_ASSIGN(const auto numbers, round_numbers(run_.store(), options_, place.round));
      KZ_TRY(run_.store().commit_round(place.round, numbers));
      if (reporter_.round) reporter_.round(place.round, numbers);
    }
    return {};
  }

  // Again for all: a kill may have come between a step and its round's numbers, and a last round may be cut short.
  Status rounds() {
    if (next_ == 0) return {};
    for (int round = 0; round <= place_of(next_ - 1, options_).round; ++round) {
      KZ_ASSIGN(const auto numbers, round_numbers(run_.store(), options_, round));
      KZ_TRY(run_.store().commit_round(round, numbers));
    }
    return {};
  }

  RunFolder& run_;
  const EvolveOptions& options_;
  RunParts& parts_;
  const Reporter& reporter_;
  Archive archive_;
  Book book_;
  std::vector<std::vector<std::string>> lists_;
  std::string coder_checkpoint_, proposer_checkpoint_;  // empty: the start
  int64_t next_ = 0;
  double spent_ = 0;  // seconds of all committed steps
  std::unique_ptr<bench::EventWriter> events_;
};

}  // namespace

Status run_evolution(RunFolder& run, const EvolveOptions& options, RunParts& parts, const Reporter& reporter) {
  return Runner(run, options, parts, reporter).work();
}

}  // namespace kz::evolve
