// How tensors reach a child: one fresh memfd a call, so that no child holds memory in which a later input will appear.
//
// Each tensor has a region of its own: a poisoned page, the elements from a page boundary on, and poison to the end of
// the page after the last. Poison reads as NaN or -1; a write to it is seen when the memfd is read back.
#pragma once

#include <string>
#include <vector>

#include "base/files.h"
#include "keck/judge/protocol.h"

namespace kz::keck {

class Handover {
 public:
  // Tensors in `arguments` (a list) must carry bytes; dense layouts are kept, others become row-major.
  explicit Handover(const Value& arguments);
  explicit Handover(const std::vector<NamedTensor>& state);

  const std::string& payload() const { return payload_; }  // of kCall, or after the seed of kConstruct, or of kLoad
  bool has_memory() const { return !image_.empty(); }
  uint64_t bytes() const { return image_.size(); }

  // A sealed memfd with the image: fixed size, writable. Error "io". Without tensors: an empty Fd.
  Result<Fd> open() const;

  // What the child made of it.
  struct ReadBack {
    bool touched = false;        // some element changed
    bool out_of_bounds = false;  // some poison changed
  };
  // `arguments` (as given to the constructor) gets the bytes that are there now.
  Result<ReadBack> read_back(int memfd, Value& arguments) const;

 private:
  void place(TensorRef& tensor, const std::string& bytes);

  std::string payload_, image_;
  std::vector<TensorRef> placed_;  // address: offset into the image
};

}  // namespace kz::keck
