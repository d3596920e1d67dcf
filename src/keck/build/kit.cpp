#include "keck/build/kit.h"

#include <fcntl.h>
#include <sys/file.h>

#include <memory>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/process.h"

namespace kz::keck {
namespace {

constexpr uint64_t kWordsBytes = 16ULL << 20;

bool is_of(const fs::path& dir, const std::string& key) {
  const auto text = read_file(dir / "kit.json", 1 << 20);
  if (!text) return false;
  const auto json = parse_json(*text, "kit.json");
  return json && json->value("key", "") == key && fs::exists(dir / "libkz_shim.so");
}

Result<Json> describe(const Layout& layout, const fs::path& script, const std::string& compiler) {
  auto text = run_program({layout.python.string(), script.string(), "--describe", "--cxx", compiler}, "",
                          {"PYTHONDONTWRITEBYTECODE=1"});
  if (!text) return fail("toolchain", "no kit of slim headers: " + text.error().message);
  return parse_json(*text, "make_kit.py --describe");
}

}  // namespace

Result<WordList> WordList::load(const fs::path& file) {
  KZ_ASSIGN(std::string text, read_file(file, kWordsBytes));
  WordList list;
  list.text_ = std::make_unique<std::string>(std::move(text));
  const std::string_view all = *list.text_;
  list.words_.reserve(all.size() / 12);
  for (size_t begin = 0; begin < all.size();) {
    const size_t end = std::min(all.find('\n', begin), all.size());
    if (end > begin) list.words_.insert(all.substr(begin, end - begin));
    begin = end + 1;
  }
  return list;
}

Result<Kit> find_or_make_kit(const Layout& layout, const std::string& compiler) {
  const fs::path headers = layout.slim_headers.parent_path();
  const fs::path script = headers / "kit" / "make_kit.py";
  KZ_ASSIGN(const Json host, describe(layout, script, compiler));

  Kit kit;
  kit.key = host.value("key", "");
  kit.host_key = host.value("host_key", "");
  kit.slim_key = host.value("slim_key", "");
  kit.torch = host.value("torch", "");
  kit.python = host.value("python", "");
  kit.compiler_version = host.value("cxx", "");
  kit.torch_include = fs::path(host.value("torch_dir", "")) / "include";
  kit.python_include = host.value("python_include", "");
  kit.slim = layout.slim_headers;
  kit.dir = layout.lib / "kz_headers";
  if (!is_of(kit.dir, kit.key)) {
    kit.dir = layout.state / "headers" / kit.key;
    KZ_TRY(make_dirs(kit.dir.parent_path()));
    // One process makes it; others wait for it.
    Fd lock(::open((kit.dir.string() + ".lock").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
    if (lock) ::flock(lock.get(), LOCK_EX);
    if (!is_of(kit.dir, kit.key)) {
      log::info("slim headers: compiling the shim for torch " + kit.torch + ", Python " + kit.python + ", g++ " +
                kit.compiler_version + " (once, about 45 CPU-seconds)");
      const Stopwatch watch;
      auto made = run_program({layout.python.string(), script.string(), "--out", kit.dir.string(), "--cxx", compiler,
                               "--donor", (layout.lib / "kz_headers").string()},
                              "", {"PYTHONDONTWRITEBYTECODE=1"});
      if (!made) return fail("toolchain", "the kit of slim headers can't be made: " + made.error().message);
      log::info("slim headers: ready after " + std::to_string(static_cast<int>(watch.seconds())) + " s");
    }
  }
  KZ_ASSIGN(kit.real, WordList::load(kit.dir / "real.words"));
  KZ_ASSIGN(kit.missing, WordList::load(kit.dir / "missing.words"));
  KZ_ASSIGN(kit.global, WordList::load(kit.dir / "global.words"));
  KZ_ASSIGN(kit.conflict, WordList::load(kit.dir / "conflict.words"));
  KZ_ASSIGN(kit.tensor, WordList::load(kit.dir / "tensor.words"));
  KZ_ASSIGN(kit.brought, WordList::load(kit.dir / "brought.headers"));
  return kit;
}

}  // namespace kz::keck
