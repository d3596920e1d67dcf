#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "app/kernelzero/support.h"
#include "base/progress.h"
#include "corpus/make_corpus.h"
#include "keck/client/evaluations.h"

namespace kz::app {
namespace {

constexpr int kInFlight = 64;

// Verdicts of rows by Keck, in order.
corpus::Validate validator(const Keck& keck) {
  return [&keck](const std::vector<corpus::Row>& rows) -> Result<std::vector<Json>> {
    keck::Evaluations evaluations(*keck.client, kInFlight);
    for (size_t i = 0; i < rows.size(); ++i) {
      keck::EvaluationRequest request;
      request.module = rows[i].module;
      request.candidate = rows[i].candidate;
      request.backend = rows[i].backend;
      request.timing = false;
      evaluations.submit(i, request);
    }
    std::vector<Json> out(rows.size());
    while (evaluations.outstanding() > 0) {
      if (auto got = evaluations.next(std::chrono::seconds(1))) out[got->first] = keck::to_json(got->second);
    }
    return out;
  };
}

// Whether rows can be left there, before hours of verdicts. A device or a pipe is no place: files are replaced whole.
Status check_place(const fs::path& file) {
  if (fs::exists(file) && !fs::is_regular_file(file))
    return fail("file", file.string() + " is no regular file: name a file to write the rows to");
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  if (!fs::is_directory(folder)) return fail("file", folder.string() + " is no folder: make it first");
  if (::access(folder.c_str(), W_OK) != 0)
    return fail("file", folder.string() + ": " + errno_text(errno) + ": check the permissions");
  return {};
}

void print(const corpus::CorpusReport& report, bool json) {
  if (json) {
    std::printf("%s\n", dump_json(corpus::to_json(report), 1).c_str());
    return;
  }
  std::printf("%zu rows right, %zu rejected, %zu unscored\n", report.rows, report.rejected, report.unscored);
  for (const auto& [name, n] : report.by_family) std::printf("  %5zu  %s\n", n, name.c_str());
}

}  // namespace

int corpus_make(const CorpusCommand& command) {
  const auto layout = find_layout();
  if (!layout) return complain(layout.error());
  corpus::CorpusOptions options;
  options.rows = static_cast<size_t>(command.rows);
  options.per_family = static_cast<size_t>(command.per_family);
  options.seed = command.seed;
  options.backends = command.backends;
  options.chain.families = command.families;
  if (const auto ok = corpus::check_options(options.chain); !ok) return complain(ok.error());
  if (const auto ok = check_place(command.file); !ok) return complain(ok.error());
  const auto keck = open_keck(command.where.server, command.where.workers, *layout);
  if (!keck) return complain(keck.error());
  const auto report = corpus::write_corpus(command.file, options, validator(*keck));
  if (!report) return complain(report.error());
  print(*report, command.json);
  return kExitDone;
}

int corpus_check(const CorpusCommand& command) {
  const auto layout = find_layout();
  if (!layout) return complain(layout.error());
  const auto rows = corpus::read_corpus(command.file);
  if (!rows) return complain(rows.error());
  const auto keck = open_keck(command.where.server, command.where.workers, *layout);
  if (!keck) return complain(keck.error());
  const auto validate = validator(*keck);
  corpus::CorpusReport report;
  Progress progress("corpus check", rows->size());
  for (size_t at = 0; at < rows->size(); at += 256) {
    const std::vector<corpus::Row> part(rows->begin() + static_cast<std::ptrdiff_t>(at),
                                        rows->begin() + static_cast<std::ptrdiff_t>(std::min(at + 256, rows->size())));
    const auto verdicts = validate(part);
    if (!verdicts) return complain(verdicts.error());
    for (size_t i = 0; i < part.size(); ++i) {
      const Json& verdict = (*verdicts)[i];
      if (corpus::is_right(verdict)) {
        ++report.rows;
        ++report.by_family[part[i].backend + "/" + part[i].family];
      } else {
        ++(verdict.value("outcome", "") == "unscored" ? report.unscored : report.rejected);
        std::fprintf(stderr, "row %zu (%s): %s %s\n", at + i + 1, part[i].id.c_str(),
                     verdict.value("reason", "").c_str(), verdict.value("message", "").c_str());
      }
    }
    progress.advance(part.size());
  }
  progress.finish();
  print(report, command.json);
  if (report.rejected > 0) return kExitNot;
  return report.unscored > 0 ? kExitUnscored : kExitDone;
}

}  // namespace kz::app
