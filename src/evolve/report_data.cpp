#include "evolve/report_data.h"

#include <SQLiteCpp/SQLiteCpp.h>

#include <algorithm>
#include <cmath>

#include "bench/report.h"
#include "evolve/evaluation.h"
#include "evolve/summary.h"

namespace kz::evolve {
namespace {

// The report's names of the metrics of a step (docs of bench/report.h), by role.
Json step_metrics(const std::map<std::string, double>& from, const std::string& role) {
  const std::pair<const char*, std::string> names[] = {
      {"coder_accuracy", "coder/accuracy"},
      {"proposer_valid", "proposer/valid"},
      {"frontier_reward", "proposer/frontier_reward"},
      {"entropy", role + "/entropy"},
      {"kl", role + "/kl_start"},
      {"clip_fraction", role + "/clip_fraction"},
      {"zero_advantage_share", role + "/zero_advantage_share"},
      {"unscored_rate", role + "/unscored_share"},
      {"reward", role + "/reward"},
      {"loss", role + "/loss"},
      {"grad_norm", role + "/grad_norm"},
      {"speedup", "coder/speedup"},
      {"seconds", "time/step"},
      {"fast1", role + "/fast1"},
  };
  Json metrics = Json::object();
  for (const auto& [name, key] : names) {
    const auto it = from.find(key);
    if (it != from.end()) metrics[name] = json_number(it->second);
  }
  return metrics;
}

double column_number(const SQLite::Column& column) { return column.isNull() ? std::nan("") : column.getDouble(); }

// Steps in order, and the seconds of each part of the work over the whole run.
void add_steps(SQLite::Database& db, Json& data) {
  std::map<int64_t, std::map<std::string, double>> metrics;
  SQLite::Statement rows(db, "SELECT step, name, value FROM metrics");
  while (rows.executeStep())
    metrics[rows.getColumn(0).getInt64()][rows.getColumn(1).getString()] = column_number(rows.getColumn(2));

  Json steps = Json::array(), time = Json::object();
  SQLite::Statement query(
      db,
      "SELECT step, round, position, role, (SELECT CAST(SUM(right AND speedup > 1) AS REAL) / SUM(scored) "
      "FROM rollouts WHERE rollouts.step = steps.step AND role = 'coder') FROM steps ORDER BY step");
  while (query.executeStep()) {
    const std::string role = query.getColumn(3).getString();
    auto& of_step = metrics[query.getColumn(0).getInt64()];
    if (!query.getColumn(4).isNull()) of_step[role + "/fast1"] = query.getColumn(4).getDouble();
    steps.push_back({{"round", query.getColumn(1).getInt64() + 1},
                     {"phase", role},
                     {"step", query.getColumn(2).getInt64() + 1},
                     {"metrics", step_metrics(of_step, role)}});
    for (const auto& [name, value] : of_step) {
      constexpr std::string_view kPrefix = "time/";
      if (name.rfind(kPrefix, 0) != 0 || name == "time/step" || !std::isfinite(value)) continue;
      const std::string part = name.substr(kPrefix.size());
      time[part] = time.value(part, 0.0) + value;
    }
  }
  SQLite::Statement evaluations(db, "SELECT name, seconds FROM evaluations");
  while (evaluations.executeStep())
    time["evaluate " + evaluations.getColumn(0).getString()] = evaluations.getColumn(1).getDouble();
  data["steps"] = std::move(steps);
  data["time"] = std::move(time);
}

// Modules by how many of 8 rollouts were right, a round; other group sizes are scaled to eighths.
void add_frontier(SQLite::Database& db, Json& data) {
  std::map<int64_t, std::vector<int>> rounds;
  SQLite::Statement query(db, "SELECT round, scored, right FROM module_rounds WHERE scored > 0");
  while (query.executeStep()) {
    auto& histogram = rounds.try_emplace(query.getColumn(0).getInt64(), std::vector<int>(9)).first->second;
    const double share = query.getColumn(2).getDouble() / query.getColumn(1).getDouble();
    ++histogram[static_cast<size_t>(std::lround(8 * share))];
  }
  Json list = Json::array();
  for (const auto& [round, histogram] : rounds) list.push_back({{"round", round + 1}, {"right_of_8", histogram}});
  data["frontier"] = std::move(list);
}

void add_apis(SQLite::Database& db, Json& data) {
  struct Counts {
    int modules = 0;
    int64_t right = 0, rollouts = 0;
  };
  std::map<std::string, Counts> apis;
  SQLite::Statement query(
      db,
      "SELECT apis, COALESCE((SELECT SUM(right) FROM module_rounds WHERE module = modules.id), 0), "
      "COALESCE((SELECT SUM(scored) FROM module_rounds WHERE module = modules.id), 0) FROM modules");
  while (query.executeStep()) {
    const auto names = parse_json(query.getColumn(0).getString(), "run.db: modules.apis");
    if (!names || !names->is_array()) continue;
    for (const Json& name : *names) {
      if (!name.is_string()) continue;
      Counts& counts = apis[name.get<std::string>()];
      ++counts.modules;
      counts.right += query.getColumn(1).getInt64();
      counts.rollouts += query.getColumn(2).getInt64();
    }
  }
  Json list = Json::array();
  for (const auto& [name, c] : apis)
    list.push_back({{"name", name}, {"modules", c.modules}, {"right", c.right}, {"rollouts", c.rollouts}});
  data["apis"] = std::move(list);
}

// An even sample: every n-th rollout of the run, so that each phase and the mix of right and wrong are as they were.
void add_rollouts(SQLite::Database& db, int wanted, Json& data) {
  const int64_t total = db.execAndGet("SELECT COUNT(*) FROM rollouts").getInt64();
  const int64_t stride = std::max<int64_t>(1, (total + wanted - 1) / std::max(1, wanted));
  SQLite::Statement query(
      db,
      "SELECT s.round, s.position, r.role, r.prompt, r.source, r.outcome, r.reason, r.reward, r.advantage, "
      "r.speedup, r.module, r.verdict, r.right, CASE r.role WHEN 'coder' THEN (SELECT verdict FROM verdicts "
      "WHERE id = r.verdict) ELSE (SELECT report FROM reports WHERE id = r.verdict) END "
      "FROM rollouts r JOIN steps s ON s.step = r.step WHERE r.id % ? = 0 ORDER BY r.id");
  query.bind(1, stride);
  Json list = Json::array();
  while (query.executeStep()) {
    Json one = {{"round", query.getColumn(0).getInt64() + 1}, {"step", query.getColumn(1).getInt64() + 1},
                {"phase", query.getColumn(2).getString()},    {"prompt", query.getColumn(3).getString()},
                {"text", query.getColumn(4).getString()},     {"outcome", query.getColumn(5).getString()},
                {"reason", query.getColumn(6).getString()},   {"right", query.getColumn(12).getInt() != 0}};
    const char* numbers[] = {"reward", "advantage", "speedup"};
    for (int i = 0; i < 3; ++i) {
      if (!query.getColumn(7 + i).isNull()) one[numbers[i]] = query.getColumn(7 + i).getDouble();
    }
    const auto verdict = parse_json(query.getColumn(13).getString(), "run.db");
    if (verdict && verdict->is_object()) {
      one["stage"] = verdict->value("stage", "");
      one["message"] = verdict->value("message", "");
      const Json timing = verdict->value("timing", Json());
      if (timing.is_object()) one["decision"] = timing.value("decision", "");
    }
    list.push_back(std::move(one));
  }
  data["rollouts"] = std::move(list);
}

Json evaluation_json(const EvaluationRecord& record) {
  Json numbers = Json::object();
  for (const auto& [name, value] : record.numbers) numbers[name] = json_number(value);
  std::vector<bench::TaskSamples> tasks(record.tasks.size());
  int most = 0;
  for (const EvaluationSample& s : record.samples) {
    if (s.kind != "sample" || !s.scored || s.task < 0 || static_cast<size_t>(s.task) >= tasks.size()) continue;
    auto& samples = tasks[static_cast<size_t>(s.task)];
    samples.push_back({s.right, std::isfinite(s.speedup) ? s.speedup : 0});
    most = std::max(most, static_cast<int>(samples.size()));
  }
  Json pass = Json::array(), fast = Json::array();
  for (int k = 1; k <= most; ++k) pass.push_back(json_number(mean_of(task_pass_at_k(record, k))));
  for (const double p : bench::kFastP) fast.push_back(json_number(bench::fast_p_at_k(tasks, p, 1)));
  return {{"numbers", numbers}, {"pass_at_k", pass}, {"fast_p", fast}, {"seconds", record.seconds}};
}

}  // namespace

Result<Json> report_data(const fs::path& folder, const ReportOptions& options) {
  KZ_ASSIGN(const Store store, Store::open_read_only(folder / "run.db"));
  KZ_ASSIGN(const auto meta, store.meta());
  const auto meta_text = [&](const char* key) { return meta.count(key) > 0 ? meta.at(key) : std::string(); };
  Json data = {{"run",
                {{"name", fs::weakly_canonical(folder).filename().string()},
                 {"seed", meta_text("seed")},
                 {"started", meta_text("created")},
                 {"finished", meta_text("finished")},
                 {"config", meta_text("config")}}}};
  Json evaluation = Json::object();
  for (const char* name : {"before", "after"}) {
    KZ_ASSIGN(const auto record, store.evaluation(name));
    if (record) evaluation[name] = evaluation_json(*record);
  }
  data["evaluation"] = std::move(evaluation);
  // summary.json has wall time and memory of the run as it was; without it (a run that still goes on) they are unknown.
  const auto written = read_file(folder / "summary.json");
  const auto summary = written ? parse_json(*written, (folder / "summary.json").string())
                               : summary_json(store, std::nan(""), std::nan(""));
  if (summary) data["summary"] = *summary;
  try {
    SQLite::Database db((folder / "run.db").string(), SQLite::OPEN_READONLY);
    db.setBusyTimeout(10000);
    add_steps(db, data);
    add_frontier(db, data);
    add_apis(db, data);
    add_rollouts(db, options.rollouts, data);
  } catch (const SQLite::Exception& e) {
    return fail("io", "cannot read " + (folder / "run.db").string() + ": " + e.what());
  }
  return data;
}

}  // namespace kz::evolve
