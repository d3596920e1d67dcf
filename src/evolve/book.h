// The book of verdicts and gate reports of one run. It asks each question once: equal texts share an answer, what the
// store holds is not asked again (so a step begun anew after a kill repeats nothing), and with a replay store the
// answers come from there instead of Keck, in the order in which that run got them.
#pragma once

#include <functional>
#include <map>
#include <unordered_map>
#include <vector>

#include "evolve/judge.h"
#include "evolve/store.h"

namespace kz::evolve {

struct BookCounts {
  int64_t verdicts = 0;  // asked for by rollouts
  int64_t hits = 0;      // of these, answered by an earlier equal text of this run
  int64_t reports = 0, report_hits = 0;
};

class Book {
 public:
  // `replay` may be null. Judge and stores outlive the book.
  Book(Store& store, Judge& judge, const Store* replay) : store_(store), judge_(judge), replay_(replay) {}

  // A new unit of work: a step's number, or negative for an evaluation. Forgets the unit before.
  void begin(int64_t unit);

  // Asks for slot `slot` (each once a unit). Never waits for an answer. Error "replay": the other run has no answer.
  Status ask(size_t slot, const keck::EvaluationRequest& request);
  Status ask(size_t slot, const keck::ModuleRequest& request);

  // Takes in what has arrived by now; each answer is recorded in the store before it counts.
  Status collect();
  // Waits until every slot has its answer; `arrived(n)` is told how many slots were answered since it was last called.
  Status drain(const std::function<void(size_t)>& arrived = {});

  const RecordedVerdict& verdict(size_t slot) const { return verdicts_.entries.at(verdicts_.slots.at(slot)).answer; }
  const RecordedReport& report(size_t slot) const { return reports_.entries.at(reports_.slots.at(slot)).answer; }
  const BookCounts& counts() const { return counts_; }  // of this unit

 private:
  template <typename Key, typename Answer>
  struct Side {
    struct Entry {
      Key key;
      Answer answer;
      bool done = false;
      size_t waiting = 0;  // slots that share it
    };
    std::vector<Entry> entries;
    std::map<std::string, size_t> by_key;
    std::unordered_map<size_t, size_t> slots;  // slot -> entry
    size_t open = 0;                           // entries without an answer
    size_t answered_slots = 0;
  };

  Status record(size_t entry, const keck::Verdict& verdict);
  Status record(size_t entry, const keck::ModuleReport& report);
  Status take(std::chrono::duration<double> wait);

  Store& store_;
  Judge& judge_;
  const Store* replay_;
  int64_t unit_ = 0;
  size_t told_ = 0;
  Side<VerdictKey, RecordedVerdict> verdicts_;
  Side<std::string, RecordedReport> reports_;
  BookCounts counts_;
};

// The key under which a question's answer is kept.
VerdictKey verdict_key(const keck::EvaluationRequest& request);
std::string report_key(const keck::ModuleRequest& request);

}  // namespace kz::evolve
