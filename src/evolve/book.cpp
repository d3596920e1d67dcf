#include "evolve/book.h"

#include "base/hash.h"
#include "base/text.h"

namespace kz::evolve {
namespace {

// The host's fault says nothing of the candidate: the same text may be asked again later, but not within the unit.
bool final_answer(const keck::Verdict& v) { return v.scored() || v.stage != keck::Stage::kHost; }
bool final_answer(const keck::ModuleReport& r) { return r.outcome != keck::Outcome::kUnscored; }

constexpr std::chrono::duration<double> kNow{0}, kSoon{0.05}, kWait{1.0};

}  // namespace

VerdictKey verdict_key(const keck::EvaluationRequest& r) {
  return {sha256_hex(r.module), sha256_hex(r.candidate),
          r.backend + (r.timing ? "+time" : "") + (r.check == "strict" ? "" : "+" + r.check)};
}

std::string report_key(const keck::ModuleRequest& r) { return sha256_hex(join(r.apis, "\n") + "\n\n" + r.module); }

void Book::begin(int64_t unit) {
  unit_ = unit;
  told_ = 0;
  verdicts_ = {};
  reports_ = {};
  counts_ = {};
}

Status Book::ask(size_t slot, const keck::EvaluationRequest& request) {
  const VerdictKey key = verdict_key(request);
  ++counts_.verdicts;
  const auto [at, fresh] = verdicts_.by_key.emplace(key.module + key.candidate + key.backend, verdicts_.entries.size());
  verdicts_.slots[slot] = at->second;
  if (!fresh) {
    ++counts_.hits;
    auto& entry = verdicts_.entries[at->second];
    entry.done ? ++verdicts_.answered_slots : ++entry.waiting;
    return {};
  }
  verdicts_.entries.push_back({key, {}, false, 1});
  auto& entry = verdicts_.entries.back();
  ++verdicts_.open;

  KZ_ASSIGN(const int64_t known, store_.count_verdicts(key));
  if (known > 0) {
    KZ_ASSIGN(const auto last, store_.nth_verdict(key, known - 1));
    if (last && (final_answer(last->verdict) || last->unit == unit_)) {
      if (last->unit != unit_) ++counts_.hits;
      entry.answer = *last;
      entry.done = true;
      entry.waiting = 0;
      --verdicts_.open;
      ++verdicts_.answered_slots;
      return {};
    }
  }
  if (!replay_) {
    judge_.ask(at->second, request);
    return {};
  }
  KZ_ASSIGN(const auto other, replay_->nth_verdict(key, known));
  if (!other) {
    return fail("replay", "the replayed run has no verdict for candidate " + key.candidate.substr(0, 12) +
                              " of module " + key.module.substr(0, 12) +
                              ": replay needs the same config, seed, start and machine");
  }
  return record(at->second, other->verdict);
}

Status Book::ask(size_t slot, const keck::ModuleRequest& request) {
  const std::string key = report_key(request);
  ++counts_.reports;
  const auto [at, fresh] = reports_.by_key.emplace(key, reports_.entries.size());
  reports_.slots[slot] = at->second;
  if (!fresh) {
    ++counts_.report_hits;
    auto& entry = reports_.entries[at->second];
    entry.done ? ++reports_.answered_slots : ++entry.waiting;
    return {};
  }
  reports_.entries.push_back({key, {}, false, 1});
  auto& entry = reports_.entries.back();
  ++reports_.open;

  KZ_ASSIGN(const int64_t known, store_.count_reports(key));
  if (known > 0) {
    KZ_ASSIGN(const auto last, store_.nth_report(key, known - 1));
    if (last && (final_answer(last->report) || last->unit == unit_)) {
      if (last->unit != unit_) ++counts_.report_hits;
      entry.answer = *last;
      entry.done = true;
      entry.waiting = 0;
      --reports_.open;
      ++reports_.answered_slots;
      return {};
    }
  }
  if (!replay_) {
    judge_.ask(at->second, request);
    return {};
  }
  KZ_ASSIGN(const auto other, replay_->nth_report(key, known));
  if (!other) {
    return fail("replay", "the replayed run has no gate report for module " + key.substr(0, 12) +
                              ": replay needs the same config, seed, start and machine");
  }
  return record(at->second, other->report);
}

Status Book::record(size_t index, const keck::Verdict& verdict) {
  auto& entry = verdicts_.entries.at(index);
  KZ_ASSIGN(entry.answer.id, store_.add_verdict(entry.key, verdict, unit_));
  entry.answer.unit = unit_;
  entry.answer.verdict = verdict;
  entry.done = true;
  verdicts_.answered_slots += entry.waiting;
  entry.waiting = 0;
  --verdicts_.open;
  return {};
}

Status Book::record(size_t index, const keck::ModuleReport& report) {
  auto& entry = reports_.entries.at(index);
  KZ_ASSIGN(entry.answer.id, store_.add_report(entry.key, report, unit_));
  entry.answer.unit = unit_;
  entry.answer.report = report;
  entry.done = true;
  reports_.answered_slots += entry.waiting;
  entry.waiting = 0;
  --reports_.open;
  return {};
}

// A server that is gone for good answers nothing: the run stops here, with nothing recorded that is not true.
static Status reachable(const std::string& reason, const std::string& message) {
  if (reason != "server_unreachable") return {};
  return fail("connect", message + "; nothing is lost, resume the run when Keck is back");
}

// One look at each kind of answer. With both kinds open it may not sleep long on one of them.
Status Book::take(std::chrono::duration<double> wait) {
  const bool both = verdicts_.open > 0 && reports_.open > 0;
  if (verdicts_.open > 0) {
    if (auto got = judge_.next_verdict(both ? std::min(wait, kSoon) : wait)) {
      KZ_TRY(reachable(got->second.reason, got->second.message));
      KZ_TRY(record(got->first, got->second));
    }
  }
  if (reports_.open > 0) {
    if (auto got = judge_.next_report(both ? std::min(wait, kSoon) : wait)) {
      KZ_TRY(reachable(got->second.reason, got->second.message));
      KZ_TRY(record(got->first, got->second));
    }
  }
  return {};
}

Status Book::collect() {
  size_t before;
  do {
    before = verdicts_.open + reports_.open;
    KZ_TRY(take(kNow));
  } while (verdicts_.open + reports_.open < before);
  return {};
}

Status Book::drain(const std::function<void(size_t)>& arrived) {
  const auto tell = [&] {
    const size_t answered = verdicts_.answered_slots + reports_.answered_slots;
    if (arrived && answered > told_) arrived(answered - told_);
    told_ = answered;
  };
  tell();
  while (verdicts_.open + reports_.open > 0) {
    KZ_TRY(take(kWait));
    tell();
  }
  return {};
}

}  // namespace kz::evolve
