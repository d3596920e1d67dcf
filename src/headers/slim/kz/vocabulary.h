// The real c10 and ATen headers that know no tensor: types, options, scalars, errors, dispatch, accessors, threads.
// <torch/extension.h> brings every one of them. A compiler without precompiled headers (the next backend) will want
// lighter ones of the same layout in this place.
#pragma once

#include <kz_gen/system.inc>

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/core/DimVector.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Reduction.h>
#include <ATen/core/TensorAccessor.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/Device.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/Layout.h>
#include <c10/core/MemoryFormat.h>
#include <c10/core/Scalar.h>
#include <c10/core/ScalarType.h>
#include <c10/core/TensorOptions.h>
#include <c10/core/WrapDimMinimal.h>
#include <c10/util/ArrayRef.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Exception.h>
#include <c10/util/Half.h>
#include <c10/util/Logging.h>
#include <c10/util/OptionalArrayRef.h>
#include <c10/util/SmallVector.h>
#include <c10/util/accumulate.h>
#include <c10/util/complex.h>
#include <c10/util/irange.h>
#include <c10/util/strides.h>
#include <torch/version.h>
