# LibTorch from the pip wheel. The wheel's own TorchConfig demands a CUDA toolkit, so this names the libraries itself.
# The interpreter is the checkout's venv unless KZ_PYTHON says otherwise.
set(KZ_PYTHON ${CMAKE_SOURCE_DIR}/.venv/bin/python CACHE FILEPATH "Python that has torch installed")
execute_process(COMMAND ${KZ_PYTHON} -c "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
  OUTPUT_VARIABLE KZ_TORCH_DIR OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE kz_rc)
if(kz_rc)
  message(FATAL_ERROR "no torch in ${KZ_PYTHON}: run `make setup` (or pass -DKZ_PYTHON=…, or -DKZ_TORCH=OFF)")
endif()

add_library(kz_torch INTERFACE)
target_include_directories(kz_torch SYSTEM INTERFACE ${KZ_TORCH_DIR}/include ${KZ_TORCH_DIR}/include/torch/csrc/api/include)
# libtorch_cuda is not named: lm/model.cpp loads it when a CUDA device is asked for, and a start on the CPU is quicker without.
target_link_libraries(kz_torch INTERFACE ${KZ_TORCH_DIR}/lib/libtorch_cpu.so ${KZ_TORCH_DIR}/lib/libc10.so)
# libtorch_cpu exports half of an older std::filesystem, which crashes when it wins: libstdc++ must come before it.
target_link_options(kz_torch INTERFACE -Wl,--push-state,--no-as-needed -lstdc++ -Wl,--pop-state)
# torch's libraries name each other by DT_RUNPATH; the wheel's CUDA libraries are found by them, not by us.
target_link_options(kz_torch INTERFACE -Wl,--allow-shlib-undefined -Wl,-rpath,${KZ_TORCH_DIR}/lib)
