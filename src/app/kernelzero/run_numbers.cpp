#include "app/kernelzero/run_numbers.h"

#include <SQLiteCpp/SQLiteCpp.h>

#include "base/json.h"

namespace kz::app {

std::string run_numbers(const fs::path& run) {
  const auto text = read_file(run / "summary.json");
  if (!text) return "no summary";
  Json summary = Json::parse(*text);
  summary.erase("wall_s");
  summary.erase("peak_rss_mb");
  std::string out = summary.dump(1);
  SQLite::Database db((run / "run.db").string());
  for (const char* sql :
       {"SELECT step, role, grp, member, source, outcome, right, reward, advantage, logprob_sum FROM rollouts ORDER "
        "BY id",
        "SELECT step, name, value FROM metrics WHERE name NOT LIKE 'time/%' ORDER BY step, name",
        "SELECT evaluation, task, kind, member, source, right FROM evaluation_samples ORDER BY 1, 2, 3, 4"}) {
    SQLite::Statement q(db, sql);
    while (q.executeStep()) {
      for (int i = 0; i < q.getColumnCount(); ++i) out += std::string(q.getColumn(i).getText("NULL")) + "|";
      out += "\n";
    }
  }
  return out;
}

}  // namespace kz::app
