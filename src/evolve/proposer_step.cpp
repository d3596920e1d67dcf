#include "base/clock.h"
#include "base/random.h"
#include "evolve/loop.h"
#include "evolve/rollouts.h"
#include "evolve/step_metrics.h"
#include "rl/frontier.h"

namespace kz::evolve {
namespace {

// The lists of one step: the whole set is walked through in a shuffled order that changes with every pass.
std::vector<size_t> choose_lists(size_t available, int wanted, int64_t ordinal, uint64_t seed) {
  std::vector<size_t> out;
  std::vector<size_t> order(available);
  uint64_t shuffled_for = ~0ULL;
  for (int i = 0; i < wanted; ++i) {
    const uint64_t position = static_cast<uint64_t>(ordinal) * static_cast<uint64_t>(wanted) + static_cast<uint64_t>(i);
    const uint64_t pass = position / available;
    if (pass != shuffled_for) {
      for (size_t k = 0; k < available; ++k) order[k] = k;
      Rng rng(derive_seed(seed, "proposer/lists", pass));
      rng.shuffle(order);
      shuffled_for = pass;
    }
    out.push_back(order[position % available]);
  }
  return out;
}

// Reward of one module: nothing where nobody can say, nor for one that is kept for evaluation, which no model can know.
std::optional<double> reward_of(const ModuleRollout& m, const rl::FrontierCounts& counts,
                                const ProposerOptions& options) {
  if (!m.scored || m.admission.reason == "held_out") return std::nullopt;
  const bool duplicate = m.admission.reason == "duplicate" || m.admission.reason == "duplicate_sequence";
  if (m.valid && duplicate) return options.duplicate_reward;
  return rl::frontier_reward(m.admission.module > 0, counts, options.frontier);
}

}  // namespace

Result<StepRecord> proposer_step(Loop& loop, int64_t step, int64_t ordinal) {
  const ProposerOptions& options = loop.options.proposer;
  Stopwatch watch;
  StepRecord record;
  record.step = step;
  record.role = Role::kProposer;
  auto& metrics = record.metrics;
  loop.book.begin(step);

  const auto lists = choose_lists(loop.lists.size(), options.lists, ordinal, loop.options.seed);
  KZ_ASSIGN(const auto groups, write_modules(loop, lists, options.group, "proposer/module", step, metrics));

  // Rollouts of the frozen Coder on what was admitted.
  KernelRequest request;
  std::vector<int64_t> admitted;
  for (const auto& group : groups) {
    for (const auto& m : group) {
      if (m.admission.module == 0) continue;
      admitted.push_back(m.admission.module);
      request.sources.push_back(loop.archive.at(m.admission.module).source);
    }
  }
  request.samples = options.rollouts;
  request.sampling = loop.options.coder.sampling;
  request.timing = false;  // the frontier knows right and wrong only
  request.purpose = "proposer/probe";
  request.seed = loop.options.seed;
  request.step = step;
  KZ_ASSIGN(const auto kernels, write_kernels(loop, request, metrics));

  KernelTally tally;
  std::map<int64_t, rl::FrontierCounts> counts;
  for (size_t i = 0; i < admitted.size(); ++i) {
    rl::FrontierCounts c{options.rollouts, 0, 0};
    const std::string prompt = coder_prompt(loop.coder_format, loop.options.keck.backend, request.sources[i]).text;
    for (size_t j = 0; j < kernels[i].size(); ++j) {
      const auto& k = kernels[i][j];
      c.scored += k.facts.scored;
      c.right += k.facts.right;
      tally.add(k);
      record.rollouts.push_back(to_row(k, prompt, static_cast<int64_t>(i), static_cast<int64_t>(j), admitted[i]));
    }
    counts[admitted[i]] = c;
    const ModuleRound round{admitted[i], c.rollouts, c.scored, c.right};
    record.module_rounds.push_back(round);
    loop.archive.seen(round, step, options.frontier.min_scored_share);
  }

  // Frontier rewards, advantages, update.
  KZ_ASSIGN(const auto estimator, rl::estimator_from(options.estimator));
  std::vector<TrainSequence> batch;
  rl::GroupStats stats;
  double frontier = 0;
  int paid = 0;
  for (size_t g = 0; g < groups.size(); ++g) {
    rl::GroupReward pay;
    for (const auto& m : groups[g]) {
      const auto reward = reward_of(m, counts[m.admission.module], options);
      pay.members.push_back({reward.has_value(), reward.value_or(0), 0});
      pay.scored += reward.has_value();
      if (reward && m.admission.module > 0) frontier += *reward, ++paid;
    }
    const auto advantages =
        rl::advantages(pay.members, {.estimator = estimator, .std_floor = loop.options.train.std_floor});
    const std::string prompt = proposer_prompt(loop.proposer_format, loop.lists[lists[g]]).text;
    for (size_t i = 0; i < groups[g].size(); ++i) {
      Rollout row =
          to_row(groups[g][i], prompt, static_cast<int64_t>(g), static_cast<int64_t>(i), loop.lists[lists[g]]);
      row.scored = pay.members[i].scored;
      row.base = pay.members[i].base;
      row.advantage = advantages[i];
      if (row.scored) row.reward = row.base;
      record.rollouts.push_back(std::move(row));
      if (std::abs(advantages[i]) > 1e-6) batch.push_back(to_sequence(groups[g][i].completion, advantages[i]));
    }
    stats.add(pay, advantages);
  }
  Stopwatch update;
  if (!batch.empty()) {
    KZ_ASSIGN(const auto u, loop.proposer.policy_update(
                                batch, derive_seed(loop.options.seed, "proposer/update", static_cast<uint64_t>(step))));
    put_update(u, "proposer", metrics);
  }
  metrics["time/update"] = update.seconds();
  metrics["proposer/reward"] = stats.reward_mean;
  metrics["proposer/zero_advantage_share"] =
      stats.groups > 0 ? static_cast<double>(stats.zero_advantage) / stats.groups : 0;
  if (paid > 0) metrics["proposer/frontier_reward"] = frontier / paid;
  metrics["proposer/valid"] = metrics["proposer/valid_samples"] / std::max(1.0, metrics["proposer/samples"]);
  tally.put("probe", metrics);
  metrics["proposer/unscored_share"] = stats.members > 0 ? static_cast<double>(stats.unscored) / stats.members : 0;
  put_book(loop.book.counts(), metrics);
  record.modules = loop.archive.take_changed();
  record.seconds = watch.seconds();
  return record;
}

}  // namespace kz::evolve
