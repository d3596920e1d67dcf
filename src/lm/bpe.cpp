#include "lm/bpe.h"

#include <queue>

namespace kz::lm {

namespace {

// Words up to here are merged by scanning, which beats a queue: real words are short.
constexpr size_t kScanLimit = 48;

uint64_t mix(uint64_t x) {
  x ^= x >> 32;
  x *= 0x9E3779B97F4A7C15ULL;
  return x ^ x >> 29;
}

}  // namespace

void Bpe::grow(size_t slots) {
  std::vector<Slot> old(slots);
  old.swap(slots_);
  for (const Slot& s : old) {
    if (s.pair == kEmpty) continue;
    size_t i = mix(s.pair) & (slots_.size() - 1);
    while (slots_[i].pair != kEmpty) i = (i + 1) & (slots_.size() - 1);
    slots_[i] = s;
  }
}

void Bpe::reserve(size_t merges) {
  size_t slots = 16;
  while (slots < 2 * merges) slots *= 2;
  if (slots > slots_.size()) grow(slots);
}

void Bpe::add_merge(int32_t left, int32_t right, int32_t merged) {
  if (2 * (used_ + 1) > slots_.size()) reserve(used_ + 1 + slots_.size());
  const uint64_t pair = key(left, right);
  size_t i = mix(pair) & (slots_.size() - 1);
  while (slots_[i].pair != kEmpty && slots_[i].pair != pair) i = (i + 1) & (slots_.size() - 1);
  if (slots_[i].pair == kEmpty) ++used_;
  slots_[i] = {pair, next_rank_++, merged};
}

const Bpe::Slot* Bpe::find(int32_t left, int32_t right) const {
  if (slots_.empty()) return nullptr;
  const uint64_t pair = key(left, right);
  size_t i = mix(pair) & (slots_.size() - 1);
  while (slots_[i].pair != kEmpty) {
    if (slots_[i].pair == pair) return &slots_[i];
    i = (i + 1) & (slots_.size() - 1);
  }
  return nullptr;
}

void Bpe::encode(std::string_view word, std::vector<int32_t>& out) const {
  std::vector<int32_t> symbols(word.size());
  for (size_t i = 0; i < word.size(); ++i) symbols[i] = bytes_[static_cast<unsigned char>(word[i])];
  if (symbols.size() > kScanLimit) {
    encode_long(symbols);
    out.insert(out.end(), symbols.begin(), symbols.end());
    return;
  }
  const Slot* pairs[kScanLimit];  // pairs[i]: the merge of symbols i and i + 1
  size_t n = symbols.size();
  for (size_t i = 0; i + 1 < n; ++i) pairs[i] = find(symbols[i], symbols[i + 1]);
  while (n > 1) {
    size_t best = n;
    for (size_t i = 0; i + 1 < n; ++i) {
      if (pairs[i] != nullptr && (best == n || pairs[i]->rank < pairs[best]->rank)) best = i;
    }
    if (best == n) break;
    symbols[best] = pairs[best]->merged;
    for (size_t i = best + 1; i + 1 < n; ++i) {
      symbols[i] = symbols[i + 1];
      pairs[i] = i + 2 < n ? pairs[i + 1] : nullptr;
    }
    --n;
    if (best > 0) pairs[best - 1] = find(symbols[best - 1], symbols[best]);
    if (best + 1 < n) pairs[best] = find(symbols[best], symbols[best + 1]);
  }
  out.insert(out.end(), symbols.begin(), symbols.begin() + static_cast<std::ptrdiff_t>(n));
}

// The same result in n log n: a queue of candidate merges over a linked list of symbols; stale candidates are skipped.
void Bpe::encode_long(std::vector<int32_t>& symbols) const {
  struct Node {
    int32_t previous, next;
  };
  struct Candidate {
    int32_t rank, at, left, right, merged;
    bool operator<(const Candidate& o) const { return rank != o.rank ? rank > o.rank : at > o.at; }
  };
  const auto n = static_cast<int32_t>(symbols.size());
  std::vector<Node> nodes(symbols.size());
  for (int32_t i = 0; i < n; ++i) nodes[static_cast<size_t>(i)] = {i - 1, i + 1 < n ? i + 1 : -1};
  std::priority_queue<Candidate> queue;
  const auto offer = [&](int32_t at) {
    if (at < 0 || nodes[static_cast<size_t>(at)].next < 0) return;
    const int32_t left = symbols[static_cast<size_t>(at)],
                  right = symbols[static_cast<size_t>(nodes[static_cast<size_t>(at)].next)];
    if (const Slot* s = find(left, right)) queue.push({s->rank, at, left, right, s->merged});
  };
  for (int32_t i = 0; i + 1 < n; ++i) offer(i);
  while (!queue.empty()) {
    const Candidate c = queue.top();
    queue.pop();
    const auto at = static_cast<size_t>(c.at);
    if (symbols[at] != c.left || nodes[at].next < 0) continue;
    const auto right = static_cast<size_t>(nodes[at].next);
    if (symbols[right] != c.right) continue;
    symbols[at] = c.merged;
    symbols[right] = -1;  // dead
    nodes[at].next = nodes[right].next;
    if (nodes[at].next >= 0) nodes[static_cast<size_t>(nodes[at].next)].previous = c.at;
    offer(nodes[at].previous);
    offer(c.at);
  }
  std::erase(symbols, -1);
}

}  // namespace kz::lm
