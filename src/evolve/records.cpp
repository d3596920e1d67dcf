#include "evolve/records.h"

namespace kz::evolve {

std::string_view to_string(Role role) { return role == Role::kProposer ? "proposer" : "coder"; }

std::string_view to_string(ModuleStatus status) {
  switch (status) {
    case ModuleStatus::kFresh:
      return "fresh";
    case ModuleStatus::kFrontier:
      return "frontier";
    case ModuleStatus::kHard:
      return "hard";
    case ModuleStatus::kSolved:
      return "solved";
  }
  return "";
}

}  // namespace kz::evolve
