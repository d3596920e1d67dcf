// How a job ends early: whose fault it was and what to call it.
#pragma once

#include <string>

#include "base/result.h"
#include "keck/job/verdict.h"
#include "keck/judge/peer.h"

namespace kz::keck {

struct Ending {
  Outcome outcome = Outcome::kUnscored;
  Stage stage = Stage::kHost;
  std::string reason, message;
};

template <typename T>
using Step = tl::expected<T, Ending>;

inline tl::unexpected<Ending> end(Outcome outcome, Stage stage, std::string reason, std::string message) {
  return tl::unexpected<Ending>(Ending{outcome, stage, std::move(reason), std::move(message)});
}

// `error` is what asking the peer gave; `doing` completes "the reference … while <doing>".
tl::unexpected<Ending> blame_reference(const Peer& peer, const Error& error, const std::string& doing);
tl::unexpected<Ending> blame_candidate(const Peer& peer, const Error& error, Stage stage, const std::string& doing);

}  // namespace kz::keck

// KZ_BLAME(auto x, expr, blame_…(peer, KZ_ERROR, …)): declares x from a Result, or returns the ending made of its
// error.
// A declaration cannot stand in parentheses. NOLINTBEGIN(bugprone-macro-parentheses)
#define KZ_BLAME(decl, expr, ending)                                             \
  auto KZ_CONCAT(kz_b_, __LINE__) = (expr);                                      \
  if (!KZ_CONCAT(kz_b_, __LINE__)) {                                             \
    [[maybe_unused]] const Error& kz_error = KZ_CONCAT(kz_b_, __LINE__).error(); \
    return ending;                                                               \
  }                                                                              \
  decl = std::move(*KZ_CONCAT(kz_b_, __LINE__))
// NOLINTEND(bugprone-macro-parentheses)
