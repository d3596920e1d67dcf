#include "keck/api/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <cctype>
#include <cmath>

#include "base/clock.h"

namespace kz::keck {
namespace {

using Labels = std::map<std::string, std::string>;

const prometheus::Histogram::BucketBoundaries kSeconds = {0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300};

prometheus::MetricFamily family(const std::string& name, const std::string& help, prometheus::MetricType type,
                                double value) {
  prometheus::ClientMetric metric;
  (type == prometheus::MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
  return {name, help, type, {metric}};
}

// {"build": {"hits": 3}} -> keck_evaluator_build_hits 3
void flatten(const Json& json, const std::string& name, std::vector<prometheus::MetricFamily>& out) {
  if (json.is_number() || json.is_boolean()) {
    const double value = json.is_boolean() ? (json.get<bool>() ? 1 : 0) : json.get<double>();
    out.push_back(family(name, "From the evaluator's own statistics.", prometheus::MetricType::Gauge, value));
  } else if (json.is_object()) {
    for (const auto& [key, value] : json.items()) {
      std::string word = key;
      for (char& c : word)
        if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
      flatten(value, name + "_" + word, out);
    }
  }
}

}  // namespace

struct Metrics::Impl {
  prometheus::Registry registry;
  double started = steady_seconds();

  prometheus::Family<prometheus::Counter>& answers = prometheus::BuildCounter()
                                                         .Name("keck_answers_total")
                                                         .Help("Works that ran, by kind, outcome and stage.")
                                                         .Register(registry);
  prometheus::Family<prometheus::Counter>& right = prometheus::BuildCounter()
                                                       .Name("keck_right_total")
                                                       .Help("Verdicts that are pass and accepted by the policy.")
                                                       .Register(registry);
  prometheus::Family<prometheus::Histogram>& stages = prometheus::BuildHistogram()
                                                          .Name("keck_stage_seconds")
                                                          .Help("Wall time of each stage of works that ran.")
                                                          .Register(registry);
  prometheus::Family<prometheus::Histogram>& cpu = prometheus::BuildHistogram()
                                                       .Name("keck_verdict_cpu_seconds")
                                                       .Help("CPU time of all processes of one verdict.")
                                                       .Register(registry);
  prometheus::Family<prometheus::Counter>& replies = prometheus::BuildCounter()
                                                         .Name("keck_http_requests_total")
                                                         .Help("Replies by route, method and status.")
                                                         .Register(registry);
  prometheus::Family<prometheus::Histogram>& reply_seconds =
      prometheus::BuildHistogram()
          .Name("keck_http_request_seconds")
          .Help("From the arrived request to the reply, long-polls with their wait.")
          .Register(registry);
};

Metrics::Metrics() : impl_(std::make_unique<Impl>()) {}
Metrics::~Metrics() = default;

void Metrics::answered(const Answer& answer) {
  if (const auto* verdict = std::get_if<Verdict>(&answer)) {
    impl_->answers
        .Add({{"kind", "evaluation"},
              {"outcome", std::string(to_string(verdict->outcome))},
              {"stage", std::string(to_string(verdict->stage))}})
        .Increment();
    if (verdict->right()) impl_->right.Add(Labels{}).Increment();
    for (const auto& [stage, ms] : verdict->stages_ms)
      impl_->stages.Add({{"stage", stage}}, kSeconds).Observe(ms / 1e3);
    impl_->cpu.Add(Labels{}, kSeconds).Observe(verdict->cpu_seconds);
    return;
  }
  const auto& report = std::get<ModuleReport>(answer);
  impl_->answers.Add({{"kind", "module"}, {"outcome", std::string(to_string(report.outcome))}, {"stage", report.stage}})
      .Increment();
}

void Metrics::replied(const std::string& route, const std::string& method, int status, double seconds) {
  impl_->replies.Add({{"route", route}, {"method", method}, {"status", std::to_string(status)}}).Increment();
  impl_->reply_seconds.Add({{"route", route}}, kSeconds).Observe(seconds);
}

std::string Metrics::text(const JobsStatistics& jobs, const Json& evaluator, size_t waiting) {
  using prometheus::MetricType;
  auto families = impl_->registry.Collect();
  const auto gauge = [&](const char* name, const char* help, double value) {
    families.push_back(family(name, help, MetricType::Gauge, value));
  };
  const auto counter = [&](const char* name, const char* help, double value) {
    families.push_back(family(name, help, MetricType::Counter, value));
  };
  const auto number = [](uint64_t n) { return static_cast<double>(n); };
  gauge("keck_queued_works", "Works that wait.", number(jobs.queued));
  gauge("keck_running_works", "Works that run.", number(jobs.running));
  counter("keck_jobs_accepted_total", "Jobs accepted.", number(jobs.accepted));
  counter("keck_jobs_refused_total", "Submissions refused because the queue was full.", number(jobs.refused_full));
  counter("keck_jobs_cancelled_total", "Jobs cancelled by their client.", number(jobs.cancelled));
  counter("keck_jobs_joined_total", "Jobs answered by an equal one in flight.", number(jobs.joined));
  counter("keck_result_cache_hits_total", "Jobs answered from the result cache.", number(jobs.cache_hits));
  gauge("keck_result_cache_entries", "Answers in the result cache.", number(jobs.journal.cached_results));
  gauge("keck_result_cache_bytes", "Their size.", number(jobs.journal.cached_bytes));
  gauge("keck_journal_jobs", "Jobs in the journal, finished ones included.", number(jobs.journal.jobs));
  gauge("keck_journal_file_bytes", "Size of the journal's file.", number(jobs.journal.file_bytes));
  gauge("keck_waiting_requests", "Long-polls that wait.", static_cast<double>(waiting));
  gauge("keck_uptime_seconds", "Since this daemon started.", steady_seconds() - impl_->started);
  flatten(evaluator, "keck_evaluator", families);
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace kz::keck
