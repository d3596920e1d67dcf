#include "corpus/row.h"

#include <algorithm>
#include <set>

#include "base/hash.h"
#include "base/text.h"
#include "corpus/chain.h"
#include "corpus/split.h"

namespace kz::corpus {
namespace {

constexpr size_t kMaxLength = 8;
constexpr int kMaxTries = 20000;  // of one module: far more than a possible request needs
constexpr size_t kIdDigits = 12;

using Families = std::vector<const Family*>;

Result<Families> pool_of(const ChainOptions& options) {
  Families pool;
  if (options.families.empty())
    for (const Family& family : families()) pool.push_back(&family);
  for (const std::string& name : options.families) {
    const Family* family = find_family(name);
    if (!family) {
      const std::string near = nearest(name, family_names());
      return fail("corpus", "unknown operator family '" + name + "'" +
                                (near.empty() ? std::string() : "; did you mean '" + near + "'?"));
    }
    if (std::find(pool.begin(), pool.end(), family) == pool.end()) pool.push_back(family);
  }
  return pool;
}

size_t draw_length(Rng& rng, const std::vector<double>& weights) {
  double total = 0;
  for (double w : weights) total += w;
  double u = rng.uniform() * total;
  size_t last = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] <= 0) continue;
    last = i;
    if (u < weights[i]) break;
    u -= weights[i];
  }
  return last + 1;
}

Families draw_families(Rng& rng, const Families& pool, size_t length, const Family* focus) {
  Families chain;
  for (size_t i = 0; i < length; ++i) chain.push_back(rng.pick(pool));
  if (focus && std::find(chain.begin(), chain.end(), focus) == chain.end())
    chain[focus->kind == Kind::kReduce ? length - 1 : rng.below(length)] = focus;
  return chain;
}

bool allowed(const std::string& sequence, const ChainOptions& options) {
  if (options.buckets.empty()) return !is_held_out(sequence);
  if (sequence.find('>') == std::string::npos) return true;  // one operator: always open
  return std::find(options.buckets.begin(), options.buckets.end(), bucket_of(sequence)) != options.buckets.end();
}

// A chain of the length drawn, sound and in an allowed bucket.
Result<Chain> draw(Rng& rng, const ChainOptions& options, const std::string& focus) {
  KZ_TRY(check_options(options));
  KZ_ASSIGN(const Families pool, pool_of(options));
  const Family* wanted = focus.empty() ? nullptr : find_family(focus);
  if (!focus.empty() && !wanted) return fail("corpus", "unknown operator family '" + focus + "'");
  const size_t length = draw_length(rng, options.lengths);
  for (int tries = 0; tries < kMaxTries; ++tries) {
    const Families families = draw_families(rng, pool, length, wanted);
    if (!fits(families)) continue;
    Chain chain = draw_chain(rng, families, options.second_style);
    if (allowed(sequence_of(api_sequence(chain)), options) && is_sound(rng, chain)) return chain;
  }
  return fail("corpus", "no sound chain of " + std::to_string(length) + " operators from these " +
                            std::to_string(pool.size()) + " families" + (wanted ? " with " + focus : "") +
                            " in the allowed buckets; allow more families, lengths or buckets");
}

Task task_of(const Chain& chain) {
  Task task;
  task.module = module_text(chain);
  task.id = sha256_hex(task.module).substr(0, kIdDigits);
  const std::vector<std::string> apis = api_sequence(chain);
  task.sequence = sequence_of(apis);
  const std::set<std::string> unique(apis.begin(), apis.end());
  task.apis.assign(unique.begin(), unique.end());
  for (const Operator& op : chain.operators) task.families.push_back(op.family->name);
  task.split = split_of(task.sequence);
  return task;
}

}  // namespace

