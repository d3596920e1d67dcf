// A corpus on disk: rows that Keck has found right, and what became of the others.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/files.h"
#include "corpus/row.h"

namespace kz::corpus {

struct CorpusOptions {
  size_t rows = 3200;      // in all, over backends and families in equal shares
  size_t per_family = 10;  // at least, a family and backend
  uint64_t seed = 1;
  std::vector<std::string> backends = {"cpp", "triton"};
  ChainOptions chain;
  size_t batch = 256;  // rows a call of validate
  bool quiet = false;  // no progress bar
};

// Verdicts of Keck as v1 JSON, one a row, in order. An error ends the making; nothing is written then.
using Validate = std::function<Result<std::vector<Json>>(const std::vector<Row>&)>;

struct CorpusReport {
  size_t rows = 0, rejected = 0, unscored = 0;  // admitted; not right; could not be judged
  std::map<std::string, size_t> by_family;      // admitted rows of "cpp/softmax", …
  std::vector<Row> refused;                     // with their verdicts: a wrong one is a fault of a lowering, or of Keck
};

Json to_json(const CorpusReport& report);

// Fresh rows, each family in turn in the focus, until every share is full. No row twice. Only rows whose verdict is
// pass and accepted are kept. Error "corpus" when a family stays short after ten times its share.
Result<CorpusReport> make_corpus(const CorpusOptions& options, const Validate& validate,
                                 const std::function<void(const Row&)>& keep);

// The same into a JSONL file, written atomically at the end.
Result<CorpusReport> write_corpus(const fs::path& file, const CorpusOptions& options, const Validate& validate);

// Rows of a JSONL file. Errors name the line.
Result<std::vector<Row>> read_corpus(const fs::path& file);

// Tasks as KernelBench-format files "1_relu_softmax.py" in a folder.
Status write_tasks(const fs::path& folder, const std::vector<Task>& tasks);

// What a row keeps of a verdict: outcome, accepted, check, headers, decision, speedup, candidate_ms, eager_ms, device.
Json brief_verdict(const Json& verdict);
bool is_right(const Json& verdict);  // outcome pass and policy.accepted

}  // namespace kz::corpus
