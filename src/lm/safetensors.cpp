#include "lm/safetensors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/json.h"

namespace kz::lm {

namespace {

constexpr uint64_t kMaxHeader = 100ULL << 20;  // the format's own limit
constexpr const char* kRemedy = "; copy or download the file again";

struct DtypeInfo {
  Dtype dtype;
  const char* name;
  size_t size;
};
constexpr DtypeInfo kDtypes[] = {{Dtype::kF32, "F32", 4}, {Dtype::kF16, "F16", 2}, {Dtype::kBF16, "BF16", 2},
                                 {Dtype::kI64, "I64", 8}, {Dtype::kI32, "I32", 4}, {Dtype::kU8, "U8", 1}};

const DtypeInfo& info(Dtype dtype) {
  for (const DtypeInfo& d : kDtypes)
    if (d.dtype == dtype) return d;
  return kDtypes[0];
}

// A JSON number as an unsigned integer; false for anything else.
bool unsigned_of(const Json& json, uint64_t& out) {
  if (!json.is_number_unsigned()) return false;
  out = json.get<uint64_t>();
  return true;
}

struct Entry {
  std::string name;
  TensorView view;
  uint64_t begin = 0, end = 0;
};

// One entry of the header, checked by itself: known dtype, a shape whose size does not overflow and equals the offsets.
Result<Entry> parse_entry(const std::string& name, const Json& json, uint64_t data_size, const std::string& where) {
  const auto wrong = [&](const std::string& what) {
    return fail("weights", where + ": tensor \"" + name + "\" " + what + kRemedy);
  };
  if (!json.is_object() || !json.contains("dtype") || !json.contains("shape") || !json.contains("data_offsets"))
    return wrong("has no dtype, shape and data_offsets");
  Entry e;
  e.name = name;
  const DtypeInfo* dtype = nullptr;
  for (const DtypeInfo& d : kDtypes)
    if (json["dtype"] == d.name) dtype = &d;
  if (dtype == nullptr) {
    return fail("weights", where + ": tensor \"" + name + "\" has dtype " + dump_json(json["dtype"]) +
                               ", which is not supported; convert it to F32, F16 or BF16");
  }
  e.view.dtype = dtype->dtype;
  if (!json["shape"].is_array()) return wrong("has a shape that is no list");
  uint64_t bytes = dtype->size;
  for (const Json& size : json["shape"]) {
    uint64_t n = 0;
    if (!unsigned_of(size, n) || n > static_cast<uint64_t>(INT64_MAX))
      return wrong("has a size that is no whole number");
    if (__builtin_mul_overflow(bytes, n, &bytes)) return wrong("has a shape whose size overflows");
    e.view.shape.push_back(static_cast<int64_t>(n));
  }
  const Json& offsets = json["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2 || !unsigned_of(offsets[0], e.begin) ||
      !unsigned_of(offsets[1], e.end))
    return wrong("has data_offsets that are no pair of whole numbers");
  if (e.begin > e.end || e.end > data_size) {
    return wrong("lies at bytes " + std::to_string(e.begin) + " to " + std::to_string(e.end) + " of " +
                 std::to_string(data_size) + " (the file is truncated or damaged)");
  }
  if (e.end - e.begin != bytes) {
    return wrong("has " + std::to_string(e.end - e.begin) + " bytes where its shape and dtype need " +
                 std::to_string(bytes));
  }
  return e;
}

}  // namespace

size_t dtype_size(Dtype dtype) { return info(dtype).size; }
const char* dtype_name(Dtype dtype) { return info(dtype).name; }

struct WeightFile::Mapping {
  void* base = MAP_FAILED;
  size_t size = 0;
  ~Mapping() {
    if (base != MAP_FAILED) ::munmap(base, size);
  }
};

WeightFile::WeightFile(WeightFile&&) noexcept = default;
WeightFile& WeightFile::operator=(WeightFile&&) noexcept = default;
WeightFile::~WeightFile() = default;

Status WeightFile::add_shard(const fs::path& file) {
  const std::string where = file.string();
  const Fd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return fail("weights", where + ": " + errno_text(errno) + "; check the model's folder");
  struct stat st{};
  if (::fstat(fd.get(), &st) != 0) return fail("weights", where + ": " + errno_text(errno));
  const auto size = static_cast<uint64_t>(st.st_size);
  if (!S_ISREG(st.st_mode) || size < 8) {
    return fail("weights", where + ": " + std::to_string(size) + " bytes are too few for safetensors" + kRemedy);
  }
  auto mapping = std::make_unique<Mapping>();
  mapping->size = size;
  mapping->base = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (mapping->base == MAP_FAILED) return fail("weights", where + ": mmap: " + errno_text(errno));
  const auto* bytes = static_cast<const std::byte*>(mapping->base);

  uint64_t header = 0;
  std::memcpy(&header, bytes, 8);  // little-endian, as every machine this runs on
  if (header > kMaxHeader || header > size - 8) {
    return fail("weights", where + ": the header claims " + std::to_string(header) + " bytes, the file has " +
                               std::to_string(size - 8) + " (truncated, or no safetensors)" + kRemedy);
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes) + 8, header);
  KZ_ASSIGN(const Json json, parse_json(text, where + ": header"));
  if (!json.is_object()) return fail("weights", where + ": the header is no JSON object" + kRemedy);

