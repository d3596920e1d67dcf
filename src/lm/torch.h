// The part of LibTorch that lm and train use, and their precompiled header. ATen alone: torch/torch.h costs twice the
// time.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/custom_function.h>
