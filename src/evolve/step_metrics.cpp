#include "evolve/step_metrics.h"

#include <cmath>

namespace kz::evolve {

void KernelTally::add(const KernelRollout& r) {
  ++rollouts_;
  scored_ += r.facts.scored;
  right_ += r.facts.right;
  unscored_ += !r.facts.scored;
  ambiguous_ += r.ambiguous;
  tokens_ += static_cast<double>(r.completion.tokens.size());
  if (r.facts.right && std::isfinite(r.facts.speedup)) speedups_ += r.facts.speedup, ++timed_;
  if (!r.facts.right) ++reasons_[r.reason];
}

void KernelTally::put(const std::string& part, std::map<std::string, double>& metrics) const {
  metrics["verdicts/unscored"] += unscored_;
  metrics["verdicts/ambiguous"] += ambiguous_;
  if (rollouts_ == 0) return;
  metrics[part + "/rollouts"] = rollouts_;
  metrics[part + "/right"] = right_;
  if (scored_ > 0) metrics[part + "/right_share"] = static_cast<double>(right_) / scored_;
  metrics[part + "/unscored_share"] = static_cast<double>(unscored_) / rollouts_;
  metrics[part + "/answer_tokens"] = tokens_ / rollouts_;
  if (timed_ > 0) metrics[part + "/speedup"] = speedups_ / timed_;
  for (const auto& [reason, n] : reasons_) metrics["failed/" + reason] += n;
}

void put_update(const UpdateStats& u, const std::string& part, std::map<std::string, double>& metrics) {
  metrics[part + "/sequences"] = static_cast<double>(u.sequences);
  metrics[part + "/loss"] = u.loss;
  metrics[part + "/lr"] = u.lr;
  metrics[part + "/grad_norm"] = u.grad_norm;
  metrics[part + "/entropy"] = u.entropy;
  metrics[part + "/kl"] = u.kl_old;
  metrics[part + "/kl_start"] = u.kl_start;
  metrics[part + "/clip_fraction"] = u.clip_fraction;
  metrics[part + "/mismatch"] = u.mismatch;
}

void put_book(const BookCounts& counts, std::map<std::string, double>& metrics) {
  metrics["verdicts/asked"] = static_cast<double>(counts.verdicts);
  metrics["verdicts/hits"] = static_cast<double>(counts.hits);
  metrics["gate/asked"] = static_cast<double>(counts.reports);
  metrics["gate/hits"] = static_cast<double>(counts.report_hits);
}

}  // namespace kz::evolve
