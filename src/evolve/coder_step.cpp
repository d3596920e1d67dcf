#include <cmath>

#include "base/clock.h"
#include "base/random.h"
#include "evolve/curriculum.h"
#include "evolve/loop.h"
#include "evolve/rollouts.h"
#include "evolve/step_metrics.h"

namespace kz::evolve {
namespace {

// The step's modules: the curriculum's, then new ones by the frozen Proposer, then whatever else the archive has.
Result<std::vector<int64_t>> choose_modules(Loop& loop, int64_t step, StepRecord& record) {
  const CoderOptions& options = loop.options.coder;
  const uint64_t seed = loop.options.seed;
  Selection chosen = select_modules(loop.archive, options, step, seed);
  if (chosen.missing > 0) {
    const int wanted = static_cast<int>(std::ceil(chosen.missing * options.propose));
    std::vector<size_t> lists;
    Rng rng(derive_seed(seed, "coder/lists", static_cast<uint64_t>(step)));
    for (int i = 0; i < wanted; ++i) lists.push_back(rng.below(loop.lists.size()));
    KZ_ASSIGN(const auto groups, write_modules(loop, lists, 1, "coder/module", step, record.metrics));
    for (size_t g = 0; g < groups.size(); ++g) {
      const ModuleRollout& m = groups[g].front();
      const auto& apis = loop.lists[lists[g]];
      Rollout row = to_row(m, proposer_prompt(loop.proposer_format, apis).text, static_cast<int64_t>(g), 0, apis);
      record.rollouts.push_back(std::move(row));
      if (m.admission.module > 0 && chosen.missing > 0) {
        chosen.fresh.push_back(m.admission.module);
        --chosen.missing;
      }
    }
  }
  if (chosen.missing > 0) {
    const auto more = select_more(loop.archive, chosen, static_cast<size_t>(chosen.missing),
                                  derive_seed(seed, "curriculum/more", static_cast<uint64_t>(step)));
    chosen.replayed.insert(chosen.replayed.end(), more.begin(), more.end());
  }
  record.metrics["coder/replayed"] = static_cast<double>(chosen.replayed.size());
  record.metrics["coder/hard"] = static_cast<double>(chosen.hard.size());
  record.metrics["coder/fresh"] = static_cast<double>(chosen.fresh.size());
  std::vector<int64_t> out = chosen.fresh;
  out.insert(out.end(), chosen.replayed.begin(), chosen.replayed.end());
  out.insert(out.end(), chosen.hard.begin(), chosen.hard.end());
  return out;
}

struct Batch {
  std::vector<TrainSequence> sequences;
  rl::GroupStats stats;
};

// CA-GRPO of one group: rewards and advantages into the rows, what teaches something into the batch.
Status reward_group(const Loop& loop, const std::vector<KernelRollout>& group, std::vector<Rollout>& rows,
                    Batch& batch) {
  const TrainOptions& train = loop.options.train;
  const bool imitate = train.estimator == "sft_right";
  std::vector<rl::Outcome> facts;
  for (const auto& r : group) facts.push_back(r.facts);
  const rl::GroupReward reward = rl::ca_grpo(facts, loop.options.coder.reward);
  std::vector<double> advantages(group.size(), 0.0);
  if (imitate) {
    for (size_t i = 0; i < group.size(); ++i) advantages[i] = facts[i].right ? 1.0 : 0.0;
  } else {
    KZ_ASSIGN(const auto estimator, rl::estimator_from(train.estimator));
    advantages = rl::advantages(reward.members, {.estimator = estimator, .std_floor = train.std_floor});
  }
  for (size_t i = 0; i < group.size(); ++i) {
    rows[i].base = reward.members[i].base;
    rows[i].bonus = reward.members[i].bonus;
    if (reward.members[i].scored) rows[i].reward = reward.members[i].reward();
    rows[i].advantage = advantages[i];
    const double weighted = advantages[i] < 0 ? advantages[i] * train.negative_weight : advantages[i];
    if (std::abs(weighted) > 1e-6) batch.sequences.push_back(to_sequence(group[i].completion, weighted));
  }
  batch.stats.add(reward, advantages);
  return {};
}

void put_groups(const rl::GroupStats& s, std::map<std::string, double>& metrics) {
  metrics["coder/accuracy"] = s.accuracy;
  metrics["coder/reward"] = s.reward_mean;
  metrics["coder/groups"] = s.groups;
  metrics["coder/all_right"] = s.all_right;
  metrics["coder/all_wrong"] = s.all_wrong;
  metrics["coder/mixed"] = s.mixed;
  metrics["coder/gated_on"] = s.gated_on;
  metrics["coder/with_bonus"] = s.with_bonus;
  metrics["coder/zero_advantage_share"] = s.groups > 0 ? static_cast<double>(s.zero_advantage) / s.groups : 0;
}

// Accuracy apart for what the Coder never saw and for what comes again.
void put_by_kind(const Archive& archive, const std::vector<ModuleRound>& rounds,
                 std::map<std::string, double>& metrics) {
  double fresh[2] = {0, 0}, again[2] = {0, 0};
  for (const auto& r : rounds) {
    auto& side = archive.at(r.module).times_seen == 0 ? fresh : again;
    side[0] += r.right;
    side[1] += r.scored;
  }
  if (fresh[1] > 0) metrics["coder/accuracy_fresh"] = fresh[0] / fresh[1];
  if (again[1] > 0) metrics["coder/accuracy_again"] = again[0] / again[1];
}

}  // namespace

Result<StepRecord> coder_step(Loop& loop, int64_t step) {
  const EvolveOptions& options = loop.options;
  Stopwatch watch;
  StepRecord record;
  record.step = step;
  record.role = Role::kCoder;
  auto& metrics = record.metrics;
  loop.book.begin(step);

  KZ_ASSIGN(const auto modules, choose_modules(loop, step, record));
  KernelRequest request;
  for (const int64_t id : modules) request.sources.push_back(loop.archive.at(id).source);
  request.samples = options.coder.group;
  request.sampling = options.coder.sampling;
  request.timing = options.coder.timing == "all";
  request.purpose = "coder/kernel";
  request.seed = options.seed;
  request.step = step;
  KZ_ASSIGN(auto groups, write_kernels(loop, request, metrics));
  if (options.coder.timing == "gated") KZ_TRY(time_groups(loop, request, groups, metrics));

  KernelTally tally;
  Batch batch;
  for (size_t g = 0; g < groups.size(); ++g) {
    const std::string prompt = coder_prompt(loop.coder_format, options.keck.backend, request.sources[g]).text;
    std::vector<Rollout> rows;
    ModuleRound round{modules[g], options.coder.group, 0, 0};
    for (size_t i = 0; i < groups[g].size(); ++i) {
      const auto& r = groups[g][i];
      rows.push_back(to_row(r, prompt, static_cast<int64_t>(g), static_cast<int64_t>(i), modules[g]));
      round.scored += r.facts.scored;
      round.right += r.facts.right;
      tally.add(r);
    }
    KZ_TRY(reward_group(loop, groups[g], rows, batch));
    record.module_rounds.push_back(round);
    record.rollouts.insert(record.rollouts.end(), rows.begin(), rows.end());
  }
  put_by_kind(loop.archive, record.module_rounds, metrics);
  for (const auto& round : record.module_rounds)
    loop.archive.seen(round, step, options.proposer.frontier.min_scored_share);

  Stopwatch update;
  if (!batch.sequences.empty()) {
    const uint64_t seed = derive_seed(options.seed, "coder/update", static_cast<uint64_t>(step));
    auto u = options.train.estimator == "sft_right" ? loop.coder.likelihood_update(batch.sequences, seed)
                                                    : loop.coder.policy_update(batch.sequences, seed);
    if (!u) return tl::unexpected(u.error());
    put_update(*u, "coder", metrics);
  }
  metrics["time/update"] = update.seconds();
  put_groups(batch.stats, metrics);
  tally.put("coder", metrics);
  put_book(loop.book.counts(), metrics);
  record.modules = loop.archive.take_changed();
  record.seconds = watch.seconds();
  return record;
}

}  // namespace kz::evolve