Status check_options(const ChainOptions& options) {
  KZ_ASSIGN(const Families pool, pool_of(options));
  double total = 0;
  if (options.lengths.size() > kMaxLength)
    return fail("corpus", "lengths: at most " + std::to_string(kMaxLength) + " operators a chain");
  for (size_t i = 0; i < options.lengths.size(); ++i) {
    if (!(options.lengths[i] >= 0)) return fail("corpus", "lengths: weights must not be negative");
    total += options.lengths[i];
    if (options.lengths[i] > 0 && i + 1 > pool.size())
      return fail("corpus", "chains of " + std::to_string(i + 1) + " different operators from " +
                                std::to_string(pool.size()) + " families");
  }
  if (!(total > 0)) return fail("corpus", "lengths: at least one weight must be positive");
  for (int bucket : options.buckets)
    if (bucket < 0 || bucket > 9) return fail("corpus", "buckets are 0 to 9, got " + std::to_string(bucket));
  for (double share : {options.second_style, options.fast_math})
    if (!(share >= 0 && share <= 1)) return fail("corpus", "second_style and fast_math are shares, 0 to 1");
  return {};
}

Result<Task> make_task(Rng& rng, const ChainOptions& options, const std::string& focus) {
  KZ_ASSIGN(const Chain chain, draw(rng, options, focus));
  return task_of(chain);
}

Result<Row> make_row(Rng& rng, const ChainOptions& options, const std::string& backend, const std::string& focus) {
  if (backend != "cpp" && backend != "triton")
    return fail("corpus", "no lowering for backend '" + backend + "'; there are cpp and triton");
  KZ_ASSIGN(Chain chain, draw(rng, options, focus));
  if (backend == "cpp") chain.fast_math = rng.uniform() < options.fast_math;
  if (backend == "triton")
    for (Operator& op : chain.operators) op.style = 0;
  Task task = task_of(chain);
  Row row;
  row.family = focus.empty() ? task.families.front() : focus;
  row.families = std::move(task.families);
  row.apis = std::move(task.apis);
  row.sequence = std::move(task.sequence);
  row.backend = backend;
  row.module = std::move(task.module);
  row.candidate = backend == "cpp" ? cpp_text(chain) : triton_text(chain);
  row.split = std::move(task.split);
  row.style = style_text(chain);
  row.id = sha256_hex(row.module + '\0' + row.candidate).substr(0, kIdDigits);
  return row;
}

Result<std::vector<Task>> make_heldout(size_t n, uint64_t seed, const ChainOptions& given) {
  ChainOptions options = given;
  options.buckets = {0, 1};
  if (!options.lengths.empty()) options.lengths[0] = 0;
  KZ_TRY(check_options(options));
  Rng rng(derive_seed(seed, "corpus/heldout"));
  std::vector<Task> tasks;
  std::set<std::string> sequences, ids;
  // A sequence is taken twice only after so many draws in a row have brought nothing new.
  constexpr int kPatience = 200;
  for (int stale = 0; tasks.size() < n;) {
    KZ_ASSIGN(Task task, make_task(rng, options));
    const bool fresh = !sequences.contains(task.sequence);
    if ((!fresh && stale < kPatience) || ids.contains(task.id)) {
      if (++stale > 100 * kPatience) return fail("corpus", "too few held-out modules from these families and lengths");
      continue;
    }
    if (fresh) stale = 0;
    sequences.insert(task.sequence);
    ids.insert(task.id);
    tasks.push_back(std::move(task));
  }
  return tasks;
}

Json to_json(const Task& task) {
  return {{"id", task.id},     {"module", task.module},     {"sequence", task.sequence},
          {"apis", task.apis}, {"families", task.families}, {"split", task.split}};
}

Json to_json(const Row& row) {
  return {{"id", row.id},         {"family", row.family},       {"families", row.families},
          {"apis", row.apis},     {"sequence", row.sequence},   {"backend", row.backend},
          {"module", row.module}, {"candidate", row.candidate}, {"split", row.split},
          {"style", row.style},   {"verdict", row.verdict}};
}

Result<Row> row_from_json(const Json& json) {
  Row row;
  try {
    row.id = json.at("id").get<std::string>();
    row.family = json.value("family", "");
    row.families = json.value("families", std::vector<std::string>());
    row.apis = json.at("apis").get<std::vector<std::string>>();
    row.sequence = json.at("sequence").get<std::string>();
    row.backend = json.at("backend").get<std::string>();
    row.module = json.at("module").get<std::string>();
    row.candidate = json.at("candidate").get<std::string>();
    row.split = json.at("split").get<std::string>();
    row.style = json.value("style", "");
    row.verdict = json.value("verdict", Json());
  } catch (const Json::exception& e) {
    return fail("corpus", std::string("not a corpus row: ") + e.what());
  }
  return row;
}

}  // namespace kz::corpus
