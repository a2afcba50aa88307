#include "lower/group_assembly.h"

#include <algorithm>
#include <bit>
#include <set>

#include <fmt/format.h>

#include "lower/group_stages.h"
#include "lower/text.h"
#include "lower/verify.h"

namespace antegrad::lower {
namespace {

class Assembly {
 public:
  Assembly(const CodeBuilder& code, const std::vector<MemoryUse>& memory, const GroupLayout& layout,
           const GroupSpace& space)
      : code_(code), memory_(memory), layout_(layout), space_(space), order_(space.order) {}

  GroupKernel assemble() {
    Kernel& kernel = made_.kernel;
    take_code();
    find_dimensions();
    kernel.space = space_.kind;
    for (size_t d = 0; d < dimensions_.size(); ++d) {
      int64_t size = 1;
      for (size_t i = begin_of(d); i < dimensions_[d]; ++i) size *= layout_.size(order_[i]);
      kernel.sizes.push_back(argument(fmt::format("n{}", d), size));
    }
    for (size_t i = 0; i < used_.size(); ++i) add_buffer(memory_[used_[i]]);
    add_numbers();
    for (Instruction& instruction : kernel.code) {
      if (instruction.op == Op::path) instruction.index = dimensions_of_row(instruction.index);
      if (instruction.op == Op::index) instruction.index = dimension_of(instruction.index);
    }
    kernel.name = "group";
    made_.key = hash_of_bytes(to_text(kernel));
    kernel.name = "group_" + to_string(made_.key);
    verify(kernel);
    return std::move(made_);
  }

 private:
  /// A list without repetition, and the place of an item in it.
  static int32_t place_in(std::vector<int32_t>& list, int32_t item) {
    const auto found = std::ranges::find(list, item);
    if (found != list.end()) return static_cast<int32_t>(found - list.begin());
    list.push_back(item);
    return static_cast<int32_t>(list.size()) - 1;
  }

  bool has_row_stride(const MemoryUse& use) const {
    for (size_t i = order_.size() - space_.row_atoms; i < order_.size(); ++i) {
      if (stride(use, i) != 0) return true;
    }
    return false;
  }

  void take_code() {
    std::vector<bool> of_row;
    for (const MemoryUse& use : memory_) of_row.push_back(!has_row_stride(use));
    const bool columns = space_.kind == Space::columns;
    StagedCode staged = space_.kind == Space::elements ? stage_of_elements(code_)
                                                       : stages_of_rows(code_, of_row, columns);
    made_.kernel.stages = std::move(staged.stages);
    std::vector<int32_t> functions;
    for (Instruction& kept : staged.code) {
      switch (kept.op) {
        case Op::load:
        case Op::gather:
        case Op::store: kept.index = place_in(used_, kept.index); break;
        case Op::call: kept.index = place_in(functions, kept.index); break;
        case Op::number: kept.index = place_in(numbers_, kept.index); break;
        default: break;
      }
      made_.kernel.code.push_back(std::move(kept));
    }
    for (const int32_t function : functions) {
      made_.kernel.functions.push_back(code_.functions()[function]);
    }
  }

  int64_t stride(const MemoryUse& use, size_t i) const {
    const auto found = use.strides.find(order_[i]);
    return found == use.strides.end() ? 0 : found->second;
  }

  /// Merges atoms where all buffers allow it, no row ends, and nobody asks for an index.
  void find_dimensions() {
    std::set<size_t> cuts;
    for (const Instruction& instruction : made_.kernel.code) {
      if (instruction.op == Op::path) {
        cuts.insert(order_.size() - static_cast<size_t>(instruction.index));
      } else if (instruction.op == Op::index) {
        cuts.insert(
            {static_cast<size_t>(instruction.index), static_cast<size_t>(instruction.index) + 1});
      }
    }
    if (space_.kind != Space::elements) cuts.insert(order_.size() - space_.row_atoms);
    if (space_.segment_atoms > 0) cuts.insert(order_.size() - space_.segment_atoms);
    for (size_t i = 1; i < order_.size(); ++i) {
      const bool merges = std::ranges::all_of(used_, [&](int32_t use) {
        const MemoryUse& memory = memory_[use];
        return stride(memory, i - 1) == stride(memory, i) * layout_.size(order_[i]);
      });
      if (!merges || cuts.contains(i)) dimensions_.push_back(i);
    }
    dimensions_.push_back(order_.size());
    if (space_.kind == Space::elements) return;
    if (space_.segment_atoms > 0) return find_segments();
    if (dimensions_of_row(static_cast<int32_t>(space_.row_atoms)) != 1) {
      throw NoKernel{space_.node, "the dimensions of a row lie apart in memory"};
    }
    if (space_.kind == Space::columns && dimensions_.size() != 2) {
      throw NoKernel{space_.node, "the dimensions of columns lie apart in memory"};
    }
  }
  /// A channel has one segment in each image.
  void find_segments() {
    const size_t images = space_.row_atoms == space_.segment_atoms ? 0 : 1;
    made_.kernel.inner = static_cast<int32_t>(1 + images);
    if (dimensions_of_row(static_cast<int32_t>(space_.segment_atoms)) != 1 ||
        dimensions_of_row(static_cast<int32_t>(space_.row_atoms)) != made_.kernel.inner ||
        dimensions_.size() != 2 + images) {
      throw NoKernel{space_.node, "the dimensions of channels lie apart in memory"};
    }
  }
  size_t begin_of(size_t dimension) const {
    return dimension == 0 ? 0 : dimensions_[dimension - 1];
  }
  int32_t dimensions_of_row(int32_t atoms) const {
    const auto begin = order_.size() - static_cast<size_t>(atoms);
    return static_cast<int32_t>(
        std::ranges::count_if(dimensions_, [&](size_t end) { return end > begin; }));
  }

