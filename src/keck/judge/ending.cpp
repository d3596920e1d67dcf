#include "keck/judge/ending.h"

namespace kz::keck {
namespace {

std::string first_line(const std::string& text) { return text.substr(0, std::min<size_t>(text.find('\n'), 300)); }

}  // namespace

tl::unexpected<Ending> blame_reference(const Peer& peer, const Error& error, const std::string& doing) {
  const auto unscored = [&](Stage stage, const char* reason, const std::string& what) {
    return end(Outcome::kUnscored, stage, reason, "the reference " + what + " while " + doing);
  };
  if (error.code == "raised") {
    const Raised& raised = peer.raised();
    if (raised.kind == RaisedKind::kMissing) {
      return end(Outcome::kUnscored, Stage::kTask, "incomplete_module",
                 "the module does not define " + first_line(raised.message));
    }
    if (raised.kind == RaisedKind::kUnsupported) {
      return unscored(Stage::kTask, "unsupported_input", "used " + first_line(raised.message));
    }
    return unscored(Stage::kTask, "reference_raised", "raised " + first_line(error.message));
  }
  if (error.code == "closed") return unscored(Stage::kTask, "reference_crashed", "died");
  if (error.code == "timeout") return unscored(Stage::kTask, "reference_timeout", "took too long");
  if (error.code == "too_large") return unscored(Stage::kTask, "too_large", "made " + error.message);
  if (error.code == "protocol")
    return unscored(Stage::kTask, "reference_protocol", "broke the protocol (" + error.message + ")");
  return end(Outcome::kUnscored, Stage::kHost, "judge", error.message);
}

tl::unexpected<Ending> blame_candidate(const Peer& peer, const Error& error, Stage stage, const std::string& doing) {
  const auto failed = [&](Stage where, const char* reason, const std::string& what) {
    return end(Outcome::kFail, where, reason, "the candidate " + what + " while " + doing);
  };
  if (error.code == "raised") {
    const Raised& raised = peer.raised();
    if (raised.kind == RaisedKind::kMissing) {
      return end(Outcome::kFail, Stage::kFormat, "no_model_new",
                 "the candidate does not define " + first_line(raised.message));
    }
    if (raised.kind == RaisedKind::kUnsupported) {
      return failed(stage, "unsupported_output", "returned " + first_line(raised.message));
    }
    return failed(stage, stage == Stage::kLoad ? "init_raised" : "raised", "raised " + first_line(error.message));
  }
  if (error.code == "closed") return failed(stage, "crashed", "died");
  if (error.code == "timeout") return failed(stage, "timeout", "took too long");
  if (error.code == "protocol") return failed(stage, "protocol", "broke the protocol (" + error.message + ")");
  if (error.code == "too_large") return failed(Stage::kCompare, "output_too_large", "made " + error.message);
  return end(Outcome::kUnscored, Stage::kHost, "judge", error.message);
}

}  // namespace kz::keck
