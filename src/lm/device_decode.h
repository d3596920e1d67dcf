// Batched decoding by torch operations, for devices. Torch is visible here.
#pragma once

#include "lm/cpu/decode.h"
#include "lm/model.h"

namespace kz::lm {

// As cpu::decode, with up to options.slots sequences at once on the model's device. The same uniform numbers pick the
// tokens.
cpu::DecodeCounts device_decode(const Model& model, at::ScalarType dtype, std::vector<cpu::Request> requests,
                                const cpu::DecodeOptions& options, const std::function<bool(cpu::Finished)>& done);

}  // namespace kz::lm
