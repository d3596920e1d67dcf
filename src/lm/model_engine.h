// An engine over a model that somebody else holds and trains. Torch stays out: Model is only named.
#pragma once

#include "lm/engine.h"

namespace kz::lm {

class Model;

// Shares the weights: the next generate() after Model::touch() uses the new ones.
Result<std::shared_ptr<Engine>> make_engine(std::shared_ptr<const Model> model,
                                            std::shared_ptr<const Tokenizer> tokenizer,
                                            const EngineOptions& options = {});
// The vocabulary of the tokenizer must fit the embedding, and the end tokens must exist. Error "model".
Status check_vocabulary(const ModelConfig& config, const Tokenizer& tokenizer, std::string_view where);

}  // namespace kz::lm
