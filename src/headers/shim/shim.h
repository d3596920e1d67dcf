// Inside the shim: the audit's gate that every operator passes.
#pragma once

#include <atomic>

#include "../shim.h"

namespace kz::shim {

extern std::atomic<bool> audit_on;

// Throws c10::Error when the audit is on and forbids the operator.
[[gnu::cold]] void audit_operator(const char* name);
// Throws c10::Error when any forbidden operator was seen since the audit began.
void audit_call();

inline void pass(const char* name) {
  if (__builtin_expect(audit_on.load(std::memory_order_relaxed), 0)) audit_operator(name);
}

}  // namespace kz::shim

#define KZ_OPERATOR(name) ::kz::shim::pass(name)
