#include "lower/group_stages.h"

#include <algorithm>
#include <map>

namespace antegrad::lower {
namespace {

class Stages {
 public:
  explicit Stages(const CodeBuilder& code) : code_(code), needed_(code.code().size(), false) {
    for (size_t id = needed_.size(); id-- > 0;) {
      const Instruction& instruction = code_.code()[id];
      if (instruction.op == Op::store) needed_[id] = true;
      if (!needed_[id]) continue;
      for (const Id operand : instruction.operands) needed_[operand] = true;
    }
    for (const Instruction& instruction : code.code()) {
      depends_.push_back(
          instruction.op == Op::result ||
          std::ranges::any_of(instruction.operands, [&](Id operand) { return depends_[operand]; }));
    }
  }

  StagedCode elements() {
    begin(StageKind::each);
    for (Id id = 0; id < size(); ++id) {
      if (needed_[id]) take(id);
    }
    end();
    return std::move(made_);
  }

  StagedCode rows(const std::vector<bool>& of_row, bool columns) {
    columns_ = columns;
    // A fold stands behind the folds that it reads.
    std::vector<Id> folds;
    for (Id id = 0; id < size(); ++id) {
      const auto same = [&](Id fold) {
        return at(fold).index == at(id).index && at(fold).operands == at(id).operands;
      };
      if (needed_[id] && at(id).op == Op::result && std::ranges::none_of(folds, same)) {
        folds.push_back(id);
      }
    }
    for (Id id = 0; id < size(); ++id) {
      if (at(id).op == Op::store) (of_row[at(id).index] ? row_stores_ : stores_).push_back(id);
    }
    for (const Id id : folds) fold(id, id == folds.back());
    stage_of(StageKind::row, row_stores_);
    stage_of(StageKind::each, stores_);
    return std::move(made_);
  }

 private:
  Id size() const { return static_cast<Id>(needed_.size()); }
  const Instruction& at(Id id) const { return code_.at(id); }

  void begin(StageKind kind) {
    taken_.clear();
    const auto at = static_cast<Id>(made_.code.size());
    made_.stages.push_back({kind, at, at, {}});
  }
  /// A stage without code is none.
  void end() {
    made_.stages.back().end = static_cast<Id>(made_.code.size());
    if (made_.stages.back().begin == made_.stages.back().end) made_.stages.pop_back();
  }

  /// The value in the present stage, with what it is computed from.
  Id take(Id id) {
    if (const auto kept = results_.find(id); kept != results_.end()) return kept->second;
    if (const auto found = taken_.find(id); found != taken_.end()) return found->second;
    Instruction copy = at(id);
    for (Id& operand : copy.operands) operand = take(operand);
    return taken_[id] = add(std::move(copy));
  }
  Id add(Instruction instruction) {
    made_.code.push_back(std::move(instruction));
    return static_cast<Id>(made_.code.size()) - 1;
  }

  void stage_of(StageKind kind, const std::vector<Id>& stores) {
    begin(kind);
    for (const Id id : stores) take(id);
    end();
  }

  void fold(Id id, bool last) {
    const Instruction result = at(id);
    begin(StageKind::fold);
    Fold fold = code_.folds()[result.index];
    fold.value = take(result.operands[0]);
    if (results_.contains(result.operands[0])) {  // a value of the stage has to be yielded
      fold.value = add({Op::bitcast, result.type, {fold.value}, 0, -1});
    }
    made_.stages.back().fold = fold;
    if (last) store_here();
    for (uint64_t i = 0; i < (fold.order == Order::moments ? 2 : 1); ++i) {
      const Id own = add({Op::result, result.type, {}, 0, -1});
      Instruction wanted = result;
      wanted.bits = i;
      for (Id other = 0; other < size(); ++other) {
        if (at(other) == wanted) results_[other] = own;
      }
    }
    end();
  }

  /// Stores all elements in the present stage if it computes them anyway but for a conversion.
  /// Columns are not read again for what does not depend on their sums. Nothing may read elements
  /// after that, since what is written may lie where something was read.
  void store_here() {
    const auto is_here = [&](Id store) {
      const Id value = at(store).operands[0];
      if (taken_.contains(value) || (columns_ && !depends_[value])) return true;
      return at(value).op == Op::cast && taken_.contains(at(value).operands[0]);
    };
    if (!std::ranges::all_of(stores_, is_here)) return;
    for (const Id store : stores_) take(store);
    stores_.clear();
  }

  const CodeBuilder& code_;
  bool columns_ = false;
  std::vector<bool> needed_;
  std::vector<bool> depends_;   // on the result of a fold
  std::vector<Id> row_stores_;  // of what has one element a row
  std::vector<Id> stores_;      // of the others
  StagedCode made_;
  std::map<Id, Id> taken_;    // of the present stage
  std::map<Id, Id> results_;  // of folds
};

}  // namespace

StagedCode stage_of_elements(const CodeBuilder& code) { return Stages(code).elements(); }

StagedCode stages_of_rows(const CodeBuilder& code, const std::vector<bool>& of_row, bool columns) {
  return Stages(code).rows(of_row, columns);
}

}  // namespace antegrad::lower
