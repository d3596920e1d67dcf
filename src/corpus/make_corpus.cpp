#include "corpus/make_corpus.h"

#include <algorithm>
#include <set>

#include "base/progress.h"
#include "base/text.h"
#include "corpus/family.h"

namespace kz::corpus {
namespace {

constexpr size_t kMaxOverdraw = 10;  // draws of a family, against its share

// One family and backend that is to be filled.
struct Share {
  std::string backend, family;
  size_t wanted = 0, have = 0, drawn = 0;
};

std::vector<Share> shares_of(const CorpusOptions& options) {
  const std::vector<std::string> names = options.chain.families.empty() ? family_names() : options.chain.families;
  const size_t parts = names.size() * options.backends.size();
  const size_t each = std::max(options.per_family, (options.rows + parts - 1) / std::max<size_t>(parts, 1));
  std::vector<Share> shares;
  for (const std::string& backend : options.backends)
    for (const std::string& name : names) shares.push_back({backend, name, each});
  return shares;
}

class Maker {
 public:
  Maker(const CorpusOptions& options, const Validate& validate, const std::function<void(const Row&)>& keep)
      : options_(options), validate_(validate), keep_(keep), rng_(derive_seed(options.seed, "corpus/make")) {
    shares_ = shares_of(options);
  }

  Result<CorpusReport> run() {
    KZ_TRY(check_options(options_.chain));
    size_t total = 0;
    for (const Share& share : shares_) total += share.wanted;
    Progress progress("corpus", total, options_.quiet);
    while (report_.rows < total) {
      KZ_ASSIGN(const auto batch, draw_batch());
      KZ_TRY(judge(batch, progress));
    }
    progress.finish();
    return std::move(report_);
  }

 private:
  struct Drawn {
    Row row;
    Share* share;
  };

  // Rows for the shares that are not full, each as many as it lacks, up to the batch.
  Result<std::vector<Drawn>> draw_batch() {
    std::vector<Drawn> batch;
    for (Share& share : shares_) {
      for (size_t need = share.wanted - share.have; need > 0 && batch.size() < options_.batch;) {
        if (share.drawn >= kMaxOverdraw * share.wanted + kMaxOverdraw)
          return fail("corpus", share.backend + "/" + share.family + ": only " + std::to_string(share.have) + " of " +
                                    std::to_string(share.wanted) + " rows after " + std::to_string(share.drawn) +
                                    " draws; see the refused rows");
        ++share.drawn;
        KZ_ASSIGN(Row row, make_row(rng_, options_.chain, share.backend, share.family));
        if (!seen_.insert(row.id).second) continue;
        batch.push_back({std::move(row), &share});
        --need;
      }
    }
    return batch;
  }

  Status judge(const std::vector<Drawn>& batch, Progress& progress) {
    std::vector<Row> rows;
    for (const Drawn& drawn : batch) rows.push_back(drawn.row);
    KZ_ASSIGN(const std::vector<Json> verdicts, validate_(rows));
    if (verdicts.size() != rows.size())
      return fail("corpus",
                  std::to_string(rows.size()) + " rows, but " + std::to_string(verdicts.size()) + " verdicts");
    for (size_t i = 0; i < rows.size(); ++i) {
      if (is_right(verdicts[i])) {
        rows[i].verdict = brief_verdict(verdicts[i]);
        keep_(rows[i]);
        ++batch[i].share->have;
        ++report_.rows;
        ++report_.by_family[rows[i].backend + "/" + rows[i].family];
        progress.advance();
        continue;
      }
      rows[i].verdict = verdicts[i];
      (verdicts[i].value("outcome", "") == "unscored" ? report_.unscored : report_.rejected)++;
      report_.refused.push_back(std::move(rows[i]));
    }
    return {};
  }

  const CorpusOptions& options_;
  const Validate& validate_;
  const std::function<void(const Row&)>& keep_;
  Rng rng_;
  std::vector<Share> shares_;
  std::set<std::string> seen_;
  CorpusReport report_;
};

}  // namespace

bool is_right(const Json& verdict) {
  return verdict.is_object() && verdict.value("outcome", "") == "pass" && verdict.contains("policy") &&
         verdict["policy"].is_object() && verdict["policy"].value("accepted", false);
}

Json brief_verdict(const Json& verdict) {
  Json brief = {{"outcome", verdict.value("outcome", "")}, {"accepted", is_right(verdict)}};
  for (const char* key : {"headers", "device", "sandbox"})
    if (verdict.contains(key)) brief[key] = verdict[key];
  if (verdict.contains("correctness") && verdict["correctness"].is_object())
    for (const char* key : {"check", "trials", "max_rel_error"})
      if (verdict["correctness"].contains(key)) brief[key] = verdict["correctness"][key];
  if (verdict.contains("timing") && verdict["timing"].is_object()) {
    const Json& timing = verdict["timing"];
    for (const char* key : {"speedup", "decision"})
      if (timing.contains(key)) brief[key] = timing[key];
    for (const char* key : {"candidate_ms", "eager_ms"})
      if (timing.contains(key) && timing[key].is_object()) brief[key] = timing[key].value("median", Json());
  }
  return brief;
}

Json to_json(const CorpusReport& report) {
  return {{"rows", report.rows},
          {"rejected", report.rejected},
          {"unscored", report.unscored},
          {"by_family", report.by_family}};
}

Result<CorpusReport> make_corpus(const CorpusOptions& options, const Validate& validate,
                                 const std::function<void(const Row&)>& keep) {
  return Maker(options, validate, keep).run();
}

Result<CorpusReport> write_corpus(const fs::path& file, const CorpusOptions& options, const Validate& validate) {
  std::string text;
  KZ_ASSIGN(CorpusReport report,
            make_corpus(options, validate, [&](const Row& row) { text += dump_json(to_json(row)) + "\n"; }));
  KZ_TRY(write_file_atomic(file, text));
  return report;
}

Result<std::vector<Row>> read_corpus(const fs::path& file) {
  KZ_ASSIGN(const std::string text, read_file(file));
  std::vector<Row> rows;
  size_t number = 0;
  for (const std::string& line : split(text, '\n')) {
    const std::string place = file.string() + ":" + std::to_string(++number);
    if (trim(line).empty()) continue;
    KZ_ASSIGN(const Json json, parse_json(line, place));
    auto row = row_from_json(json);
    if (!row) return fail(row.error().code, place + ": " + row.error().message);
    rows.push_back(std::move(*row));
  }
  return rows;
}

Status write_tasks(const fs::path& folder, const std::vector<Task>& tasks) {
  KZ_TRY(make_dirs(folder));
  size_t number = 0;
  for (const Task& task : tasks) {
    const std::string name = std::to_string(++number) + "_" + join(task.families, "_") + ".py";
    KZ_TRY(write_file_atomic(folder / name, task.module));
  }
  return {};
}

}  // namespace kz::corpus
