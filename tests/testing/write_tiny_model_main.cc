// Writes the tiny model into a folder, so that golden scripts can run other
// implementations on it:
//   write-tiny-model FOLDER [llama|mistral|qwen2|qwen3]
// makes FOLDER/hf (Hugging Face layout, float32) and FOLDER/tiny-f32.gguf.
#include <iostream>
#include <string>

#include "tests/testing/gguf_model.h"
#include "tests/testing/hugging_face_folder.h"
#include "tests/testing/test_model.h"
#include "tests/testing/tiny_model.h"

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::cerr << "usage: write-tiny-model FOLDER [MODEL_TYPE]\n";
    return 2;
  }
  const std::string folder = argv[1];
  headrace::TinyModelOptions options;
  if (argc == 3) options.model_type = argv[2];
  const headrace::TestModel model = headrace::BuildTinyModel(options);
  headrace::WriteHuggingFaceFolder(model, folder + "/hf");
  headrace::WriteGgufModel(model, folder + "/tiny-f32.gguf");
  return 0;
}
