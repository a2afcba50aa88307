#include "runtime/recorded_program.h"

#include <ATen/ops/empty.h>
#include <antegrad/error.h>

#include <algorithm>
#include <array>
#include <utility>

#include "runtime/copy_together.h"

namespace antegrad::runtime {
namespace {

using torch_compat::TensorMetadata;

// Copies keep the place of what they copy in stretches of so many bytes: kernels choose widths of
// loads, and with them the order of sums, by addresses.
constexpr uint64_t kAlignment = 256;

uint64_t address_of(const at::Tensor& tensor) {
  return tensor.numel() == 0 ? 0 : reinterpret_cast<uint64_t>(tensor.const_data_ptr());
}

// A tensor over memory that is there already, as at::empty_strided() would make it.
at::Tensor over(c10::Storage storage, const TensorMetadata& meta, int64_t offset) {
  const auto key = meta.device.is_cuda() ? c10::DispatchKey::CUDA : c10::DispatchKey::CPU;
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(key), c10::scalarTypeToTypeMeta(meta.dtype));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(meta.sizes, meta.strides, offset);
  return tensor;
}

// The widest integers as which bytes can be copied whose number, places and addresses, in `bits`,
// are multiples of their size.
at::ScalarType widest_integers(uint64_t bits) {
  static constexpr std::array kTypes = {at::kLong, at::kInt, at::kShort, at::kByte};
  return *std::ranges::find_if(
      kTypes, [&](at::ScalarType type) { return bits % c10::elementSize(type) == 0; });
}

at::Tensor as_integers(const c10::Storage& storage, at::ScalarType type, int64_t begin,
                       int64_t bytes) {
  const auto size = static_cast<int64_t>(c10::elementSize(type));
  return over(storage,
              {.dtype = type, .device = storage.device(), .sizes = {bytes / size}, .strides = {1}},
              begin / size);
}

// Places in a storage that are to be copied: where they begin, and the address.
uint64_t bits_of(const c10::Storage& storage, int64_t begin) {
  return static_cast<uint64_t>(begin) | reinterpret_cast<uint64_t>(storage.data());
}

c10::Storage new_memory(int64_t bytes, c10::Device device) {
  return at::empty({bytes}, at::device(device).dtype(at::kByte)).storage();
}

// Of the same size and from the same allocator, which is faster than an operator.
c10::Storage memory_like(const c10::Storage& storage) {
  auto* const allocator = storage.allocator();
  AG_CHECK(allocator != nullptr, "memory of an allocator");
  return {c10::Storage::use_byte_size_t(), storage.nbytes(), allocator->allocate(storage.nbytes()),
          allocator, /*resizable=*/true};
}

bool same_storage(const at::Tensor& a, const at::Tensor& b) {
  return a.defined() && b.defined() && a.is_alias_of(b);
}

void require_plain(const at::Tensor& tensor) {
  const bool plain = tensor.layout() == at::kStrided && !tensor.is_conj() && !tensor.is_neg() &&
                     !tensor.is_quantized();
  TORCH_CHECK(plain, "a result is no plain tensor");
}

}  // namespace

int64_t bytes_within(const at::Tensor& tensor) {
  if (tensor.numel() == 0) return 0;
  int64_t last = 0;
  for (int64_t i = 0; i < tensor.dim(); ++i) last += (tensor.size(i) - 1) * tensor.stride(i);
  return (last + 1) * static_cast<int64_t>(tensor.element_size());
}

