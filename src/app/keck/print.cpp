#include "app/keck/print.h"

#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "base/text.h"

namespace kz::keck {
namespace {

constexpr const char* kGreen = "32";
constexpr const char* kRed = "31";
constexpr const char* kYellow = "33";
constexpr const char* kDim = "2";
constexpr const char* kBold = "1";

std::string format(const char* pattern, double value) {
  char text[64];
  std::snprintf(text, sizeof text, pattern, value);
  return text;
}

std::string duration(double ms) {
  if (ms >= 1000) return format("%.2f s", ms / 1e3);
  if (ms >= 1) return format("%.3g ms", ms);
  return format("%.3g us", ms * 1e3);
}

class Page {
 public:
  explicit Page(bool colour) : colour_(colour) {}

  std::string paint(const char* style, const std::string& text) const {
    return colour_ ? std::string("\033[") + style + "m" + text + "\033[0m" : text;
  }
  void line(const std::string& text) { text_ += text + "\n"; }
  // "  name     value", nothing for an empty value.
  void row(const std::string& name, const std::string& value) {
    if (!value.empty())
      line("  " + paint(kDim, name + std::string(name.size() < 10 ? 10 - name.size() : 1, ' ')) + value);
  }
  // Lines of foreign output, indented, the control characters gone: they could repaint the terminal.
  void block(const std::string& text, size_t limit) {
    std::vector<std::string> lines = split(text, '\n');
    while (!lines.empty() && trim(lines.back()).empty()) lines.pop_back();
    const size_t shown = std::min(lines.size(), limit);
    for (size_t i = 0; i < shown; ++i) {
      std::string clean;
      for (const char c : lines[i])
        if (static_cast<unsigned char>(c) >= 0x20 || c == '\t') clean += c;
      line("    " + clean.substr(0, 240));
    }
    if (lines.size() > shown)
      line(paint(kDim, "    … " + std::to_string(lines.size() - shown) + " more lines (--keep DIR has all)"));
  }
  std::string text() const { return text_; }

