#include "keck/worker/object_check.h"

#include <elf.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <array>
#include <cstring>

#include "base/files.h"

namespace kz::keck {
namespace {

// Mangled namespaces whose functions compute behind the dispatcher (at::vec is header-only: a kernel's own code).
constexpr std::array kNamespaces = {"_ZN2at6native",
                                    "_ZN2at3cpu",
                                    "_ZN2at4meta",
                                    "_ZN2at7cpublas",
                                    "_ZN2at3vml",
                                    "_ZN2at21compositeexplicitauto",
                                    "_ZN2at21compositeimplicitauto",
                                    "_ZN4dnnl",
                                    "_ZN6ideep"};
constexpr std::array kPrefixes = {"cblas_", "LAPACKE_", "mkl_", "MKL_", "dnnl_", "DftiC", "vsl", "vml", "vs", "vd"};
constexpr std::array kLoaders = {"dlopen", "dlmopen", "dlsym", "dlvsym"};
// Fortran BLAS and LAPACK behind one letter of type.
constexpr std::array kFortran = {"gemm",  "gemv",  "ger",   "dot",   "axpy",  "scal",  "copy",  "swap",  "nrm2",
                                 "asum",  "rot",   "symm",  "symv",  "syrk",  "syr2k", "trmm",  "trmv",  "trsm",
                                 "trsv",  "gbmv",  "getrf", "getrs", "getri", "gesv",  "potrf", "potrs", "posv",
                                 "geqrf", "orgqr", "syev",  "syevd", "gesvd", "gesdd", "geev",  "gels",  "trtrs"};

bool starts(std::string_view text, std::string_view prefix) { return text.substr(0, prefix.size()) == prefix; }

bool is_fortran(std::string_view symbol) {
  if (symbol.size() < 4 || std::strchr("sdcz", symbol[0]) == nullptr) return false;
  symbol.remove_prefix(1);
  if (symbol.back() == '_') symbol.remove_suffix(1);
  for (const char* routine : kFortran)
    if (symbol == routine) return true;
  return false;
}

}  // namespace

bool is_borrowed(std::string_view symbol) {
  // at::_ops::NAME::redispatch enters the dispatcher behind those who look on.
  if (starts(symbol, "_ZN2at4_ops") && symbol.find("10redispatchE") != std::string_view::npos) return true;
  for (const char* name : kNamespaces)
    if (starts(symbol, name)) return true;
  for (const char* name : kLoaders)
    if (symbol == name) return true;
  for (const char* prefix : kPrefixes) {
    // "vs" and "vd" are MKL's vector functions, vsExp; what follows is a capital.
    const size_t n = std::strlen(prefix);
    if (starts(symbol, prefix) &&
        (n > 2 || (symbol.size() > n && std::isupper(static_cast<unsigned char>(symbol[n])) != 0)))
      return true;
  }
  return is_fortran(symbol);
}

Result<std::string> borrowed_compute(std::string_view object) {
  const auto bad = [] { return fail("elf", "not a shared object of this machine"); };
  // Reads a struct at an offset; every offset comes from the object and is checked.
  const auto at = [&](auto& out, uint64_t offset) {
    if (offset > object.size() || sizeof out > object.size() - offset) return false;
    std::memcpy(&out, object.data() + offset, sizeof out);
    return true;
  };
  Elf64_Ehdr head{};
  if (!at(head, 0) || std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64)
    return bad();
  for (unsigned i = 0; i < head.e_shnum; ++i) {
    Elf64_Shdr symbols{}, strings{};
    if (!at(symbols, head.e_shoff + uint64_t{i} * sizeof symbols)) return bad();
    if (symbols.sh_type != SHT_DYNSYM) continue;
    if (!at(strings, head.e_shoff + uint64_t{symbols.sh_link} * sizeof strings)) return bad();
    if (strings.sh_offset > object.size() || strings.sh_size > object.size() - strings.sh_offset) return bad();
    const std::string_view names = object.substr(strings.sh_offset, strings.sh_size);
    for (uint64_t offset = 0; offset + sizeof(Elf64_Sym) <= symbols.sh_size; offset += sizeof(Elf64_Sym)) {
      Elf64_Sym symbol{};
      if (!at(symbol, symbols.sh_offset + offset) || symbol.st_name >= names.size()) return bad();
      const std::string_view name = names.substr(symbol.st_name, names.find('\0', symbol.st_name) - symbol.st_name);
      if (symbol.st_shndx == SHN_UNDEF && is_borrowed(name)) return std::string(name);
    }
    return std::string();
  }
  return bad();  // a shared object has dynamic symbols
}

Result<std::string> borrowed_compute(int fd) {
  struct stat info{};
  if (fstat(fd, &info) != 0 || info.st_size <= 0) return fail("elf", "no object: " + errno_text(errno));
  const auto size = static_cast<size_t>(info.st_size);
  void* map = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (map == MAP_FAILED) return fail("elf", "mmap: " + errno_text(errno));
  auto found = borrowed_compute(std::string_view(static_cast<const char*>(map), size));
  munmap(map, size);
  return found;
}

}  // namespace kz::keck
