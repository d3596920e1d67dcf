#include "integration/run_keck.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>

namespace kz::keck {

Layout test_layout() {
  auto layout = find_layout();
  if (layout) return *layout;
  std::fprintf(stderr, "%s\n", layout.error().message.c_str());
  std::abort();
}

Ran run_keck(const std::vector<std::string>& arguments) { return run_program("keck", arguments); }

Ran run_program(const std::string& name, const std::vector<std::string>& arguments, const std::string& output) {
  return run_to_end(test_layout().bin / name, arguments, {.output = output, .kill_after_s = {}});
}

std::vector<int> family_of(int pid) {
  std::multimap<int, int> children;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    const int id = std::atoi(entry.path().filename().c_str());
    std::ifstream stat(entry.path() / "stat");
    std::string text;
    if (id <= 0 || !std::getline(stat, text)) continue;
    int parent = 0;
    if (std::sscanf(text.c_str() + text.rfind(')'), ") %*c %d", &parent) == 1) children.emplace(parent, id);
  }
  std::vector<int> family = {pid};
  for (size_t i = 0; i < family.size(); ++i) {
    const auto [begin, end] = children.equal_range(family[i]);
    for (auto child = begin; child != end; ++child) family.push_back(child->second);
  }
  return family;
}

bool alive(int pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  if (!std::getline(stat, text)) return false;
  const size_t name_end = text.rfind(") ");
  return name_end != std::string::npos && text[name_end + 2] != 'Z';
}

}  // namespace kz::keck
