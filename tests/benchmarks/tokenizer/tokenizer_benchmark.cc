// How fast a model file's tokenizer loads, encodes and decodes.
//
//   tokenizer_benchmark MODEL [TEXT_FILE] [benchmark flags]
//
// Without TEXT_FILE the text is made up of English words by a fixed rule.
#include <fstream>
#include <iostream>
#include <random>
#include <sstream>
#include <string>
#include <utility>

#include "benchmark/benchmark.h"
#include "engine/tokenizer/tokenizer_factory.h"
#include "engine/weights/weight_source.h"

namespace headrace {
namespace {

TokenizerFormat FormatOf(WeightFormat format) {
  switch (format) {
    case WeightFormat::kGguf:
      return TokenizerFormat::kGguf;
    case WeightFormat::kSafetensors:
      return TokenizerFormat::kHuggingFace;
    case WeightFormat::kLlama2c:
      return TokenizerFormat::kLlama2c;
  }
  return TokenizerFormat::kGguf;
}

// 1 MiB of sentences; words of two to four syllables, 30,000 of them.
std::string MakeText() {
  constexpr const char* kSyllables[] = {
      "re",  "tion", "the", "in",  "con", "ver", "al",  "er", "ing", "ment",
      "pro", "de",   "com", "per", "sta", "ble", "ous", "ly", "un",  "est"};
  std::mt19937 random(1);
  std::string text;
  while (text.size() < 1 << 20) {
    const unsigned word = random() % 30000;
    std::string letters;
    for (unsigned rest = word; rest > 0; rest /= 20) {
      letters += kSyllables[rest % 20];
    }
    text += letters;
    text += random() % 12 == 0 ? (random() % 6 == 0 ? ".\n\n" : ", ") : " ";
    if (random() % 40 == 0) text += std::to_string(random() % 3000) + " ";
  }
  return text;
}

void Load(benchmark::State& state, const WeightSource* source) {
  for (auto _ : state) {
    auto tokenizer =
        CreateTokenizer(source->metadata(), FormatOf(source->format()));
    benchmark::DoNotOptimize(tokenizer);
  }
}

void Encode(benchmark::State& state, const Tokenizer* tokenizer,
            const std::string* text) {
  for (auto _ : state) {
    benchmark::DoNotOptimize(tokenizer->Encode(*text, {}));
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) *
                          static_cast<int64_t>(text->size()));
}

void Decode(benchmark::State& state, const Tokenizer* tokenizer,
            const std::string* text) {
  const auto ids = tokenizer->Encode(*text, {});
  for (auto _ : state) {
    benchmark::DoNotOptimize(tokenizer->Decode(ids, true));
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) *
                          static_cast<int64_t>(text->size()));
}

int Run(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (argc < 2) {
    std::cerr << "usage: tokenizer_benchmark MODEL [TEXT_FILE]\n";
    return 1;
  }
  const auto source = OpenWeightSource(argv[1]);
  if (!source.ok()) {
    std::cerr << source.status() << "\n";
    return 1;
  }
  const auto tokenizer =
      CreateTokenizer((*source)->metadata(), FormatOf((*source)->format()));
  if (!tokenizer.ok() || *tokenizer == nullptr) {
    std::cerr << "no tokenizer: " << tokenizer.status() << "\n";
    return 1;
  }
  std::string text = MakeText();
  if (argc > 2) {
    std::stringstream read;
    read << std::ifstream(argv[2]).rdbuf();
    text = read.str();
  }
  const std::string spaces(1 << 20, ' ');
  const std::string letters(1 << 20, 'a');
  const Tokenizer* const made = tokenizer->get();
  using benchmark::RegisterBenchmark;
  RegisterBenchmark("Load", Load, source->get())->Unit(benchmark::kMillisecond);
  RegisterBenchmark("Encode/text", Encode, made, &text);
  RegisterBenchmark("Encode/spaces", Encode, made, &spaces);
  RegisterBenchmark("Encode/one_letter", Encode, made, &letters);
  RegisterBenchmark("Decode/text", Decode, made, &text);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace
}  // namespace headrace

int main(int argc, char** argv) { return headrace::Run(argc, argv); }
