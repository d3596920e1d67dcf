#include "keck/sandbox/spec.h"

#include <stdlib.h>
#include <string.h>

namespace kz::keck::sandbox {
namespace {

template <size_t N>
bool add(const char* (&list)[N], int* count, const char* value) {
  if (*count >= static_cast<int>(N)) return false;
  list[(*count)++] = value;
  return true;
}

bool set_field(const char* key, const char* value, Spec* s) {
  const auto is = [key](const char* name) { return strcmp(key, name) == 0; };
  const auto number = [value] { return strtoull(value, nullptr, 10); };
  const auto integer = [value] { return static_cast<int>(strtol(value, nullptr, 10)); };
  if (is("version")) return s->version = integer(), true;
  if (is("box_pid")) return s->box_pid = integer(), true;
  if (is("box_fd")) return s->box_fd = integer(), true;
  if (is("uid")) return s->uid = strtol(value, nullptr, 10), true;
  if (is("gid")) return s->gid = strtol(value, nullptr, 10), true;
  if (is("cgroup")) return add(s->cgroups, &s->n_cgroups, value);
  if (is("nofile")) return s->nofile = number(), true;
  if (is("fsize")) return s->fsize = number(), true;
  if (is("cpu")) return s->cpu = number(), true;
  if (is("stack")) return s->stack = number(), true;
  if (is("nproc")) return s->nproc = number(), true;
  if (is("address")) return s->address = number(), true;
  if (is("processes")) return s->processes = integer() != 0, true;
  if (is("foreign_signals")) return s->foreign_signals = integer() != 0, true;
  if (is("landlock")) return s->landlock = integer() != 0, true;
  if (is("cwd")) return s->cwd = value, true;
  if (is("read_only")) return add(s->read_only, &s->n_read_only, value);
  if (is("read_write")) return add(s->read_write, &s->n_read_write, value);
  if (is("root_fd")) return s->root_fd = integer(), true;
  if (is("net_fd")) return s->net_fd = integer(), true;
  if (is("tmp_fd")) return s->tmp_fd = integer(), true;
  if (is("life_fd")) return s->life_fd = integer(), true;
  if (is("status_fd")) return s->status_fd = integer(), true;
  if (is("tmp_bytes")) return s->tmp_bytes = number(), true;
  if (is("first_uid")) return s->first_uid = number(), true;
  if (is("uids")) return s->uids = number(), true;
  if (is("keep_proc")) return s->keep_proc = integer() != 0, true;
  return false;
}

}  // namespace

bool parse_spec(char* text, Spec* spec) {
  while (*text != '\0') {
    char* end = strchr(text, '\n');
    if (end != nullptr) *end = '\0';
    char* equals = strchr(text, '=');
    if (equals == nullptr) return false;
    *equals = '\0';
    if (!set_field(text, equals + 1, spec)) return false;
    if (end == nullptr) break;
    text = end + 1;
  }
  return spec->version == kSpecVersion;
}

}  // namespace kz::keck::sandbox
