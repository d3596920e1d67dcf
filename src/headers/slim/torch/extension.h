// What a candidate gets for <torch/extension.h>.
#pragma once

#include <kz/bind.h>
#include <kz/functions.h>
