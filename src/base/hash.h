// Content hashes. sha256 names content in caches and stores; xxhash64 is for splits and buckets, never for trust.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kz {

std::string sha256_hex(std::string_view bytes);  // 64 lower-case hex digits
uint64_t xxhash64(std::string_view bytes, uint64_t seed = 0);

}  // namespace kz