// What stands for an input while nodes are recorded.
at::Tensor RecordedProgram::place(const at::Tensor& input, const RecordingRules& rules,
                                  size_t index) {
  auto& made = inputs_[index];
  if (!input.defined() || input.device() != rules.device) return input;
  made.checked = true;
  made.copied = rules.copied[index];
  made.address = address_of(input);
  made.bytes = bytes_within(input);
  made.meta = TensorMetadata::of(input);
  if (!made.copied || made.bytes == 0) return input;
  made.memory = at::empty({made.bytes + static_cast<int64_t>(kAlignment)},
                          at::device(rules.device).dtype(at::kByte));
  const uint64_t base = address_of(made.memory);
  made.begin = static_cast<int64_t>((made.address - base) % kAlignment);
  // A storage in which the copy has the offset of the input. It begins before memory that is ours,
  // which nobody reads: no operator of the program goes by places in storages.
  const int64_t before = made.meta.offset * static_cast<int64_t>(input.element_size());
  auto* const data = static_cast<char*>(made.memory.mutable_data_ptr()) + made.begin - before;
  c10::Storage storage(c10::Storage::use_byte_size_t(), static_cast<size_t>(before + made.bytes),
                       c10::DataPtr(data, rules.device), nullptr, /*resizable=*/false);
  return over(std::move(storage), made.meta, made.meta.offset);
}

RecordedProgram::RecordedProgram(const std::vector<at::Tensor>& inputs, const RecordingRules& rules,
                                 const Nodes& nodes)
    : inputs_(inputs.size()) {
  std::vector<at::Tensor> placed;
  for (size_t i = 0; i < inputs.size(); ++i) placed.push_back(place(inputs[i], rules, i));
  std::vector<at::Tensor> outputs;
  graph_ = rules.record(rules.device, [&] { outputs = nodes(placed); });
  for (size_t i = 0; i < outputs.size(); ++i) {
    outputs_.push_back(output_of(outputs, i, placed, rules.device));
    // All outputs of a block have to be such that stay.
    auto& output = outputs_.back();
    if (output.kind == Output::Kind::of_block && !rules.stays[i])
      blocks_[output.index].stays = false;
  }
  finish_blocks(placed);
}

// The part of a block that is copied from what was recorded.
void RecordedProgram::copy_from(Block& block, const c10::Storage& recorded, int64_t first,
                                int64_t begin, int64_t bytes) {
  block.stays = false;
  block.bytes = bytes;
  block.begin = begin;
  if (bytes == 0) return;
  block.type = widest_integers(bits_of(recorded, first) | static_cast<uint64_t>(begin) |
                               static_cast<uint64_t>(bytes));
  block.source = as_integers(recorded, block.type, first, bytes);
}

void RecordedProgram::finish_blocks(const std::vector<at::Tensor>& inputs) {
  for (auto& block : blocks_) {
    const auto size = static_cast<int64_t>(block.storage.nbytes());
    const auto copy = std::ranges::find_if(inputs, [&](const at::Tensor& input) {
      return inputs_[&input - inputs.data()].memory.defined() &&
             input.storage().is_alias_of(block.storage);
    });
    if (copy != inputs.end()) {  // the output is in it, and its storage is no allocation
      const auto& input = inputs_[copy - inputs.begin()];
      block.storage = new_memory(size, block.storage.device());
      copy_from(block, input.memory.storage(), input.begin, size - input.bytes, input.bytes);
    } else if (!block.stays) {
      copy_from(block, block.storage, 0, 0, size);
    }
  }
}

RecordedProgram::Output RecordedProgram::output_of(const std::vector<at::Tensor>& outputs,
                                                   size_t index,
                                                   const std::vector<at::Tensor>& inputs,
                                                   c10::Device device) {
  const auto& output = outputs[index];
  using Kind = Output::Kind;
  const bool on_device = output.defined() && output.device() == device;
  if (!on_device) return {.kind = Kind::as_recorded, .tensor = output};
  require_plain(output);
  for (size_t i = 0; i < index; ++i) {
    if (outputs[i].is_same(output)) return {.kind = Kind::same, .index = static_cast<int32_t>(i)};
  }
  auto meta = TensorMetadata::of(output);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs_[i].checked || inputs_[i].memory.defined()) continue;
    if (!same_storage(inputs[i], output)) continue;
    const auto input_offset =
        inputs[i].storage_offset() * static_cast<int64_t>(inputs[i].element_size());
    const auto shift = meta.offset * static_cast<int64_t>(output.element_size()) - input_offset;
    return {.kind = Kind::of_input,
            .index = static_cast<int32_t>(i),
            .meta = std::move(meta),
            .shift = shift};
  }
  return {.kind = Kind::of_block, .index = block_of(output), .meta = std::move(meta)};
}

