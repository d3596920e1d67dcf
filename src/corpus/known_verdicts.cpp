#include "corpus/known_verdicts.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/hash.h"
#include "base/text.h"
#include "corpus/make_corpus.h"
#include "corpus/mutations.h"
#include "corpus/reference.h"
#include "corpus/row.h"

namespace kz::corpus {
namespace {

constexpr int kMaxTries = 2000;
constexpr size_t kChains = 12;  // right compositions, beside each family alone
constexpr size_t kIdDigits = 12;

void name(KnownVerdict& row) { row.id = sha256_hex(row.module + '\0' + row.candidate).substr(0, kIdDigits); }

std::string put_scalar(std::string text, const std::string& scalar) {
  for (size_t at; (at = text.find("{X}")) != std::string::npos;) text.replace(at, 3, scalar);
  return text;
}

// A sound chain that ends with the family, with `before` random operators in front of it.
Result<Chain> draw_ending(Rng& rng, const std::string& family, size_t before, bool ragged) {
  const Family* last = find_family(family);
  if (!last) return fail("corpus", "mutation of an unknown family '" + family + "'");
  for (int tries = 0; tries < kMaxTries; ++tries) {
    std::vector<const Family*> list;
    for (size_t i = 0; i < before; ++i) list.push_back(&rng.pick(families()));
    // Only operators that change neither shape nor inputs, so that the replacements find what they look for.
    if (std::any_of(list.begin(), list.end(), [](const Family* f) { return f->kind > Kind::kRow; })) continue;
    list.push_back(last);
    if (!fits(list)) continue;
    Chain chain = draw_chain(rng, list, /*second_style=*/0);
    if (ragged && std::has_single_bit(static_cast<unsigned>(chain.width))) continue;
    if (chain.rows == chain.width || chain.width_out() == chain.rows) continue;  // a wrong axis must show
    if (chain.weight() && chain.weight()->width_in == chain.weight()->width_out) continue;
    if (is_sound(rng, chain)) return chain;
  }
  return fail("corpus", "no sound chain that ends with " + family);
}

Status replace_all(std::string& text, const Replacements& replacements, const Operator& op, const std::string& scalar,
                   const std::string& place) {
  for (const auto& [from, to] : replacements) {
    const std::string wanted = fill(from, op);
    // The last occurrence: the mutated operator ends the chain.
    const size_t at = text.rfind(wanted);
    if (at == std::string::npos) return fail("corpus", place + ": '" + wanted + "' does not occur");
    text.replace(at, wanted.size(), put_scalar(fill(to, op), scalar));
  }
  return {};
}

// Whether another value of the last operator's {A} or {B} shows in the outputs.
bool shows(Rng& rng, const Chain& chain, bool second, const std::string& scalar) {
  constexpr int kRows = 4;
  constexpr double kChange = 0.01, kShare = 0.02;
  const ChainInputs inputs = draw_inputs(rng, chain, kRows);
  Chain other = chain;
  (second ? other.operators.back().b : other.operators.back().a) = scalar;
  const std::vector<double> y = evaluate(chain, inputs), z = evaluate(other, inputs);
  const double change = kChange * magnitude(y);
  size_t changed = 0;
  for (size_t i = 0; i < y.size(); ++i) changed += std::fabs(y[i] - z[i]) > change;
  return static_cast<double>(changed) > kShare * static_cast<double>(y.size());
}

// A chain to be mutated, and the value of {X}.
struct Wrong {
  Chain chain;
  std::string scalar;
};

Result<Wrong> draw_wrong(Rng& rng, const Mutation& mutation, size_t before) {
  const auto& [from, to] = mutation.candidate.front();
  const bool scalar = to.find("{X}") != std::string::npos, second = from.find("{B}") != std::string::npos;
  for (int tries = 0; tries < kMaxTries; ++tries) {
    KZ_ASSIGN(Chain chain, draw_ending(rng, mutation.family, before, mutation.ragged));
    const std::string other = rng.pick(scalar_texts());
    const Operator& op = chain.operators.back();
    if (!scalar || (other != op.a && other != op.b && shows(rng, chain, second, other)))
      return Wrong{std::move(chain), other};
  }
  return fail("corpus", "no wrong scalar of " + mutation.family + " shows");
}

Result<KnownVerdict> mutate(Rng& rng, const Mutation& mutation, const std::string& backend, size_t before) {
  KZ_ASSIGN(const Wrong wrong, draw_wrong(rng, mutation, before));
  const Chain& chain = wrong.chain;
  const Operator& op = chain.operators.back();
  KnownVerdict row{.backend = backend, .mutation = mutation.name};
  row.outcome = mutation.outcome;
  row.stage = mutation.stage;
  row.reason = mutation.reason;
  row.module = module_text(chain);
  row.candidate = backend == "cpp" ? cpp_text(chain) : triton_text(chain);
  const std::string place = backend + " mutation " + mutation.name + " of " + mutation.family;
  KZ_TRY(replace_all(row.module, mutation.module, op, wrong.scalar, place));
  KZ_TRY(replace_all(row.candidate, mutation.candidate, op, wrong.scalar, place));
  name(row);
  return row;
}

// The module itself as ModelNew: right values, no kernel.
Result<KnownVerdict> pasted_module(Rng& rng, const std::string& backend, const std::string& family) {
  ChainOptions options;
  options.lengths = {0, 1};
  KZ_ASSIGN(const Task task, make_task(rng, options, family));
  KnownVerdict row{.backend = backend, .mutation = "pasted_module"};
  row.module = task.module;
  row.candidate = task.module;
  row.candidate.replace(row.candidate.find("class Model("), 12, "class ModelNew(");
  row.outcome = "pass";
  row.stage = "policy";
  row.reason = "torch_compute";
  name(row);
  return row;
}

Result<std::vector<KnownVerdict>> right_ones(Rng& rng, const std::string& backend) {
  std::vector<KnownVerdict> list;
  auto add = [&](const Row& row) {
    KnownVerdict known{.backend = backend, .module = row.module, .candidate = row.candidate};
    known.outcome = "pass";
    known.right = true;
    name(known);
    list.push_back(std::move(known));
  };
  ChainOptions options;
  options.lengths = {1};
  for (const Family& family : families()) {
    KZ_ASSIGN(const Row row, make_row(rng, options, backend, family.name));
    add(row);
  }
  options.lengths = {0, 0.4, 0.4, 0.2};
  for (size_t i = 0; i < kChains; ++i) {
    KZ_ASSIGN(const Row row, make_row(rng, options, backend));
    add(row);
  }
  return list;
}

}  // namespace

Result<std::vector<KnownVerdict>> make_known_verdicts(const std::string& backend, uint64_t seed) {
  Rng rng(derive_seed(seed, "corpus/verdicts/" + backend));
  KZ_ASSIGN(std::vector<KnownVerdict> list, right_ones(rng, backend));
  for (const Mutation& mutation : backend == "cpp" ? cpp_mutations() : triton_mutations()) {
    for (size_t before = 0; before <= (mutation.composed ? 1 : 0); ++before) {
      KZ_ASSIGN(KnownVerdict row, mutate(rng, mutation, backend, before));
      list.push_back(std::move(row));
    }
  }
  for (const char* family : {"sigmoid", "softmax", "mul", "linear"}) {
    KZ_ASSIGN(KnownVerdict row, pasted_module(rng, backend, family));
    list.push_back(std::move(row));
  }
  return list;
}

Json to_json(const KnownVerdict& row) {
  return {{"id", row.id},
          {"backend", row.backend},
          {"module", row.module},
          {"candidate", row.candidate},
          {"mutation", row.mutation},
          {"expected", {{"outcome", row.outcome}, {"stage", row.stage}, {"reason", row.reason}, {"right", row.right}}}};
}

Result<KnownVerdict> known_verdict_from_json(const Json& json) {
  KnownVerdict row;
  try {
    row.id = json.at("id").get<std::string>();
    row.backend = json.at("backend").get<std::string>();
    row.module = json.at("module").get<std::string>();
    row.candidate = json.at("candidate").get<std::string>();
    row.mutation = json.value("mutation", "");
    const Json& expected = json.at("expected");
    row.outcome = expected.at("outcome").get<std::string>();
    row.stage = expected.at("stage").get<std::string>();
    row.reason = expected.at("reason").get<std::string>();
    row.right = expected.at("right").get<bool>();
  } catch (const Json::exception& e) {
    return fail("corpus", std::string("not a row with a known verdict: ") + e.what());
  }
  return row;
}

std::string difference(const KnownVerdict& known, const Json& verdict) {
  const std::string outcome = verdict.value("outcome", ""), stage = verdict.value("stage", ""),
                    reason = verdict.value("reason", "");
  const std::vector<std::string> reasons = split(known.reason, '|');
  const bool reason_fits =
      known.reason.empty() ? reason.empty() : std::find(reasons.begin(), reasons.end(), reason) != reasons.end();
  if (outcome == known.outcome && stage == known.stage && reason_fits && is_right(verdict) == known.right) return "";
  return known.backend + " " + known.id + " (" + (known.mutation.empty() ? "right" : known.mutation) + "): expected " +
         known.outcome + "/" + known.stage + "/" + known.reason + ", got " + outcome + "/" + stage + "/" + reason +
         (is_right(verdict) == known.right ? ""
          : is_right(verdict)              ? ", counted as right"
                                           : ", counted as wrong") +
         ": " + verdict.value("message", "");
}

}  // namespace kz::corpus
