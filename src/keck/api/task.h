// keck/api: what the world sees of Keck. A route table (router.h) maps requests to handlers; a handler is a Task, a
// coroutine from HttpRequest to HttpResponse that knows no socket; http_server.h is the only user of Boost.Beast.
// Task<T> is a coroutine that ends in a T. It has no executor: it runs on the thread that starts or resumes it.
#pragma once

#include <coroutine>
#include <exception>
#include <functional>
#include <optional>
#include <utility>

namespace kz::keck {

template <typename T>
class [[nodiscard]] Task {
 public:
  struct promise_type {
    std::optional<T> value;
    std::exception_ptr error;
    std::coroutine_handle<> waiter;

    Task get_return_object() { return Task(std::coroutine_handle<promise_type>::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    auto final_suspend() noexcept {
      struct Back {
        bool await_ready() noexcept { return false; }
        std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> self) noexcept {
          return self.promise().waiter ? self.promise().waiter : std::noop_coroutine();
        }
        void await_resume() noexcept {}
      };
      return Back{};
    }
    template <typename U>
    void return_value(U&& v) {
      value.emplace(std::forward<U>(v));
    }
    void unhandled_exception() { error = std::current_exception(); }
  };

  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  Task(const Task&) = delete;
  ~Task() {
    if (handle_) handle_.destroy();
  }

  // co_await task: starts it, and goes on when it has ended.
  auto operator co_await() && noexcept {
    struct Awaiter {
      std::coroutine_handle<promise_type> task;
      bool await_ready() noexcept { return false; }
      std::coroutine_handle<> await_suspend(std::coroutine_handle<> waiter) noexcept {
        task.promise().waiter = waiter;
        return task;
      }
      T await_resume() {
        if (task.promise().error) std::rethrow_exception(task.promise().error);
        return std::move(*task.promise().value);
      }
    };
    return Awaiter{handle_};
  }

 private:
  explicit Task(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  std::coroutine_handle<promise_type> handle_;
};

namespace internal {

// The outermost coroutine: owns itself, ends with its task.
struct Detached {
  struct promise_type {
    Detached get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }  // start() catches what the task throws; `done` must not throw
  };
};

}  // namespace internal

// Runs the task until it first waits. `done` gets its value, or the exception that ended it.
template <typename T>
internal::Detached start(Task<T> task, std::function<void(std::optional<T>, std::exception_ptr)> done) {
  std::optional<T> value;
  std::exception_ptr error;
  try {
    value.emplace(co_await std::move(task));
  } catch (...) {
    error = std::current_exception();
  }
  done(std::move(value), error);
}

}  // namespace kz::keck
