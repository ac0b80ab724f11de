// Numbers of an array in a file, which may stand at any address.
#ifndef HEADRACE_ENGINE_WEIGHTS_LOAD_NUMBER_H_
#define HEADRACE_ENGINE_WEIGHTS_LOAD_NUMBER_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace headrace {

template <typename T>
T LoadNumber(const std::byte* data, int64_t index) {
  T value;
  std::memcpy(&value, data + index * static_cast<int64_t>(sizeof(T)),
              sizeof(T));
  return value;
}

}  // namespace headrace

#endif  // HEADRACE_ENGINE_WEIGHTS_LOAD_NUMBER_H_
