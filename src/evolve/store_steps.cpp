// The run store's large transactions: a whole step, a whole evaluation.
#include "base/clock.h"
#include "evolve/store.h"
#include "evolve/store_impl.h"

namespace kz::evolve {
namespace {

ModuleStatus status_from(const std::string& text) {
  for (const auto status :
       {ModuleStatus::kFresh, ModuleStatus::kFrontier, ModuleStatus::kHard, ModuleStatus::kSolved}) {
    if (to_string(status) == text) return status;
  }
  return ModuleStatus::kFresh;
}

void bind_optional(SQLite::Statement& q, int index, const std::optional<double>& value) {
  bind_number(q, index, value.value_or(std::nan("")));
}

}  // namespace

void Store::Impl::put_step_row(const StepRecord& step) {
  const Cursor q = query("INSERT INTO steps VALUES(?, ?, ?, ?, ?, ?, ?, ?)");
  q->bind(1, step.step);
  q->bind(2, step.round);
  q->bind(3, step.index);
  q->bind(4, std::string(to_string(step.role)));
  bind_number(*q, 5, step.seconds);
  q->bind(6, step.coder_checkpoint);
  q->bind(7, step.proposer_checkpoint);
  q->bind(8, utc_now());
  q->exec();
}

void Store::Impl::put_rollout(int64_t step, const Rollout& r) {
  const Cursor q = query(
      "INSERT INTO rollouts(step, role, grp, member, module, task, prompt, source, finish, tokens, logprob_sum, "
      "verdict, "
      "outcome, reason, right, speedup, scored, base, bonus, reward, advantage) "
      "VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  int i = 0;
  q->bind(++i, step);
  q->bind(++i, std::string(to_string(r.role)));
  q->bind(++i, r.group);
  q->bind(++i, r.member);
  if (r.module > 0) q->bind(i + 1, r.module);
  ++i;
  q->bind(++i, r.task);
  q->bind(++i, r.prompt);
  q->bind(++i, r.text);
  q->bind(++i, r.finish);
  q->bind(++i, r.tokens);
  bind_number(*q, ++i, r.logprob_sum);
  if (r.verdict > 0) q->bind(i + 1, r.verdict);
  ++i;
  q->bind(++i, r.outcome);
  q->bind(++i, r.reason);
  q->bind(++i, r.right ? 1 : 0);
  bind_number(*q, ++i, r.speedup);
  q->bind(++i, r.scored ? 1 : 0);
  bind_number(*q, ++i, r.base);
  bind_number(*q, ++i, r.bonus);
  bind_optional(*q, ++i, r.reward);
  bind_number(*q, ++i, r.advantage);
  q->exec();
}

void Store::Impl::put_module(const ModuleRecord& m) {
  const Cursor q = query("INSERT OR REPLACE INTO modules VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  q->bind(1, m.id);
  q->bind(2, m.hash);
  q->bind(3, m.sequence);
  q->bind(4, m.source);
  q->bind(5, dump_json(Json(m.apis)));
  q->bind(6, m.step);
  q->bind(7, std::string(to_string(m.status)));
  bind_optional(*q, 8, m.mean);
  q->bind(9, m.seen_step);
  q->bind(10, m.times_seen);
  q->exec();
}

void Store::Impl::put_module_round(const StepRecord& step, const ModuleRound& r) {
  const Cursor q = query("INSERT INTO module_rounds VALUES(?, ?, ?, ?, ?, ?, ?)");
  q->bind(1, r.module);
  q->bind(2, step.step);
  q->bind(3, step.round);
  q->bind(4, std::string(to_string(step.role)));
  q->bind(5, r.rollouts);
  q->bind(6, r.scored);
  q->bind(7, r.right);
  q->exec();
}

void Store::Impl::put_metric(int64_t step, const std::string& name, double value) {
  const Cursor q = query("INSERT OR REPLACE INTO metrics VALUES(?, ?, ?)");
  q->bind(1, step);
  q->bind(2, name);
  bind_number(*q, 3, value);
  q->exec();
}

void Store::Impl::put_task(const std::string& evaluation, int64_t index, const EvaluationTask& task) {
  const Cursor q = query("INSERT INTO evaluation_tasks VALUES(?, ?, ?, ?, ?)");
  q->bind(1, evaluation);
  q->bind(2, index);
  q->bind(3, task.name);
  q->bind(4, task.sequence);
  q->bind(5, task.source);
  q->exec();
}

void Store::Impl::put_sample(const std::string& evaluation, const EvaluationSample& s) {
  const Cursor q = query("INSERT INTO evaluation_samples VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  q->bind(1, evaluation);
  q->bind(2, s.task);
  q->bind(3, s.kind);
  q->bind(4, s.member);
  q->bind(5, s.text);
  q->bind(6, s.outcome);
  q->bind(7, s.reason);
  q->bind(8, s.scored ? 1 : 0);
  q->bind(9, s.right ? 1 : 0);
  bind_number(*q, 10, s.speedup);
  if (s.verdict > 0) q->bind(11, s.verdict);
  q->exec();
}

Status Store::commit_step(const StepRecord& step) {
  KZ_TRY(impl_->guard_void("committing a step", [&] {
    SQLite::Transaction transaction(impl_->db);
    impl_->put_step_row(step);
    for (const auto& module : step.modules) impl_->put_module(module);
    for (const auto& round : step.module_rounds) impl_->put_module_round(step, round);
    for (const auto& rollout : step.rollouts) impl_->put_rollout(step.step, rollout);
    for (const auto& [name, value] : step.metrics) impl_->put_metric(step.step, name, value);
    transaction.commit();
  }));
  // To the disk itself, before the caller removes the checkpoint of the step before.
  return impl_->guard_void("syncing the run store",
                           [&] { impl_->query("PRAGMA wal_checkpoint(PASSIVE)")->executeStep(); });
}

Result<std::optional<StepRecord>> Store::last_step() const {
  return impl_->guard("reading steps", [&] {
    std::optional<StepRecord> out;
    const Cursor q = impl_->query(
        "SELECT step, round, position, role, seconds, coder_checkpoint, proposer_checkpoint FROM steps ORDER BY step "
        "DESC LIMIT 1");
    if (!q->executeStep()) return out;
    out.emplace();
    out->step = q->getColumn(0).getInt64();
    out->round = q->getColumn(1).getInt64();
    out->index = q->getColumn(2).getInt64();
    out->role = text_of(q->getColumn(3)) == "proposer" ? Role::kProposer : Role::kCoder;
    out->seconds = number_of(q->getColumn(4));
    out->coder_checkpoint = text_of(q->getColumn(5));
    out->proposer_checkpoint = text_of(q->getColumn(6));
    return out;
  });
}

Result<double> Store::seconds() const {
  return impl_->guard("reading steps", [&] {
    const Cursor q = impl_->query("SELECT COALESCE(SUM(seconds), 0) FROM steps");
    q->executeStep();
    return q->getColumn(0).getDouble();
  });
}

Result<int64_t> Store::rounds_done() const {
  return impl_->guard("reading steps", [&]() -> int64_t {
    const Cursor q = impl_->query("SELECT COUNT(DISTINCT round) FROM steps WHERE role = 'coder'");
    q->executeStep();
    return q->getColumn(0).getInt64();
  });
}

Result<std::vector<ModuleRecord>> Store::modules() const {
  return impl_->guard("reading modules", [&] {
    std::vector<ModuleRecord> out;
    const Cursor q = impl_->query(
        "SELECT id, hash, sequence, source, apis, step, status, mean, seen_step, times_seen FROM modules ORDER BY id");
    while (q->executeStep()) {
      ModuleRecord m;
      m.id = q->getColumn(0).getInt64();
      m.hash = text_of(q->getColumn(1));
      m.sequence = text_of(q->getColumn(2));
      m.source = text_of(q->getColumn(3));
      m.apis = Json::parse(text_of(q->getColumn(4))).get<std::vector<std::string>>();
      m.step = q->getColumn(5).getInt64();
      m.status = status_from(text_of(q->getColumn(6)));
      if (!q->getColumn(7).isNull()) m.mean = q->getColumn(7).getDouble();
      m.seen_step = q->getColumn(8).getInt64();
      m.times_seen = q->getColumn(9).getInt();
      out.push_back(std::move(m));
    }
    return out;
  });
}

Status Store::commit_round(int round, const std::map<std::string, double>& numbers) {
  return impl_->guard_void("writing a round", [&] {
    SQLite::Transaction transaction(impl_->db);
    for (const auto& [name, value] : numbers) {
      const Cursor q = impl_->query("INSERT OR REPLACE INTO rounds VALUES(?, ?, ?)");
      q->bind(1, round);
      q->bind(2, name);
      bind_number(*q, 3, value);
      q->exec();
    }
    transaction.commit();
  });
}

Status Store::commit_evaluation(const EvaluationRecord& e) {
  return impl_->guard_void("committing an evaluation", [&] {
    SQLite::Transaction transaction(impl_->db);
    const Cursor q = impl_->query("INSERT INTO evaluations VALUES(?, ?, ?, ?)");
    q->bind(1, e.name);
    q->bind(2, e.step);
    bind_number(*q, 3, e.seconds);
    Json numbers = Json::object();
    for (const auto& [name, value] : e.numbers) numbers[name] = json_number(value);
    q->bind(4, dump_json(numbers));
    q->exec();
    for (size_t i = 0; i < e.tasks.size(); ++i) impl_->put_task(e.name, static_cast<int64_t>(i), e.tasks[i]);
    for (const auto& sample : e.samples) impl_->put_sample(e.name, sample);
    transaction.commit();
  });
}

Result<std::optional<EvaluationRecord>> Store::evaluation(const std::string& name) const {
  return impl_->guard("reading an evaluation", [&] {
    std::optional<EvaluationRecord> out;
    const Cursor q = impl_->query("SELECT step, seconds, numbers FROM evaluations WHERE name = ?");
    q->bind(1, name);
    if (!q->executeStep()) return out;
    out.emplace();
    out->name = name;
    out->step = q->getColumn(0).getInt64();
    out->seconds = number_of(q->getColumn(1));
    const Json numbers = Json::parse(text_of(q->getColumn(2)));
    for (const auto& [key, value] : numbers.items()) out->numbers[key] = number_from_json(value);
    const Cursor t =
        impl_->query("SELECT name, sequence, source FROM evaluation_tasks WHERE evaluation = ? ORDER BY task");
    t->bind(1, name);
    while (t->executeStep()) {
      out->tasks.push_back({text_of(t->getColumn(0)), text_of(t->getColumn(1)), text_of(t->getColumn(2))});
    }
    const Cursor s = impl_->query(
        "SELECT task, kind, member, source, outcome, reason, scored, right, speedup, verdict FROM evaluation_samples "
        "WHERE evaluation = ? ORDER BY task, kind, member");
    s->bind(1, name);
    while (s->executeStep()) {
      EvaluationSample e;
      e.task = s->getColumn(0).getInt64();
      e.kind = text_of(s->getColumn(1));
      e.member = s->getColumn(2).getInt64();
      e.text = text_of(s->getColumn(3));
      e.outcome = text_of(s->getColumn(4));
      e.reason = text_of(s->getColumn(5));
      e.scored = s->getColumn(6).getInt() != 0;
      e.right = s->getColumn(7).getInt() != 0;
      e.speedup = number_of(s->getColumn(8));
      e.verdict = s->getColumn(9).getInt64();
      out->samples.push_back(std::move(e));
    }
    return out;
  });
}

Result<std::vector<MetricRow>> Store::metrics() const {
  return impl_->guard("reading metrics", [&] {
    std::vector<MetricRow> out;
    const Cursor q = impl_->query("SELECT step, name, value FROM metrics ORDER BY step, name");
    while (q->executeStep())
      out.push_back({q->getColumn(0).getInt64(), text_of(q->getColumn(1)), number_of(q->getColumn(2))});
    return out;
  });
}

}  // namespace kz::evolve