int32_t RecordedProgram::block_of(const at::Tensor& output) {
  const auto& storage = output.storage();
  const auto known = std::ranges::find_if(
      blocks_, [&](const Block& block) { return block.storage.is_alias_of(storage); });
  const auto place = known - blocks_.begin();
  if (known == blocks_.end()) {
    blocks_.push_back({.storage = storage});
  }
  return static_cast<int32_t>(place);
}

bool RecordedProgram::fits(const std::vector<at::Tensor>& inputs) const {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto& known = inputs_[i];
    if (!known.checked) continue;
    const auto& input = inputs[i];
    if (!input.defined() || input.sizes() != at::IntArrayRef(known.meta.sizes) ||
        input.strides() != at::IntArrayRef(known.meta.strides) ||
        input.scalar_type() != known.meta.dtype) {
      return false;
    }
    if (!known.copied && input.storage_offset() != known.meta.offset) return false;
    const uint64_t moved = address_of(input) ^ known.address;
    if ((known.copied ? moved % kAlignment : moved) != 0) return false;
  }
  return true;
}

bool RecordedProgram::is_held() const {
  return std::ranges::any_of(
      blocks_, [](const Block& block) { return block.stays && block.storage.use_count() > 1; });
}

void RecordedProgram::copy_inputs(const std::vector<at::Tensor>& inputs) const {
  std::vector<at::Tensor> targets, sources;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto& known = inputs_[i];
    if (!known.memory.defined()) continue;
    const auto& from = inputs[i].storage();
    const auto& to = known.memory.storage();
    const auto begin = inputs[i].storage_offset() * static_cast<int64_t>(inputs[i].element_size());
    const auto type = widest_integers(bits_of(from, begin) | bits_of(to, known.begin) |
                                      static_cast<uint64_t>(known.bytes));
    targets.push_back(as_integers(to, type, known.begin, known.bytes));
    sources.push_back(as_integers(from, type, begin, known.bytes));
  }
  copy_together(targets, sources);
}

std::vector<at::Tensor> RecordedProgram::run(const std::vector<at::Tensor>& inputs) const {
  // Before anything runs: there may be no memory.
  std::vector<c10::Storage> storages;
  storages.reserve(blocks_.size());
  std::vector<at::Tensor> targets, sources;
  for (const auto& block : blocks_) {
    storages.push_back(block.stays ? block.storage : memory_like(block.storage));
    if (!block.source.defined()) continue;
    targets.push_back(as_integers(storages.back(), block.type, block.begin, block.bytes));
    sources.push_back(block.source);
  }
  copy_inputs(inputs);
  graph_->replay();
  copy_together(targets, sources);
  std::vector<at::Tensor> outputs;
  outputs.reserve(outputs_.size());
  for (const auto& output : outputs_) {
    switch (output.kind) {
      case Output::Kind::as_recorded: outputs.push_back(output.tensor); break;
      case Output::Kind::same: outputs.push_back(outputs[output.index]); break;
      case Output::Kind::of_block:
        outputs.push_back(over(storages[output.index], output.meta, output.meta.offset));
        break;
      case Output::Kind::of_input: {
        const auto& input = inputs[output.index];
        const auto begin =
            input.storage_offset() * static_cast<int64_t>(input.element_size()) + output.shift;
        const auto size = static_cast<int64_t>(c10::elementSize(output.meta.dtype));
        outputs.push_back(over(input.storage(), output.meta, begin / size));
        break;
      }
    }
  }
  return outputs;
}

int64_t RecordedProgram::bytes() const {
  int64_t bytes = graph_->bytes();
  for (const auto& input : inputs_) bytes += input.bytes * (input.memory.defined() ? 1 : 0);
  return bytes;
}

}  // namespace antegrad::runtime
