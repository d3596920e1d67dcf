// Keep-alive connections to one server, lent to one caller at a time. cpp-httplib stays inside the .cpp.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "keck/client/client.h"

namespace kz::keck {

struct Reply {
  int status = 0;
  std::string body;
};

class Connections {
 public:
  explicit Connections(ClientOptions options);
  ~Connections();

  struct Call {
    const char* method = "GET";
    std::string path = {};  // with the query
    std::string body = {};
    const char* content_type = "application/json";
    double wait_s = 0;                        // how long the server may take beside the ordinary: a long-poll's wait
    double retry_s = -1;                      // how long to try again; negative: ClientOptions::retry_s
    const std::atomic<bool>* stop = nullptr;  // true gives up instead of trying again
  };
  // Tries again, with growing pauses, while the server cannot be reached, drops the reply, is full or not ready. Each
  // call must be one that can be made twice without harm. Errors as of Client.
  Result<Reply> call(const Call& call);
  const ClientOptions& options() const { return options_; }

 private:
  struct Pool;
  Result<Reply> once(const Call& call);
  Error refused(const Call& call, const Reply& reply) const;

  const ClientOptions options_;
  std::unique_ptr<Pool> pool_;
};

}  // namespace kz::keck
