// Answers on their way to the jobs that wait for them.
#pragma once

#include "keck/job/job.h"

namespace kz::keck {

// An answer as one of its jobs sees it. Only the first of the equal jobs carries the cost, so that sums stay true.
Answer answer_for(Answer answer, const std::string& id, bool shared, double queue_ms);
Result<Answer> answer_from_text(JobKind kind, const std::string& text);
// Whether it may be handed to the next equal request: not when our host had a part in it.
bool cacheable(const Answer& answer);
Answer host_failure(JobKind kind, const std::string& reason, const std::string& message);  // unscored

}  // namespace kz::keck
