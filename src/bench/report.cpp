#include "bench/report.h"

#include <cmath>
#include <cstdio>

namespace kz::bench {
namespace {

std::string escape(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

// JSON inside <script>: "</script>" and "<!--" in a rollout must not end the element.
std::string script_json(const Json& data) {
  std::string out;
  for (const char c : dump_json(data)) {
    if (c == '<')
      out += "\\u003c";
    else
      out += c;
  }
  return out;
}

std::string value_text(const Json& value) {
  if (value.is_number_float()) {
    char text[32];
    std::snprintf(text, sizeof text, "%.4g", value.get<double>());
    return text;
  }
  return value.is_string() ? escape(value.get<std::string>()) : escape(dump_json(value));
}

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f%%", 100 * share);
  return std::isfinite(share) ? text : "–";
}

// The one sentence that a reader comes for.
std::string headline(const Json& summary) {
  if (!summary.contains("coder_accuracy_after")) return "The run has not been evaluated yet.";
  const double before = number_from_json(summary["coder_accuracy_before"]),
               after = number_from_json(summary["coder_accuracy_after"]);
  std::string text = "Coder on " + value_text(summary.value("heldout_tasks", Json(0))) +
                     " held-out modules: " + percent(before) + " right before, <b>" + percent(after) + "</b> after";
  const auto ci = summary.find("gain_ci95");
  if (ci != summary.end() && ci->is_array() && ci->size() == 2) {
    char gain[80];
    std::snprintf(gain, sizeof gain, " (gain %+.1f points, 95%% interval %+.1f to %+.1f)", 100 * (after - before),
                  100 * number_from_json((*ci)[0]), 100 * number_from_json((*ci)[1]));
    text += gain;
  }
  return text + ".";
}

std::string summary_table(const Json& summary) {
  std::string rows;
  for (const auto& [name, value] : summary.items())
    rows += "<tr><th>" + escape(name) + "</th><td>" + value_text(value) + "</td></tr>\n";
  return "<table>" + rows + "</table>";
}

void replace(std::string& text, std::string_view what, const std::string& with) {
  const size_t at = text.find(what);
  if (at != std::string::npos) text.replace(at, what.size(), with);
}

}  // namespace

Result<std::string> render_report(const Json& data, const std::map<std::string, std::string>& figures,
                                  const Layout& layout) {
  KZ_ASSIGN(std::string page, read_file(layout.root / "web" / "report.html", 1 << 20));
  const Json run = data.value("run", Json::object()), summary = data.value("summary", Json::object());
  std::string drawn;
  for (const Json& spec : figure_specs(data)) {
    const auto it = figures.find(spec["name"].get<std::string>());
    if (it != figures.end()) drawn += "<figure id=\"figure-" + it->first + "\">" + it->second + "</figure>\n";
  }
  if (drawn.empty())
    drawn =
        "<p class=\"note\">No figures: the drawing program (python, matplotlib) was not to be had when this page was "
        "made.</p>";
  replace(page, "@TITLE@", escape(run.value("name", "run")));
  replace(page, "@HEADING@", escape(run.value("name", "run")));
  replace(page, "@HEADLINE@", headline(summary));
  replace(page, "@FIGURES@", drawn);
  replace(page, "@SUMMARY@", summary_table(summary));
  replace(page, "@CONFIG@", escape(run.value("config", "")));
  replace(page, "@ROLLOUTS@", script_json(data.value("rollouts", Json::array())));
  return page;
}

}  // namespace kz::bench
