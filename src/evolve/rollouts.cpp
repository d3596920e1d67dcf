#include "evolve/rollouts.h"

#include <numeric>
#include <set>

#include "base/clock.h"
#include "base/random.h"
#include "base/text.h"

namespace kz::evolve {
namespace {

lm::Sampling sampling_of(const RoleSampling& s, PromptFormat format) {
  lm::Sampling out;
  out.temperature = s.temperature;
  out.top_p = s.top_p;
  out.max_new_tokens = s.max_new_tokens;
  out.stop = stop_strings(format);
  return out;
}

// A nano completion that never came to its end is no answer; a chat reply may still hold a whole block.
bool truncated(const lm::Completion& c, PromptFormat format) {
  return c.finish == "length" && format == PromptFormat::kNano;
}

void read_verdict(const RecordedVerdict& recorded, KernelRollout& out) {
  const keck::Verdict& v = recorded.verdict;
  out.verdict = recorded.id;
  out.outcome = std::string(keck::to_string(v.outcome));
  out.reason = v.reason;
  out.facts = facts_of(v);
  out.ambiguous = v.timing && v.timing->decision == keck::Decision::kAmbiguous;
  if (v.outcome == keck::Outcome::kPass && !v.accepted) {
    out.reason = v.labels.empty() ? "not_accepted" : v.labels.front();
  }
}

keck::EvaluationRequest evaluation_of(const Loop& loop, const KernelRequest& request, size_t group,
                                      const std::string& code) {
  keck::EvaluationRequest e;
  e.module = (request.judged.empty() ? request.sources : request.judged)[group];
  e.candidate = code;
  e.backend = loop.options.keck.backend;
  e.check = loop.options.keck.check;
  e.timing = request.timing;
  return e;
}

double logprob_sum(const lm::Completion& c) { return std::accumulate(c.logprobs.begin(), c.logprobs.end(), 0.0); }

int64_t token_count(const std::vector<lm::Completion>& completions) {
  int64_t n = 0;
  for (const auto& c : completions) n += static_cast<int64_t>(c.tokens.size());
  return n;
}

}  // namespace

rl::Outcome facts_of(const keck::Verdict& verdict) {
  rl::Outcome o;
  o.scored = verdict.scored();
  o.right = verdict.right();
  if (o.right && verdict.timing) {
    o.speedup = verdict.timing->speedup;
    o.low = verdict.timing->ci95[0];
    o.high = verdict.timing->ci95[1];
  }
  return o;
}

Result<std::vector<std::vector<KernelRollout>>> write_kernels(Loop& loop, const KernelRequest& request,
                                                              std::map<std::string, double>& metrics) {
  const auto samples = static_cast<size_t>(request.samples);
  const size_t n = request.sources.size() * samples;
  std::vector<lm::Prompt> prompts(n);
  const uint64_t base = derive_seed(request.seed, request.purpose, static_cast<uint64_t>(request.step));
  for (size_t i = 0; i < n; ++i) {
    prompts[i] = coder_prompt(loop.coder_format, loop.options.keck.backend, request.sources[i / samples]);
    prompts[i].seed = derive_seed(base, "completion", i);
  }
  std::vector<KernelRollout> flat(n);
  std::vector<bool> asked(n, false);
  Status status;
  size_t written = 0;
  const auto ask = [&](size_t i, const lm::Completion& c) {
    flat[i].code = extract_code(loop.coder_format, c.text, "class ModelNew");
    if (c.finish == "error" || truncated(c, loop.coder_format)) return;
    asked[i] = true;
    if (status) status = loop.book.ask(request.first_slot + i, evaluation_of(loop, request, i / samples, flat[i].code));
    if (status) status = loop.book.collect();
    if (loop.on_progress) loop.on_progress("kernels written", ++written, n);
  };
  Stopwatch watch;
  KZ_ASSIGN(auto completions,
            loop.coder.generator().generate(prompts, sampling_of(request.sampling, loop.coder_format), ask));
  KZ_TRY(status);
  metrics["time/generate"] += watch.lap();
  metrics["tokens/generated"] += static_cast<double>(token_count(completions));
  size_t arrived = 0;
  KZ_TRY(loop.book.drain([&](size_t more) {
    if (loop.on_progress) loop.on_progress("verdicts", arrived += more, n);
  }));
  metrics["time/verdicts"] += watch.lap();

  std::vector<std::vector<KernelRollout>> out(request.sources.size());
  for (size_t i = 0; i < n; ++i) {
    KernelRollout& r = flat[i];
    r.completion = std::move(completions[i]);
    if (asked[i]) {
      read_verdict(loop.book.verdict(request.first_slot + i), r);
    } else if (r.completion.finish == "error") {
      r.outcome = "unscored";
      r.reason = "generator_error";
      r.facts.scored = false;
    } else {
      r.outcome = "fail";
      r.reason = "truncated";
    }
    out[i / samples].push_back(std::move(r));
  }
  return out;
}

Status time_groups(Loop& loop, const KernelRequest& request, std::vector<std::vector<KernelRollout>>& groups,
                   std::map<std::string, double>& metrics) {
  const size_t first = request.first_slot + groups.size() * static_cast<size_t>(request.samples);
  std::vector<std::pair<size_t, KernelRollout*>> asked;
  Stopwatch watch;
  for (size_t g = 0; g < groups.size(); ++g) {
    std::set<std::string> texts;
    int scored = 0, right = 0;
    for (const auto& r : groups[g]) {
      scored += r.facts.scored;
      right += r.facts.right;
      if (r.facts.right) texts.insert(r.code);
    }
    if (texts.size() < 2 || right < loop.options.coder.reward.alpha * scored) continue;
    for (auto& r : groups[g]) {
      if (!r.facts.right) continue;
      keck::EvaluationRequest e = evaluation_of(loop, request, g, r.code);
      e.timing = true;
      const size_t slot = first + asked.size();
      KZ_TRY(loop.book.ask(slot, e));
      asked.emplace_back(slot, &r);
    }
  }
  KZ_TRY(loop.book.drain());
  for (const auto& [slot, rollout] : asked) {
    const RecordedVerdict& timed = loop.book.verdict(slot);
    if (timed.verdict.scored()) read_verdict(timed, *rollout);
  }
  metrics["time/timing"] += watch.seconds();
  metrics["verdicts/timed"] += static_cast<double>(asked.size());
  return {};
}

Result<std::vector<std::vector<ModuleRollout>>> write_modules(Loop& loop, const std::vector<size_t>& lists, int group,
                                                              const std::string& purpose, int64_t step,
                                                              std::map<std::string, double>& metrics) {
  const auto members = static_cast<size_t>(group);
  const size_t n = lists.size() * members;
  const uint64_t base = derive_seed(loop.options.seed, purpose, static_cast<uint64_t>(step));
  std::vector<lm::Prompt> prompts(n);
  for (size_t i = 0; i < n; ++i) {
    prompts[i] = proposer_prompt(loop.proposer_format, loop.lists[lists[i / members]]);
    prompts[i].seed = derive_seed(base, "completion", i);
  }
  std::vector<ModuleRollout> flat(n);
  std::vector<bool> asked(n, false);
  Status status;
  const auto ask = [&](size_t i, const lm::Completion& c) {
    flat[i].code = extract_code(loop.proposer_format, c.text, "class Model");
    if (c.finish == "error" || truncated(c, loop.proposer_format)) return;
    keck::ModuleRequest m;
    m.module = flat[i].code;
    m.apis = loop.lists[lists[i / members]];
    asked[i] = true;
    if (status) status = loop.book.ask(i, m);
    if (status) status = loop.book.collect();
  };
  Stopwatch watch;
  KZ_ASSIGN(auto completions, loop.proposer.generator().generate(
                                  prompts, sampling_of(loop.options.proposer.sampling, loop.proposer_format), ask));
  KZ_TRY(status);
  metrics["time/propose"] += watch.lap();
  metrics["tokens/proposed"] += static_cast<double>(token_count(completions));
  size_t arrived = 0;
  KZ_TRY(loop.book.drain([&](size_t more) {
    if (loop.on_progress) loop.on_progress("modules gated", arrived += more, n);
  }));
  metrics["time/gate"] += watch.lap();

  std::vector<std::vector<ModuleRollout>> out(lists.size());
  for (size_t i = 0; i < n; ++i) {
    ModuleRollout& r = flat[i];
    r.list = lists[i / members];
    r.completion = std::move(completions[i]);
    if (asked[i]) {
      const RecordedReport& recorded = loop.book.report(i);
      r.report = recorded.id;
      r.scored = recorded.report.outcome != keck::Outcome::kUnscored;
      r.valid = recorded.report.outcome == keck::Outcome::kPass;
      r.admission = r.valid ? loop.archive.admit(recorded.report, step) : Admission{0, recorded.report.reason};
    } else if (r.completion.finish == "error") {
      r.scored = false;
      r.admission.reason = "generator_error";
    } else {
      r.admission.reason = "truncated";
    }
    metrics["proposer/samples"] += 1;
    metrics["proposer/valid_samples"] += r.valid;
    metrics["proposer/admitted"] += r.admission.module > 0;
    if (r.admission.module == 0) metrics["refused/" + r.admission.reason] += 1;
    out[i / members].push_back(std::move(r));
  }
  return out;
}

Rollout to_row(const KernelRollout& r, const std::string& prompt, int64_t group, int64_t member, int64_t module) {
  Rollout row;
  row.role = Role::kCoder;
  row.group = group;
  row.member = member;
  row.module = module;
  row.prompt = prompt;
  row.text = r.code;
  row.finish = r.completion.finish;
  row.tokens = static_cast<int64_t>(r.completion.tokens.size());
  row.logprob_sum = logprob_sum(r.completion);
  row.verdict = r.verdict;
  row.outcome = r.outcome;
  row.reason = r.reason;
  row.right = r.facts.right;
  row.speedup = r.facts.speedup;
  row.scored = r.facts.scored;
  return row;
}

Rollout to_row(const ModuleRollout& r, const std::string& prompt, int64_t group, int64_t member,
               const std::vector<std::string>& apis) {
  Rollout row;
  row.role = Role::kProposer;
  row.group = group;
  row.member = member;
  row.module = r.admission.module;
  row.task = join(apis, "\n");
  row.prompt = prompt;
  row.text = r.code;
  row.finish = r.completion.finish;
  row.tokens = static_cast<int64_t>(r.completion.tokens.size());
  row.logprob_sum = logprob_sum(r.completion);
  row.verdict = r.report;
  row.outcome = !r.scored ? "unscored" : r.admission.module > 0 ? "pass" : "fail";
  row.reason = r.admission.reason;
  row.right = r.admission.module > 0;
  row.scored = r.scored;
  return row;
}

TrainSequence to_sequence(const lm::Completion& c, double advantage) {
  return {c.prompt_tokens, c.tokens, c.logprobs, advantage};
}

}  // namespace kz::evolve
