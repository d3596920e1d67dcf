// One build as the broker makes it: slim headers where they suffice, the real ones where the first diagnostic cannot be
// trusted. Without a memory: the cache and those who wait for the same build are the broker's. Thread-safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "keck/build/broker.h"
#include "keck/build/diagnostics.h"
#include "keck/build/outcome.h"
#include "keck/build/precompiled.h"
#include "keck/build/unit.h"

namespace kz::keck {

class Builder {
 public:
  // Finds compiler and linker; makes what the slim headers need where it is missing or old.
  static Result<std::unique_ptr<Builder>> make(const BrokerOptions& options);
  Outcome compile(const BuildRequest& request, const Flags& flags);

  const Kit& kit() const { return kit_; }
  Json precompiled() const { return precompiled_->statistics(); }
  Json describe() const;  // the part of BuildBroker::capabilities() that names tools and sandbox

 private:
  explicit Builder(const BrokerOptions& options) : options_(options) {}
  Status open();
  void compile_slim(Unit& unit, const Flags& flags, Outcome* outcome);
  void compile_full(Unit& unit, const Flags& flags, Outcome* outcome);
  CompileLimits limits_after(const Outcome& outcome) const;
  void run(const Unit& unit, const Flags& flags, const CompileLimits& limits, Outcome* outcome);
  bool works(Unit unit, const Flags& flags);
  std::string doubt_of(const Outcome& outcome, const Mentions& mentions) const;
  std::vector<std::string> folders() const;

  BrokerOptions options_;
  Kit kit_;
  Places places_;
  Tools tools_;
  std::unique_ptr<Precompiled> precompiled_;
  std::unique_ptr<sandbox::SlotPool> pool_;
};

}  // namespace kz::keck
