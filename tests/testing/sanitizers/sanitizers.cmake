# Builds with sanitizers: HEADRACE_SANITIZE is 'address,undefined' or 'thread'.
# With clang, which compiles them in half of GCC's time.
if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  message(FATAL_ERROR "HEADRACE_SANITIZE needs clang: add -DCMAKE_CXX_COMPILER=clang++")
endif()

add_compile_options(-fsanitize=${HEADRACE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer
                    -D_GLIBCXX_ASSERTIONS
                    # The warnings that hold are GCC's and clang-tidy's, but for this one.
                    -Wno-error -Wthread-safety -Werror=thread-safety
                    -include ${CMAKE_CURRENT_LIST_DIR}/abseil_as_built.h
                    # Names as GCC 14, which compiled Debian's libraries, mangles them.
                    -fclang-abi-compat=17
                    # One precompiled header for libraries and programs.
                    -fPIC "SHELL:-Xclang -fno-pch-timestamp")
add_link_options(-fsanitize=${HEADRACE_SANITIZE})

# What ccache needs to know a precompiled header by its content.
if(CMAKE_CXX_COMPILER_LAUNCHER)
  list(PREPEND CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
    CCACHE_DEPEND=1 CCACHE_SLOPPINESS=pch_defines,time_macros)
endif()

# Half of the time goes into the same headers: they are compiled once.
# Most of the code is not optimised, which takes longer than it saves. What works
# hard in its tests is; without the checks that look at every pointer once more
# and with calls for those of ASan, or clang takes minutes for a file.
set(headrace_hard_working engine_ops_kernels engine_sampling engine_tokenizer)
set(headrace_optimised -O1 -fno-sanitize=alignment,null,object-size,pointer-overflow,vptr
    "SHELL:-mllvm -asan-instrumentation-with-call-threshold=0")
foreach(prelude headrace_prelude headrace_optimised_prelude)
  add_library(${prelude} OBJECT ${CMAKE_CURRENT_LIST_DIR}/prelude.cc)
  target_precompile_headers(${prelude} PRIVATE ${CMAKE_CURRENT_LIST_DIR}/prelude.h)
endforeach()
target_compile_options(headrace_optimised_prelude PRIVATE ${headrace_optimised})

# For ThreadSanitizer, what every program is linked with.
add_library(headrace_abseil_for_tsan OBJECT ${CMAKE_CURRENT_LIST_DIR}/abseil_for_tsan.cc)
target_include_directories(headrace_abseil_for_tsan PRIVATE ${PROJECT_SOURCE_DIR})
target_precompile_headers(headrace_abseil_for_tsan REUSE_FROM headrace_prelude)

# Called for every target of ours.
function(headrace_sanitize target)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL EXECUTABLE AND HEADRACE_SANITIZE STREQUAL thread)
    target_link_libraries(${target} PRIVATE headrace_abseil_for_tsan ${CMAKE_DL_LIBS})
  endif()
  set(prelude headrace_prelude)
  string(REGEX REPLACE "^headrace_" "" name ${target})
  if(name IN_LIST headrace_hard_working)
    target_compile_options(${target} PRIVATE ${headrace_optimised})
    set(prelude headrace_optimised_prelude)
  endif()
  target_precompile_headers(${target} REUSE_FROM ${prelude})
endfunction()

# One instruction set: each takes as long as the rest of the engine.
add_compile_definitions(HWY_COMPILE_ONLY_STATIC)
