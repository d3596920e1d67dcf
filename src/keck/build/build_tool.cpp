// keck-build: one build from the command line, for tests, benchmarks and curiosity.
//   keck-build --cache DIR [--function F]… [--cflag F]… [--name N] [--headers H] [--out FILE.so] [--repeat N]
//   [--each] SOURCE.cpp…
// Prints one line of JSON a build. With --each every source is an extension of its own, whose first line may name its
// functions: "// functions: f g" (src/headers/corpus/mutate.py writes such).
#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>

#include "base/text.h"
#include "keck/build/broker.h"
#include "keck/build/outcome.h"

int main(int argc, char** argv) {
  using namespace kz;
  CLI::App app("Builds one extension through the build broker.");
  keck::BuildRequest request;
  keck::BrokerOptions options;
  request.name = "kernel";
  request.backend = "cpp";
  std::vector<std::string> files;
  std::string out, cache;
  bool statistics = false, each = false;
  int repeat = 1;
  app.add_option("sources", files, "C++ sources")->required();
  app.add_option("--function", request.functions);
  app.add_option("--cflag", request.cflags);
  app.add_option("--ldflag", request.ldflags);
  app.add_option("--name", request.name);
  app.add_option("--cache", cache, "folder of the build cache")->required();
  app.add_option("--out", out, "where to copy the object");
  app.add_option("--repeat", repeat);
  app.add_flag("--each", each, "build every source by itself");
  app.add_option("--headers", options.headers, "auto, slim or full");
  app.add_flag("--statistics", statistics, "print the broker's counters at the end");
  CLI11_PARSE(app, argc, argv);

  const auto complain = [](const Error& error) {
    std::cerr << error.code << ": " << error.message << "\n";
    return 3;
  };
  auto layout = find_layout();
  if (!layout) return complain(layout.error());
  std::vector<std::string> texts;
  for (const std::string& file : files) {
    auto text = read_file(file);
    if (!text) return complain(text.error());
    texts.push_back(std::move(*text));
  }
  options.layout = *layout;
  options.cache = cache;
  auto broker = keck::BuildBroker::start(options);
  if (!broker) return complain(broker.error());
  bool ok = true;
  const auto build = [&](const std::string& file) -> Status {
    for (int i = 0; i < repeat; ++i) {
      const keck::BuildResult result = (*broker)->build(request);
      ok = ok && result.ok;
      std::cout << dump_json({{"file", file},
                              {"ok", result.ok},
                              {"reason", result.reason},
                              {"headers", result.headers},
                              {"fallback", result.fallback},
                              {"cache", result.cache},
                              {"seconds", result.seconds},
                              {"cpu_seconds", result.cpu_seconds},
                              {"log", result.log}})
                << std::endl;
      if (result.ok && !out.empty()) KZ_TRY(write_file_atomic(out, keck::read_all(result.object)));
    }
    return {};
  };
  if (each) {
    const std::string mark = "// functions:";
    for (size_t i = 0; i < files.size(); ++i) {
      request.cpp_sources = {texts[i]};
      request.functions.clear();
      if (texts[i].rfind(mark, 0) == 0)
        for (const std::string& word : split(texts[i].substr(mark.size(), texts[i].find('\n') - mark.size()), ' '))
          if (!word.empty()) request.functions.push_back(word);
      if (auto done = build(files[i]); !done) return complain(done.error());
    }
  } else {
    request.cpp_sources = texts;
    if (auto done = build(files[0]); !done) return complain(done.error());
  }
  if (statistics) std::cout << dump_json((*broker)->statistics()) << std::endl;
  return ok ? 0 : 1;
}