  const uint64_t data_size = size - 8 - header;
  std::vector<Entry> entries;
  for (const auto& [name, value] : json.items()) {
    if (name == "__metadata__") {
      for (const auto& [key, v] : value.items())
        if (v.is_string()) metadata_[key] = v.get<std::string>();
      continue;
    }
    KZ_ASSIGN(Entry e, parse_entry(name, value, data_size, where));
    e.view.bytes = {bytes + 8 + header + e.begin, e.end - e.begin};
    entries.push_back(std::move(e));
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.begin != b.begin ? a.begin < b.begin : a.end < b.end; });
  uint64_t at = 0;  // the format allows neither overlap nor holes: a hole is where something may hide, or was lost
  for (const Entry& e : entries) {
    if (e.begin != at) {
      return fail("weights", where + ": tensor \"" + e.name + "\" begins at byte " + std::to_string(e.begin) +
                                 " where " + std::to_string(at) + " is due (" + (e.begin < at ? "overlap" : "hole") +
                                 ")" + kRemedy);
    }
    at = e.end;
  }
  if (at != data_size) {
    return fail("weights", where + ": " + std::to_string(data_size - at) + " bytes after the last tensor" + kRemedy);
  }
  for (Entry& e : entries) {
    if (!tensors_.emplace(e.name, std::move(e.view)).second)
      return fail("weights", where + ": tensor \"" + e.name + "\" is in another shard too" + kRemedy);
  }
  shards_.push_back(std::move(mapping));
  return {};
}

Result<WeightFile> WeightFile::open(const fs::path& path) {
  std::error_code ignored;
  fs::path file = path;
  if (fs::is_directory(path, ignored)) {
    file = path / "model.safetensors";
    if (!fs::exists(file, ignored)) file = path / "model.safetensors.index.json";
    if (!fs::exists(file, ignored)) {
      return fail(
          "weights",
          path.string() +
              ": holds neither model.safetensors nor model.safetensors.index.json; name a Hugging Face model folder");
    }
  }
  WeightFile weights;
  weights.where_ = file.string();
  if (file.extension() != ".json") {
    KZ_TRY(weights.add_shard(file));
    return weights;
  }
  KZ_ASSIGN(const std::string text, read_file(file, 256 << 20));
  KZ_ASSIGN(const Json index, parse_json(text, file.string()));
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object())
    return fail("weights", file.string() + ": has no \"weight_map\"" + kRemedy);
  std::vector<std::string> names;
  for (const auto& [tensor, shard] : index["weight_map"].items()) {
    // A shard is a file beside its index: a name with a folder in it could point anywhere.
    if (!shard.is_string() || shard.get<std::string>().find('/') != std::string::npos)
      return fail("weights", file.string() + ": weight_map[\"" + tensor + "\"] is no file name" + kRemedy);
    names.push_back(shard.get<std::string>());
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  for (const std::string& name : names) KZ_TRY(weights.add_shard(file.parent_path() / name));
  for (const auto& [tensor, shard] : index["weight_map"].items()) {
    if (!weights.tensors_.contains(tensor))
      return fail("weights",
                  file.string() + ": tensor \"" + tensor + "\" is not in " + shard.get<std::string>() + kRemedy);
  }
  return weights;
}

Result<TensorView> WeightFile::get(const std::string& name) const {
  const auto it = tensors_.find(name);
  if (it == tensors_.end()) {
    return fail("weights",
                where_ + ": tensor \"" + name + "\" is missing; config.json and the weights are of different models");
  }
  return it->second;
}

Status write_safetensors(const fs::path& path, const std::vector<TensorOut>& tensors,
                         const std::map<std::string, std::string>& metadata) {
  std::vector<const TensorOut*> order;
  for (const TensorOut& t : tensors) order.push_back(&t);
  std::sort(order.begin(), order.end(), [](const TensorOut* a, const TensorOut* b) { return a->name < b->name; });
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  uint64_t at = 0;
  for (const TensorOut* t : order) {
    header[t->name] = {
        {"dtype", dtype_name(t->dtype)}, {"shape", t->shape}, {"data_offsets", {at, at + t->bytes.size()}}};
    at += t->bytes.size();
  }
  std::string text = dump_json(header);
  text.resize((text.size() + 7) / 8 * 8, ' ');  // data starts aligned
  std::string out(8, '\0');
  const uint64_t length = text.size();
  std::memcpy(out.data(), &length, 8);
  out.reserve(8 + text.size() + at);
  out += text;
  for (const TensorOut* t : order) out.append(reinterpret_cast<const char*>(t->bytes.data()), t->bytes.size());
  return write_file_atomic(path, out);
}

}  // namespace kz::lm
