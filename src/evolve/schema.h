// Tables of run.db. A change of meaning raises kSchemaVersion; stores of another version are refused by name.
// Numbers that are not finite are NULL. Booleans are 0 or 1. Times are seconds.
#pragma once

namespace kz::evolve {

inline constexpr int kSchemaVersion = 1;

inline constexpr const char* kSchema = R"sql(
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL);
  -- schema_version, created, seed, backend, estimator, config (resolved TOML), finished (UTC, when the run is complete)
CREATE TABLE lists(id INTEGER PRIMARY KEY, apis TEXT NOT NULL);                    -- JSON array of API names
CREATE TABLE modules(
  id INTEGER PRIMARY KEY, hash TEXT NOT NULL UNIQUE, sequence TEXT NOT NULL, source TEXT NOT NULL, apis TEXT NOT NULL,
  step INTEGER NOT NULL, status TEXT NOT NULL, mean REAL, seen_step INTEGER NOT NULL, times_seen INTEGER NOT NULL);
CREATE TABLE module_rounds(
  module INTEGER NOT NULL REFERENCES modules(id), step INTEGER NOT NULL, round INTEGER NOT NULL, role TEXT NOT NULL,
  rollouts INTEGER NOT NULL, scored INTEGER NOT NULL, right INTEGER NOT NULL);     -- l = right / scored
CREATE TABLE verdicts(
  id INTEGER PRIMARY KEY, module TEXT NOT NULL, candidate TEXT NOT NULL, backend TEXT NOT NULL, unit INTEGER NOT NULL,
  outcome TEXT NOT NULL, right INTEGER NOT NULL, verdict TEXT NOT NULL);           -- JSON of keck::Verdict
CREATE INDEX verdicts_key ON verdicts(module, candidate, backend);
CREATE TABLE reports(
  id INTEGER PRIMARY KEY, key TEXT NOT NULL, unit INTEGER NOT NULL, outcome TEXT NOT NULL, report TEXT NOT NULL);
CREATE INDEX reports_key ON reports(key);
CREATE TABLE steps(
  step INTEGER PRIMARY KEY, round INTEGER NOT NULL, position INTEGER NOT NULL, role TEXT NOT NULL, seconds REAL NOT NULL,
  coder_checkpoint TEXT NOT NULL, proposer_checkpoint TEXT NOT NULL, finished TEXT NOT NULL);
CREATE TABLE rollouts(
  id INTEGER PRIMARY KEY, step INTEGER NOT NULL, role TEXT NOT NULL, grp INTEGER NOT NULL, member INTEGER NOT NULL,
  module INTEGER, task TEXT, prompt TEXT NOT NULL, source TEXT NOT NULL, finish TEXT NOT NULL, tokens INTEGER NOT NULL,
  logprob_sum REAL, verdict INTEGER, outcome TEXT NOT NULL, reason TEXT NOT NULL, right INTEGER NOT NULL, speedup REAL,
  scored INTEGER NOT NULL, base REAL, bonus REAL, reward REAL, advantage REAL);
  -- coder: verdict is verdicts.id; proposer: verdict is reports.id, right means valid and new
CREATE INDEX rollouts_step ON rollouts(step);
CREATE TABLE metrics(step INTEGER NOT NULL, name TEXT NOT NULL, value REAL, PRIMARY KEY(step, name)) WITHOUT ROWID;
CREATE TABLE rounds(round INTEGER NOT NULL, name TEXT NOT NULL, value REAL, PRIMARY KEY(round, name)) WITHOUT ROWID;
CREATE TABLE evaluations(
  name TEXT PRIMARY KEY, step INTEGER NOT NULL, seconds REAL NOT NULL, numbers TEXT NOT NULL);  -- JSON object
CREATE TABLE evaluation_tasks(
  evaluation TEXT NOT NULL, task INTEGER NOT NULL, name TEXT NOT NULL, sequence TEXT NOT NULL, source TEXT NOT NULL,
  PRIMARY KEY(evaluation, task)) WITHOUT ROWID;
CREATE TABLE evaluation_samples(
  evaluation TEXT NOT NULL, task INTEGER NOT NULL, kind TEXT NOT NULL, member INTEGER NOT NULL, source TEXT NOT NULL,
  outcome TEXT NOT NULL, reason TEXT NOT NULL, scored INTEGER NOT NULL, right INTEGER NOT NULL, speedup REAL,
  verdict INTEGER, PRIMARY KEY(evaluation, task, kind, member)) WITHOUT ROWID;
)sql";

}  // namespace kz::evolve
