// Log lines on standard error: "2026-12-01T09:30:00.123Z info  keck  message". spdlog stays inside the .cpp.
#pragma once

#include <string_view>

namespace kz::log {

enum class Level { kDebug, kInfo, kWarn, kError };

void set_level(Level level);
void set_name(std::string_view program);  // shown in each line
void write(Level level, std::string_view message);
inline void debug(std::string_view m) { write(Level::kDebug, m); }
inline void info(std::string_view m) { write(Level::kInfo, m); }
inline void warn(std::string_view m) { write(Level::kWarn, m); }
inline void error(std::string_view m) { write(Level::kError, m); }

}  // namespace kz::log
