// Writes a test model into a folder, so that golden scripts can run other
// implementations on it:
//   write-test-model FOLDER [llama|mistral|qwen2|qwen3|FILE]
// makes FOLDER/hf (Hugging Face layout, float32) and FOLDER/f32.gguf, of the
// tiny model or of an existing llama2.c checkpoint or GGUF Llama.
#include <iostream>
#include <string>

#include "engine/weights/weight_source.h"
#include "tests/testing/gguf_model.h"
#include "tests/testing/hugging_face_folder.h"
#include "tests/testing/rewrite_model.h"
#include "tests/testing/test_model.h"
#include "tests/testing/tiny_model.h"

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::cerr << "usage: write-test-model FOLDER [MODEL_TYPE | FILE]\n";
    return 2;
  }
  const std::string folder = argv[1];
  const std::string source = argc == 3 ? argv[2] : "llama";
  headrace::TestModel model;
  if (source.find_first_of("./") == std::string::npos) {
    model = headrace::BuildTinyModel({.model_type = source});
  } else {
    const auto weights = headrace::OpenWeightSource(source);
    if (!weights.ok()) {
      std::cerr << weights.status() << "\n";
      return 1;
    }
    model = headrace::ReadModel(**weights);
  }
  headrace::WriteHuggingFaceFolder(model, folder + "/hf");
  headrace::WriteGgufModel(model, folder + "/f32.gguf");
  return 0;
}
