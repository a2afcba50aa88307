#include "support/shape_samples.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>
#include <sstream>

namespace antegrad::testing {

namespace {

/// Arguments determined by the schema alone, filled from left to right.
class FromSchema {
 public:
  FromSchema(const c10::FunctionSchema& schema, RandomTensors& random)
      : schema_(schema),
        random_(random),
        shape_(random.shape()),
        dtype_(random.dtype()),
        aligned_(random.chance(0.4)) {}

  Arguments make() {
    for (const c10::Argument& argument : schema_.arguments()) values_.push_back(value(argument));
    return values_;
  }

 private:
  /// An operand that broadcasts with the others; occasionally a number or of another dtype.
  at::Tensor operand() {
    if (random_.chance(0.05)) return random_.wrapped_number();
    const at::ScalarType dtype = random_.chance(0.8) ? dtype_ : random_.dtype();
    const Shape shape = aligned_ ? shape_ : random_.narrowed(shape_);
    if (aligned_ && previous_.defined() && random_.chance(0.5)) {
      return at::empty_like(previous_).fill_(1).to(dtype);
    }
    return previous_ = random_.tensor(shape, dtype);
  }

  int64_t rank() const {
    for (const c10::IValue& value : values_) {
      if (value.isTensor()) return value.toTensor().dim();
    }
    return 0;
  }

  int64_t dim() {
    const int64_t range = std::max<int64_t>(rank(), 1);
    return random_.integer(-range, range - 1);
  }

  std::vector<int64_t> dims() {
    std::vector<int64_t> all(rank());
    std::iota(all.begin(), all.end(), 0);
    std::vector<int64_t> chosen;
    for (const int64_t d : all) {
      if (random_.chance(0.4)) chosen.push_back(random_.chance(0.3) ? d - rank() : d);
    }
    return chosen;
  }

  c10::IValue value(const c10::Argument& argument) {
    const std::string& name = argument.name();
    const std::string type = argument.type()->str();
    const bool optional = type.back() == '?' || type.rfind("Optional", 0) == 0;
    const auto is = [&](const char* what) { return type.rfind(what, 0) == 0; };

    if (is("Tensor") && !is("Tensor[]")) {
      return optional && random_.chance(0.4) ? c10::IValue() : c10::IValue(operand());
    }
    if (name == "dtype" || name == "input_dtype") return dtype(optional);
    if (name == "memory_format") return memory_format();
    if (name == "device") {
      return random_.device().is_cuda() || random_.chance(0.3) ? c10::IValue(random_.device())
                                                               : c10::IValue();
    }
    if (name == "layout" || name == "pin_memory" || name == "generator") return c10::IValue();
    if (name == "reduction") return random_.integer(0, 2);
    if (name == "size") return random_.shape();
    if (name == "dim" || name == "dims" || name == "dim1" || name == "dim2") {
      if (optional && random_.chance(0.2)) return c10::IValue();
      if (type.find("[]") != std::string::npos) return dims();
      return dim();
    }
    if (is("Scalar")) {
      if (argument.default_value() && random_.chance(0.6)) return *argument.default_value();
      if (optional && random_.chance(0.3)) return c10::IValue();
      return c10::IValue(random_.number());
    }
    if (is("bool")) return random_.chance(0.5);
    if (argument.default_value()) return *argument.default_value();
    if (is("float")) return 0.5;
    if (is("str")) return random_.pick<const char*>({"trunc", "floor"});
    TORCH_CHECK(is("int") || is("SymInt"), "no sample for argument ", name, " of ", schema_);
    return random_.integer(0, 3);
  }

  c10::IValue dtype(bool optional) {
    if (optional && random_.chance(0.6)) return c10::IValue();
    return random_.chance(0.5) ? dtype_ : random_.floating();
  }

  c10::IValue memory_format() {
    switch (random_.integer(0, 4)) {
      case 0: return at::MemoryFormat::Contiguous;
      case 1: return at::MemoryFormat::Preserve;
      case 2: return rank() == 4 ? c10::IValue(at::MemoryFormat::ChannelsLast) : c10::IValue();
      default: return c10::IValue();
    }
  }

  const c10::FunctionSchema& schema_;
  RandomTensors& random_;
  Shape shape_;
  at::ScalarType dtype_;
  bool aligned_;  ///< operands of the same shape, often with the same layout
  at::Tensor previous_;
  Arguments values_;
};

void describe(std::ostream& out, const c10::IValue& value) {
  if (value.isTensor()) {
    const at::Tensor& t = value.toTensor();
    if (!t.defined()) {
      out << "undefined";
      return;
    }
    out << t.scalar_type() << t.sizes() << "/" << t.strides();
    if (t.storage_offset() != 0) out << "+" << t.storage_offset();
    if (t.unsafeGetTensorImpl()->is_wrapped_number()) out << " (wrapped number)";
  } else if (value.isList()) {
    out << "{";
    for (const c10::IValue& item : value.toListRef()) {
      describe(out, item);
      out << " ";
    }
    out << "}";
  } else {
    out << value;
  }
}

}  // namespace

namespace {

/// The entry of the tables for the operator; null if there is none.
const ArgumentsFunction* line_of(const c10::FunctionSchema& schema) {
  const std::string name = c10::toString(schema.operator_name());
  for (const ArgumentsTable* table :
       {&general_samples(), &indexing_samples(), &layer_samples(), &image_samples(),
        &loss_samples(), &attention_samples(), &rare_samples()}) {
    const auto it = table->find(name);
    if (it != table->end()) return &it->second;
  }
  return nullptr;
}

}  // namespace

bool has_samples(const c10::FunctionSchema& schema) {
  if (line_of(schema) != nullptr) return true;
  try {
    RandomTensors random(1, at::kCPU);
    FromSchema(schema, random).make();
    return true;
  } catch (const c10::Error&) {
    return false;  // an argument type without a rule
  }
}

Arguments sample_arguments(const c10::FunctionSchema& schema, RandomTensors& random) {
  const auto* line = line_of(schema);
  return line != nullptr ? (*line)(random) : FromSchema(schema, random).make();
}

std::string describe(const Arguments& arguments) {
  std::ostringstream out;
  for (const c10::IValue& value : arguments) {
    describe(out, value);
    out << ", ";
  }
  return out.str();
}

}  // namespace antegrad::testing
