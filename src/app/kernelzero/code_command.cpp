#include <cmath>
#include <cstdio>

#include "app/kernelzero/ask.h"
#include "app/text_io.h"
#include "base/progress.h"

namespace kz::app {
namespace {

// Right before wrong, faster before slower, the earlier of equals.
bool better(const evolve::KernelRollout& a, const evolve::KernelRollout& b) {
  if (a.facts.right != b.facts.right) return a.facts.right;
  const double x = std::isfinite(a.facts.speedup) ? a.facts.speedup : 0,
               y = std::isfinite(b.facts.speedup) ? b.facts.speedup : 0;
  return x > y;
}

// What the Coder is shown: a nano model knows canonical modules only, others read the user's own text. A module that
// the gate refuses (as an exercise) may still get a kernel.
std::string shown(const Asking& asking, const std::string& module) {
  if (asking.format() != evolve::PromptFormat::kNano) return module;
  keck::ModuleRequest request;
  request.module = module;
  const auto report = asking.client().check_module(request);
  return report && !report->canonical_source.empty() ? report->canonical_source : module;
}

std::string describe(const keck::Verdict& v) {
  char text[256];
  if (v.timing && std::isfinite(v.timing->speedup)) {
    std::snprintf(text, sizeof text, "right, %.2f times the speed of eager (95%% interval %.2f to %.2f, %s)",
                  v.timing->speedup, v.timing->ci95[0], v.timing->ci95[1],
                  std::string(keck::to_string(v.timing->decision)).c_str());
    return text;
  }
  return "right, not timed";
}

Result<int> run(const CodeCommand& command) {
  KZ_ASSIGN(const std::string module, read_source(command.module));
  Asking::Options options{command.model,          command.format, command.device,
                          command.check,          command.where,  command.temperature,
                          command.max_new_tokens, command.seed,   {}};
  KZ_ASSIGN(const auto asking, Asking::open(options));
  Progress progress("kernels", static_cast<uint64_t>(command.samples), command.json);
  size_t told = 0;
  asking->on_progress = [&](const std::string& what, size_t done, size_t) {
    if (what == "verdicts" && done > told) progress.advance(done - told), told = done;
  };
  evolve::Loop loop = asking->loop();
  loop.book.begin(0);
  evolve::KernelRequest request;
  request.sources = {shown(*asking, module)};
  request.judged = {module};
  request.samples = command.samples;
  request.sampling = asking->options().coder.sampling;
  request.timing = command.timing;
  request.purpose = "code";
  request.seed = command.seed;
  std::map<std::string, double> metrics;
  KZ_ASSIGN(const auto groups, evolve::write_kernels(loop, request, metrics));
  progress.finish();

  const auto& samples = groups.front();
  const evolve::KernelRollout* best = &samples.front();
  int right = 0, scored = 0;
  Json list = Json::array();
  for (size_t i = 0; i < samples.size(); ++i) {
    const auto& s = samples[i];
    right += s.facts.right;
    scored += s.facts.scored;
    if (better(s, *best)) best = &s;
    const Json verdict = s.verdict > 0 ? keck::to_json(loop.book.verdict(i).verdict) : Json();
    list.push_back({{"kernel", s.code},
                    {"outcome", s.outcome},
                    {"reason", s.reason},
                    {"right", s.facts.right},
                    {"verdict", verdict}});
  }
  const size_t index = static_cast<size_t>(best - samples.data());
  if (command.json) {
    const Json out{{"right", right},
                   {"scored", scored},
                   {"samples", list},
                   {"kernel", best->facts.right ? Json(best->code) : Json()},
                   {"verdict", best->facts.right ? list[index]["verdict"] : Json()}};
    std::printf("%s\n", dump_json(out, 1).c_str());
  } else if (best->facts.right) {
    std::printf("%s", best->code.c_str());
    if (!best->code.empty() && best->code.back() != '\n') std::printf("\n");
    std::fprintf(stderr, "%d of %d right; printed: %s\n", right, scored,
                 describe(loop.book.verdict(index).verdict).c_str());
  } else {
    // Each reason with how often, and Keck's words for its first case.
    std::map<std::string, std::pair<int, std::string>> reasons;
    for (size_t i = 0; i < samples.size(); ++i) {
      auto& [n, words] = reasons[samples[i].reason];
      if (n++ == 0 && samples[i].verdict > 0) words = loop.book.verdict(i).verdict.message;
    }
    std::string text;
    for (const auto& [reason, what] : reasons) {
      text += (text.empty() ? "" : ", ") + std::to_string(what.first) + " " + reason;
      if (!what.second.empty()) text += " (" + what.second + ")";
    }
    std::fprintf(stderr, "%s: none of %d kernels is right: %s\n", command.module.c_str(),
                 static_cast<int>(samples.size()), text.c_str());
  }
  if (right > 0) return static_cast<int>(kExitDone);
  return static_cast<int>(scored > 0 ? kExitNot : kExitUnscored);
}

}  // namespace

int code(const CodeCommand& command) {
  const auto result = run(command);
  return result ? *result : complain(result.error());
}

}  // namespace kz::app