  int32_t dimension_of(int32_t atom) const {
    const auto end = static_cast<size_t>(atom) + 1;
    return static_cast<int32_t>(std::ranges::find(dimensions_, end) - dimensions_.begin());
  }

  Extent argument(const std::string& name, int64_t value) {
    made_.kernel.numbers.push_back({name, DType::i64});
    made_.numbers.push_back(value);
    return {static_cast<int32_t>(made_.numbers.size()) - 1, 0};
  }

  void add_buffer(const MemoryUse& use) {
    const auto same = [&](const Buffer& buffer) { return buffer.written == use.written; };
    const auto count = std::ranges::count_if(made_.kernel.buffers, same);
    Buffer buffer{fmt::format("{}{}", use.written ? "y" : "x", count),
                  use.type,
                  !use.written || use.sums != 0,
                  use.written,
                  {},
                  {},
                  {},
                  {}};
    for (size_t d = 0; d < dimensions_.size(); ++d) {
      // A space without atoms has one element; any stride leads to it.
      const int64_t value = order_.empty() ? 1 : stride(use, dimensions_[d] - 1);
      buffer.strides.push_back(value == 0 || value == 1
                                   ? Extent{-1, value}
                                   : argument(fmt::format("{}_{}", buffer.name, d), value));
    }
    if (use.offset != 0) buffer.offset = argument(buffer.name + "_at", use.offset);
    if (use.sums != 0) buffer.thread = argument(buffer.name + "_sums", use.sums);
    if (use.gather == 1) buffer.gather = {-1, 1};
    if (use.gather > 1) buffer.gather = argument(buffer.name + "_step", use.gather);
    made_.kernel.buffers.push_back(std::move(buffer));
    made_.buffers.push_back({use.value, use.written, use.sums != 0});
  }

  void add_numbers() {
    const auto first = static_cast<int32_t>(made_.kernel.numbers.size());
    for (size_t i = 0; i < numbers_.size(); ++i) {
      const DType type = code_.number_types()[numbers_[i]];
      const double value = code_.number_values()[numbers_[i]];
      made_.kernel.numbers.push_back({fmt::format("s{}", i), type});
      made_.numbers.push_back(type == DType::i64 ? static_cast<int64_t>(value)
                                                 : std::bit_cast<int64_t>(value));
    }
    for (Instruction& instruction : made_.kernel.code) {
      if (instruction.op == Op::number) instruction.index += first;
    }
  }

  const CodeBuilder& code_;
  const std::vector<MemoryUse>& memory_;
  const GroupLayout& layout_;
  const GroupSpace& space_;
  const Atoms& order_;
  GroupKernel made_;
  std::vector<int32_t> used_;       // of memory_
  std::vector<int32_t> numbers_;    // of CodeBuilder::number_values()
  std::vector<size_t> dimensions_;  // where each ends in order_
};

}  // namespace

int32_t place_of(std::vector<MemoryUse>& memory, MemoryUse use) {
  std::erase_if(use.strides, [](const auto& entry) { return entry.second == 0; });
  auto found = std::ranges::find(memory, use);
  if (found == memory.end()) found = memory.insert(memory.end(), std::move(use));
  return static_cast<int32_t>(found - memory.begin());
}

GroupKernel assemble_kernel(const CodeBuilder& code, const std::vector<MemoryUse>& memory,
                            const GroupLayout& layout, const GroupSpace& space) {
  return Assembly(code, memory, layout, space).assemble();
}

}  // namespace antegrad::lower
