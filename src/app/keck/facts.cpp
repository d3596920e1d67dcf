#include "app/keck/facts.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <thread>

#include "base/process.h"
#include "base/text.h"

namespace kz::keck {
namespace {

constexpr const char* kSetup = "run `make setup`";

std::string first_line(const Result<std::string>& output) {
  return output ? std::string(trim(std::string_view(*output).substr(0, output->find('\n')))) : "";
}

std::string on_path(const std::string& program) {
  const char* path = std::getenv("PATH");
  for (const auto& folder : split(path ? path : "", ':'))
    if (::access((folder + "/" + program).c_str(), X_OK) == 0) return folder + "/" + program;
  return "";
}

}  // namespace

void Findings::found(const std::string& what, const std::string& detail) {
  lines_.push_back({"found", what, detail, ""});
}
void Findings::note(const std::string& what, const std::string& detail) {
  lines_.push_back({"note", what, detail, ""});
}
void Findings::missing(const std::string& what, const std::string& detail, const std::string& remedy) {
  lines_.push_back({"missing", what, detail, remedy});
}

bool Findings::good() const {
  for (const auto& line : lines_)
    if (line.kind == "missing") return false;
  return true;
}

Json Findings::json() const {
  Json json = Json::array();
  for (const auto& l : lines_)
    json.push_back({{"kind", l.kind}, {"what", l.what}, {"detail", l.detail}, {"remedy", l.remedy}});
  return json;
}

std::string Findings::text(bool colour) const {
  std::string out;
  for (const auto& l : lines_) {
    const char* mark = l.kind == "found" ? "✓" : l.kind == "note" ? "·" : "✗";
    const char* style = l.kind == "found" ? "\033[32m" : l.kind == "note" ? "\033[33m" : "\033[31m";
    out += (colour ? style + std::string(mark) + "\033[0m " : std::string(mark) + " ") + l.what +
           std::string(l.what.size() < 12 ? 12 - l.what.size() : 1, ' ') + l.detail +
           (l.remedy.empty() ? "" : ": " + l.remedy) + "\n";
  }
  return out;
}

Json layout_facts(const Layout& layout, Findings& findings) {
  findings.found("root", layout.root.string());
  for (const char* program : {"keck-judge", "keck-init"})
    if (::access((layout.bin / program).c_str(), X_OK) != 0)
      findings.missing("programs", (layout.bin / program).string() + " is missing", "run `make build`");
  return {{"root", layout.root.string()}, {"bin", layout.bin.string()}, {"lib", layout.lib.string()}};
}

Json state_facts(const fs::path& state, Findings& findings) {
  constexpr double kWanted = 2;  // GiB
  if (const auto made = make_dirs(state); !made) {
    findings.missing("state", made.error().message, "give another --state");
    return {{"folder", state.string()}};
  }
  if (::access(state.c_str(), W_OK) != 0)
    findings.missing("state", state.string() + " is not writable", "give another --state");
  struct statvfs disk = {};
  const double free_gib = ::statvfs(state.c_str(), &disk) == 0
                              ? static_cast<double>(disk.f_bavail) * static_cast<double>(disk.f_frsize) / (1 << 30)
                              : 0;
  char text[32];
  std::snprintf(text, sizeof text, ", %.1f GiB free", free_gib);
  if (free_gib < kWanted)
    findings.missing("state", state.string() + text, "free some space there, or give another --state");
  else
    findings.found("state", state.string() + text);
  return {{"folder", state.string()}, {"free_gib", free_gib}};
}

Json python_facts(const Layout& layout, Findings& findings) {
  // Versions from the packages' metadata: importing torch would take seconds, and start does that anyway.
  const auto output = run_program({layout.python.string(), "-c",
                                   "import json, sys\n"
                                   "from importlib import metadata\n"
                                   "out = {'python': sys.version.split()[0]}\n"
                                   "for name in ('torch', 'triton', 'numpy'):\n"
                                   "    try: out[name] = metadata.version(name)\n"
                                   "    except metadata.PackageNotFoundError: out[name] = None\n"
                                   "print(json.dumps(out))"},
                                  "");
  const auto versions = output ? parse_json(*output, "python") : Result<Json>(tl::unexpected(output.error()));
  if (!versions || !versions->is_object()) {
    findings.missing("python", layout.python.string() + " does not run", kSetup);
    return {{"interpreter", layout.python.string()}};
  }
  Json facts = *versions;
  findings.found("python", facts.value("python", "") + "  " + layout.python.string());
  for (const char* package : {"torch", "triton", "numpy"}) {
    if (facts[package].is_string())
      findings.found(package, facts[package].get<std::string>());
    else if (std::string(package) == "torch")
      findings.missing(package, "not installed there", kSetup);
    else
      findings.note(package, std::string("not installed: no triton backend; ") + kSetup);
  }
  facts["interpreter"] = layout.python.string();
  return facts;
}

Json compiler_facts(Findings& findings) {
  Json facts = Json::object();
  const std::string gxx = on_path("g++");
  if (gxx.empty()) {
    findings.missing("g++", "not on PATH", kSetup);
  } else {
    facts["g++"] = first_line(run_program({gxx, "--version"}, ""));
    findings.found("g++", facts["g++"].get<std::string>());
  }
  const char* cuda = std::getenv("CUDA_HOME");
  const std::string own = std::string(cuda ? cuda : "/usr/local/cuda") + "/bin/nvcc";
  const std::string nvcc = ::access(own.c_str(), X_OK) == 0 ? own : on_path("nvcc");
  if (nvcc.empty()) {
    findings.note("nvcc", "not found: no cuda backend; install the CUDA toolkit and set CUDA_HOME for it");
    facts["nvcc"] = nullptr;
  } else {
    const auto output = run_program({nvcc, "--version"}, "");
    const auto lines = split(output.value_or(""), '\n');
    facts["nvcc"] = lines.size() > 3 ? std::string(trim(lines[3])) : nvcc;
    findings.found("nvcc", facts["nvcc"].get<std::string>());
  }
  return facts;
}

Json device_facts(Findings& findings) {
  std::string name = "cpu";
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const size_t colon = line.find(": ");
    if (line.rfind("model name", 0) != 0 || colon == std::string::npos) continue;
    name = line.substr(colon + 2);
    break;
  }
  const unsigned cores = std::thread::hardware_concurrency();
  findings.found("cpu", name + ", " + std::to_string(cores) + " cores");
  int gpus = 0;
  while (::access(("/dev/nvidia" + std::to_string(gpus)).c_str(), F_OK) == 0) ++gpus;
  if (gpus == 0)
    findings.note("gpu", "no /dev/nvidia0: kernels run on the CPU (cpp, triton in its interpreter)");
  else
    findings.found("gpu", std::to_string(gpus) + " NVIDIA devices");
  return {{"cpu", {{"name", name}, {"cores", cores}}}, {"gpus", gpus}};
}

}  // namespace kz::keck