 private:
  const bool colour_;
  std::string text_;
};

struct Look {
  const char* mark;
  const char* style;
};
Look look_of(Outcome outcome) {
  if (outcome == Outcome::kPass) return {"✓", kGreen};
  if (outcome == Outcome::kFail) return {"✗", kRed};
  return {"?", kYellow};
}

std::string list_of(const std::vector<std::string>& parts) {
  std::vector<std::string> kept;
  for (const auto& part : parts)
    if (!part.empty()) kept.push_back(part);
  return join(kept, " · ");
}

std::string speed_words(const Timing& timing) {
  const std::string interval = " [" + format("%.2f", timing.ci95[0]) + ", " + format("%.2f", timing.ci95[1]) + "]";
  switch (timing.decision) {
    case Decision::kFaster:
      return format("%.2fx", timing.speedup) + interval + " faster than eager";
    case Decision::kSlower:
      return format("%.2fx", timing.speedup) + interval + " slower than eager";
    case Decision::kSame:
      return format("%.2fx", timing.speedup) + interval + " as fast as eager";
    case Decision::kAmbiguous:
      return format("%.2fx", timing.speedup) + interval + " too noisy to decide";
    case Decision::kNone:
      break;
  }
  return "";
}

std::string spread_words(const Spread& spread) { return duration(spread.median) + " ± " + duration(spread.iqr / 2); }

std::string mismatch_words(const Correctness& c) {
  if (!c.first_mismatch) return "";
  const Mismatch& m = *c.first_mismatch;
  std::vector<std::string> index;
  for (const int64_t i : m.index) index.push_back(std::to_string(i));
  return "output " + std::to_string(m.output) + "[" + join(index, ", ") + "]: expected " + format("%.7g", m.expected) +
         ", got " + format("%.7g", m.got) + "; " + format("%.3g%%", 100 * c.wrong_share) + " of its elements are wrong";
}

std::string correctness_words(const Correctness& c) {
  return std::to_string(c.passed) + " of " + std::to_string(c.trials) + " trials right (" + c.check + "), error " +
         format("%.2g", c.max_rel_error) + " of " + format("%.2g", c.tolerance) + " allowed";
}

std::string stage_words(const Verdict& v) {
  std::vector<std::string> parts;
  for (const char* stage : {"queue", "build", "load", "check", "time"})
    if (const auto it = v.stages_ms.find(stage); it != v.stages_ms.end() && it->second >= 1)
      parts.push_back(std::string(stage) + " " + duration(it->second));
  return join(parts, " · ");
}

}  // namespace

std::string pretty(const Verdict& v, const PrintOptions& options) {
  Page page(options.colour);
  const Look look = look_of(v.outcome);
  std::string title = std::string(look.mark) + " " + std::string(to_string(v.outcome));
  if (v.stage != Stage::kNone) title += " at " + std::string(to_string(v.stage));
  title = page.paint(look.style, page.paint(kBold, title));
  if (!v.reason.empty()) title += "  " + v.reason;
  if (v.outcome == Outcome::kPass)
    title += v.accepted ? "  right" : page.paint(kYellow, "  not accepted: " + join(v.labels, ", "));
  if (v.timing)
    title += "  " + page.paint(v.timing->decision == Decision::kFaster ? kGreen : kBold, speed_words(*v.timing));
  page.line(title);

  if (!v.message.empty()) page.line("  " + v.message);
  if (v.correctness) {
    page.row("where", mismatch_words(*v.correctness));
    if (v.correctness->trials > 0) page.row("correct", correctness_words(*v.correctness));
  }
  if (v.timing)
    page.row("time", spread_words(v.timing->candidate_ms) + ", eager " + spread_words(v.timing->eager_ms) + " (" +
                         std::to_string(v.timing->candidate_ms.n) + " calls, " + v.timing->method + ")");
  if (v.stage == Stage::kBuild && !v.build.log.empty()) {
    page.row("compiler", options.candidate_name);
    page.block(v.build.log, 30);
  }
  if (v.outcome != Outcome::kPass && !v.log_tail.empty()) {
    page.row("output", "its last lines");
    page.block(v.log_tail, 20);
  }
  if (!v.labels.empty() && v.outcome != Outcome::kPass) page.row("labels", join(v.labels, ", "));
  page.row("took", list_of({stage_words(v), v.cpu_seconds > 0 ? "CPU " + duration(1e3 * v.cpu_seconds) : "",
                            v.from_cache ? "from the cache" : ""}));
  page.row("ran", list_of({v.backend, v.headers.empty() ? "" : v.headers + " headers",
                           v.sandbox.empty() ? "" : v.sandbox + " sandbox", v.device,
                           v.seed ? "seed " + std::to_string(v.seed) : ""}));
  return page.text();
}

std::string pretty(const ModuleReport& report, const PrintOptions& options) {
  Page page(options.colour);
  const Look look = look_of(report.outcome);
  std::string title = std::string(look.mark) + " " + std::string(to_string(report.outcome));
  if (!report.stage.empty()) title += " at " + report.stage;
  page.line(page.paint(look.style, page.paint(kBold, title)) + (report.reason.empty() ? "" : "  " + report.reason));
  if (!report.message.empty()) page.line("  " + report.message);
  page.row("apis", join(report.apis, ", "));
  page.row("sequence", join(report.operators, " > "));
  if (report.run_ms > 0)
    page.row("took", duration(report.run_ms) + ", " + std::to_string(report.bytes) + " bytes in and out");
  page.row("hash", report.canonical_hash);
  return page.text();
}

bool terminal_has_colour(int fd) {
  const char* no_colour = std::getenv("NO_COLOR");
  return ::isatty(fd) != 0 && (no_colour == nullptr || *no_colour == '\0');
}

}  // namespace kz::keck
