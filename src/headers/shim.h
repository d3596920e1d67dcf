// headers: the slim torch headers that candidates are compiled against, the shim behind them, and the kit that makes
// both.
//
//   slim/    what a candidate sees as <torch/extension.h>: the real c10 vocabulary (ScalarType, TensorOptions, Scalar,
//            ArrayRef, Half, TORCH_CHECK, AT_DISPATCH, accessors, parallel_for) around a light at::Tensor, which is one
//            pointer laid out as the real one, and declarations of operators without bodies
//   shim/    libkz_shim.so: the other side of these declarations, compiled once with the real headers, plus the binding
//            in place of pybind11 and the audit
//   kit/     Python that reads the installed torch's declarations, compiles the shim and writes the kit folder:
//            kit.json, libkz_shim.so, gen/kz_gen/*.inc, real.words, slim.words (see kit/make_kit.py)
//
// This file is the C ABI that others may use. libkz_shim.so is loaded once after torch, with RTLD_GLOBAL, so that the
// objects of slim builds find the shim and the torch libraries behind it.
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

// The audit (keck.md, part 7): from the first call with `on` != 0 every aten operator outside the allow-list of
// allocation, views, contiguous and copies is forbidden in this process, for good: a later call with 0 changes nothing,
// so code of the candidate can't switch it off by name. Three nets hang over each other:
//   - an operator called through the shim (slim builds, any thread) throws c10::Error "aten operator X is not allowed
//   in
//     the audit", a RuntimeError in Python;
//   - a global RecordFunction callback sees every operator that the dispatcher runs, from any thread, whoever calls it
//     (Python, full builds, pasted modules). It can't throw; it notes the first forbidden name;
//   - a call of a slim extension that returns after a name was noted raises that RuntimeError.
// So: kz_shim_audit(1) after construction and before forward(), and after forward() a non-null kz_shim_audit_violation
// is `torch_compute`, whatever the candidate caught or returned. Call it with the GIL held.
void kz_shim_audit(int on);
// Name of the first forbidden operator since the audit began ("aten::relu"), or null. The text lives for ever.
const char* kz_shim_audit_violation(void);
// Operators seen by the callback since the audit began, allowed ones included: 0 after a forward() that ran torch
// operators means that the callback was removed.
unsigned long kz_shim_audit_count(void);
// 1 where the allow-list has the operator ("aten::empty_like" or "empty_like").
int kz_shim_audit_allows(const char* name);

// "2.11.0+cu130|3.11|12.2.0": what the shim was compiled for (torch, Python minor, g++).
const char* kz_shim_version(void);

#ifdef __cplusplus
}
#endif
