// The audit (../shim.h): which operators a candidate with a kernel of its own may still call.
#include <ATen/record_function.h>
#include <c10/util/Exception.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <string_view>
#include <unordered_set>

#include "shim.h"

namespace kz::shim {

std::atomic<bool> audit_on{false};

namespace {

std::atomic<const char*> violation{nullptr};
std::atomic<unsigned long> seen{0};

// Allocation, filling with a constant, views, contiguous, copies and what these call. In-place forms ("_") and "_out"
// count with their operator.
const std::unordered_set<std::string_view>& allowed() {
  static const std::unordered_set<std::string_view> names = {
      // allocation
      "empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided", "zeros", "zeros_like",
      "new_zeros", "ones", "ones_like", "new_ones", "full", "full_like", "new_full", "zero", "fill", "scalar_tensor",
      "tensor", "from_blob", "resize", "resize_as", "set", "lift", "lift_fresh", "lift_fresh_copy",
      // copies
      "clone", "contiguous", "copy", "_to_copy", "to", "type_as", "cpu", "cuda", "pin_memory", "_pin_memory",
      "is_pinned", "item", "_local_scalar_dense", "_copy_from", "_copy_from_and_resize", "float", "double", "half",
      // views
      "view", "view_as", "_unsafe_view", "reshape", "reshape_as", "_reshape_alias", "_reshape_copy", "as_strided",
      "expand", "expand_as", "broadcast_to", "permute", "transpose", "t", "mT", "mH", "numpy_T", "matrix_H", "adjoint",
      "swapaxes", "swapdims", "movedim", "moveaxis", "select", "slice", "narrow", "squeeze", "unsqueeze", "flatten",
      "unflatten", "ravel", "unbind", "split", "split_with_sizes", "chunk", "unsafe_chunk", "unsafe_split",
      "tensor_split", "hsplit", "vsplit", "dsplit", "diagonal", "unfold", "alias", "detach", "view_as_real",
      "view_as_complex", "real", "imag", "atleast_1d", "atleast_2d", "atleast_3d", "data", "conj", "_conj",
      "resolve_conj", "resolve_neg", "_neg_view",
      // questions
      "size", "stride", "dim", "numel", "sym_size", "sym_stride", "sym_numel", "sym_storage_offset", "storage_offset",
      "is_contiguous", "is_same_size", "is_floating_point", "is_complex", "is_signed", "is_nonzero", "is_leaf",
      "output_nr", "_version", "requires_grad", "retain_grad", "retains_grad", "result_type", "can_cast",
      "promote_types", "is_set_to", "has_storage", "element_size", "is_inference", "_has_same_storage_numel",
      "_has_compatible_shallow_copy_type", "set_data"};
  return names;
}

// "aten::add_" -> "add"; the name as written is allowed too ("__" names stay whole).
bool allows(std::string_view name) {
  if (const size_t colon = name.rfind(':'); colon != std::string_view::npos) name.remove_prefix(colon + 1);
  if (allowed().count(name) != 0) return true;
  const auto without = [&](std::string_view suffix) {
    return name.size() > suffix.size() && name.substr(name.size() - suffix.size()) == suffix &&
           allowed().count(name.substr(0, name.size() - suffix.size())) != 0;
  };
  return without("_") || without("_out");
}

void note(std::string_view name) {
  if (violation.load(std::memory_order_relaxed) != nullptr) return;
  std::string text(name);
  if (text.find("::") == std::string::npos) text = "aten::" + text;
  char* copy = ::strdup(text.c_str());
  const char* expected = nullptr;
  if (!violation.compare_exchange_strong(expected, copy)) ::free(copy);
}

std::string message(const char* name) {
  std::string_view bare(name);
  if (bare.substr(0, 6) == "aten::") bare.remove_prefix(6);
  return "aten operator " + std::string(bare) + " is not allowed in the audit";
}

std::unique_ptr<at::ObserverContext> on_operator(const at::RecordFunction& function) {
  seen.fetch_add(1, std::memory_order_relaxed);
  const char* name = function.name();
  // Operators of any library are judged; what is no operator ("autograd::engine", a profiler's range) is not.
  const bool is_operator = std::strstr(name, "::") != nullptr && std::strncmp(name, "profiler::", 10) != 0 &&
                           std::strncmp(name, "autograd::", 10) != 0;
  if (is_operator && !allows(name)) note(name);
  return nullptr;
}

}  // namespace

void audit_operator(const char* name) {
  if (allows(name)) return;
  note(name);
  TORCH_CHECK(false, message(name));
}

void audit_call() {
  if (!audit_on.load(std::memory_order_relaxed)) return;
  if (const char* name = violation.load()) TORCH_CHECK(false, message(name));
}

}  // namespace kz::shim

extern "C" {

void kz_shim_audit(int on) {
  if (on == 0 || kz::shim::audit_on.exchange(true)) return;
  at::addGlobalCallback(
      at::RecordFunctionCallback(kz::shim::on_operator).scopes({at::RecordScope::FUNCTION}).needsInputs(false));
  // Observation may have been switched off for this thread before.
  at::enableRecordFunction(true);
}

const char* kz_shim_audit_violation(void) { return kz::shim::violation.load(); }
unsigned long kz_shim_audit_count(void) { return kz::shim::seen.load(); }
int kz_shim_audit_allows(const char* name) { return name != nullptr && kz::shim::allows(name); }
const char* kz_shim_version(void) { return KZ_SHIM_VERSION; }
}
