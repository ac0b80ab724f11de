#include "tests/benchmarks/capture/slow_readers.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <iostream>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

#include "absl/log/check.h"
#include "absl/time/clock.h"
#include "headrace/v1/inference.grpc.pb.h"

namespace headrace {

int64_t ReadSlowly(const std::string& address,
                   const v1::GenerateRequest& request,
                   const SlowReaders& readers) {
  std::atomic<int64_t> total = 0;
  std::latch started(readers.count);
  std::vector<std::jthread> threads;
  for (int64_t i = 0; i < readers.count; ++i) {
    threads.emplace_back([&, i] {
      grpc::ChannelArguments arguments;
      arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
      // Channels of one process share a connection otherwise.
      arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
      const auto stub = v1::InferenceService::NewStub(grpc::CreateCustomChannel(
          address, grpc::InsecureChannelCredentials(), arguments));
      v1::GenerateRequest own = request;
      own.mutable_tokens()->set_ids(0, static_cast<uint32_t>(1000 + i));
      grpc::ClientContext context;
      const auto stream = stub->Generate(&context, own);
      v1::GenerateResponse event;
      CHECK(stream->Read(&event)) << stream->Finish().error_message();
      started.arrive_and_wait();
      const absl::Time start = absl::Now();
      int64_t bytes = 0;
      while (absl::Now() - start < readers.duration) {
        CHECK(stream->Read(&event)) << stream->Finish().error_message();
        bytes += static_cast<int64_t>(event.activations().data().size());
        const absl::Time due =
            start +
            absl::Seconds(static_cast<double>(bytes) /
                          static_cast<double>(readers.bytes_per_second));
        absl::SleepFor(std::min(due, start + readers.duration) - absl::Now());
      }
      total += bytes;
      context.TryCancel();
    });
  }
  started.wait();
  std::cout << "{\"event\":\"reading\"}" << std::endl;
  threads.clear();
  return total;
}

}  // namespace headrace
