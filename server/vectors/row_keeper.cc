#include "server/vectors/row_keeper.h"

#include <array>
#include <span>

namespace headrace {

void RowKeeper::Add(const CapturedRow& row) {
  Block& block = blocks_[{row.hook, row.layer}];
  block.rows.hook = row.hook;
  block.rows.layer = row.layer;
  block.rows.width = static_cast<int64_t>(row.values.size());
  block.rows.positions.push_back(row.position);
  block.rows.values.insert(block.rows.values.end(), row.values.begin(),
                           row.values.end());
  block.hash.AddValues(std::span(&row.position, 1));
  block.hash.AddValues(row.values);
}

KeptReceipt RowKeeper::Finish() {
  ContentHash hash;
  hash.Add("headrace rows 1\n");
  KeptReceipt receipt;
  int64_t bytes = kEntryBytes;
  StoredRows stored;
  for (auto& [key, block] : blocks_) {
    // The protocol's numbers of hooks are the engine's plus one.
    const std::array<int64_t, 3> header = {static_cast<int64_t>(key.first) + 1,
                                           key.second, block.rows.width};
    hash.AddValues(std::span<const int64_t>(header));
    hash.Add(block.hash.Finish());
    const auto rows = static_cast<int64_t>(block.rows.positions.size());
    receipt.rows += rows;
    bytes += rows * KeptRowBytes(block.rows.width);
    block.rows.positions.shrink_to_fit();
    block.rows.values.shrink_to_fit();
    stored.blocks.push_back(std::move(block.rows));
  }
  bytes_.ShrinkTo(bytes);
  receipt.bytes = bytes;
  stored.bytes = std::move(bytes_);
  receipt.sha256 = hash.Finish();
  const absl::Time expires =
      store_->Put(receipt.sha256, std::move(stored), time_to_live_);
  receipt.time_to_live = expires - store_->now();
  return receipt;
}

}  // namespace headrace
