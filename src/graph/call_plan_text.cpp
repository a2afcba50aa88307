// Each entry is one line: its kind, then its fields in the order of the tables below, without
// fields that have their default. A field is `name=value`; a flag is its name alone.

#include <array>
#include <string>
#include <string_view>
#include <tuple>

#include <fmt/format.h>

#include "graph/call_plan.h"
#include "graph/text_cursor.h"
#include "graph/text_words.h"

namespace antegrad {
namespace {

using text::from_word;
using text::TextCursor;
using text::word;

constexpr std::string_view kHeader = "call_plan";
constexpr std::array<std::string_view, 5> kOwners = {"program", "held", "argument", "result",
                                                     "written"};
constexpr std::array<std::string_view, 7> kForms = {
    "input", "input_copy", "written_input", "handed_out", "raw", "generator_state", "number"};

const auto& words_of(Owner) { return kOwners; }
const auto& words_of(SavedSlot::Form) { return kForms; }
const auto& words_of(OwnView) { return text::kOwnViews; }
const auto& words_of(OutputAlias::Kind) { return text::kAliasKinds; }

std::string written(int32_t value) { return std::to_string(value); }
std::string written(ValueId value) { return to_string(value); }
std::string written(const IntExpr& value) { return to_string(value); }
template <class Enum>
requires std::is_enum_v<Enum> std::string written(Enum value) {
  return std::string(word(words_of(value), value));
}

void read(TextCursor& cursor, int32_t& value) { value = cursor.number<int32_t>("a number"); }
void read(TextCursor& cursor, ValueId& value) {
  value = ValueId::from(cursor.number<int32_t>("a number"));
}
void read(TextCursor& cursor, IntExpr& value) { value = cursor.int_expr(); }
template <class Enum>
requires std::is_enum_v<Enum>
void read(TextCursor& cursor, Enum& value) {
  constexpr std::string_view kExpected = "a word of the call plan";
  const size_t position = cursor.position();
  const std::string_view found = cursor.word(kExpected);
  const auto known = from_word<Enum>(words_of(value), found);
  if (!known) cursor.fail_at(position, kExpected, found);
  value = *known;
}

template <class Record, class Value>
struct Field {
  std::string_view name;
  Value Record::*member;
};
template <class Record, class Value>
Field(const char*, Value Record::*) -> Field<Record, Value>;

struct Alone {  // an entry that is a single number
  int32_t index = -1;
};

// clang-format off
using HandedOut = CallPlan::HandedOut;
using Mutation = CallPlan::Mutation;
using Resize = CallPlan::Resize;
using VersionBump = CallPlan::VersionBump;

constexpr auto fields_of(const HandedOut*) {
  return std::tuple(Field{"undefined", &HandedOut::undefined}, Field{"leaf", &HandedOut::leaf},
                    Field{"differentiable", &HandedOut::differentiable}, Field{"inner", &HandedOut::inner},
                    Field{"version", &HandedOut::version}, Field{"own_view", &HandedOut::own_view});
}
constexpr auto fields_of(const OutputAlias*) {
  return std::tuple(Field{"alias", &OutputAlias::kind}, Field{"of", &OutputAlias::index});
}
constexpr auto fields_of(const Mutation*) {
  return std::tuple(Field{"output", &Mutation::output}, Field{"primal", &Mutation::primal}, Field{"data", &Mutation::data},
                    Field{"metadata", &Mutation::metadata}, Field{"history", &Mutation::history}, Field{"inner", &Mutation::inner},
                    Field{"staged", &Mutation::staged});
}
constexpr auto fields_of(const Resize*) {
  return std::tuple(Field{"primal", &Resize::primal}, Field{"bytes", &Resize::bytes});
}
constexpr auto fields_of(const VersionBump*) {
  return std::tuple(Field{"primal", &VersionBump::primal}, Field{"count", &VersionBump::count});
}
constexpr auto fields_of(const SavedSlot*) {
  return std::tuple(Field{"value", &SavedSlot::value}, Field{"owner", &SavedSlot::owner}, Field{"form", &SavedSlot::form},
                    Field{"index", &SavedSlot::index}, Field{"shares", &SavedSlot::shares},
                    Field{"our_history", &SavedSlot::has_our_history}, Field{"only_views", &SavedSlot::only_views},
                    Field{"bytes", &SavedSlot::bytes});
}
constexpr auto fields_of(const Alone*) { return std::tuple(Field{"index", &Alone::index}); }
// clang-format on

template <class Record>
void write(std::string& out, const Record& record) {
  static const Record kDefault;
  const auto one = [&](const auto& field) {
    const auto& value = record.*field.member;
    if (value == kDefault.*field.member) return;
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(value)>, bool>) {
      out += fmt::format(" {}", field.name);
    } else {
      out += fmt::format(" {}={}", field.name, written(value));
    }
  };
  std::apply([&](const auto&... field) { (one(field), ...); },
             fields_of(static_cast<const Record*>(nullptr)));
}

template <class Record>
void read_record(TextCursor& cursor, Record& record) {
  const auto one = [&](const auto& field) {
    if (!cursor.take(field.name)) return;
    auto& value = record.*field.member;
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(value)>, bool>) {
      value = true;
    } else {
      cursor.expect("=");
      read(cursor, value);
    }
  };
  std::apply([&](const auto&... field) { (one(field), ...); },
             fields_of(static_cast<const Record*>(nullptr)));
}

void write_entry(std::string& out, int32_t index) { write(out, Alone{index}); }
void write_entry(std::string& out, const HandedOut& handed) {
  write(out, handed);
  write(out, handed.alias);
}
template <class Record>
void write_entry(std::string& out, const Record& record) {
  write(out, record);
}

void read_entry(TextCursor& cursor, int32_t& index) {
  Alone alone;
  read_record(cursor, alone);
  index = alone.index;
}
void read_entry(TextCursor& cursor, HandedOut& handed) {
  read_record(cursor, handed);
  read_record(cursor, handed.alias);
}
template <class Record>
void read_entry(TextCursor& cursor, Record& record) {
  read_record(cursor, record);
}

/// The kinds of entries in the order of the text.
constexpr auto kKinds =
    std::tuple(Field{"handed_out", &CallPlan::handed_out}, Field{"mutation", &CallPlan::mutations},
               Field{"resize", &CallPlan::resizes}, Field{"version_bump", &CallPlan::version_bumps},
               Field{"inner_view", &CallPlan::inner_views}, Field{"tangent", &CallPlan::tangents},
               Field{"saved", &CallPlan::saved}, Field{"gradient", &CallPlan::gradients},
               Field{"update", &CallPlan::updates});

}  // namespace

std::string to_text(const CallPlan& plan) {
  std::string out = fmt::format("{} primals {} results {}\n", kHeader, plan.primals, plan.results);
  const auto write_all = [&](const auto& kind) {
    for (const auto& entry : plan.*kind.member) {
      out += kind.name;
      write_entry(out, entry);
      out += '\n';
    }
  };
  std::apply([&](const auto&... kind) { (write_all(kind), ...); }, kKinds);
  return out;
}

CallPlan parse_call_plan(std::string_view text, std::string origin) {
  TextCursor cursor(text, std::move(origin));
  CallPlan plan;
  if (cursor.peek() == '\n') cursor.next_line();
  cursor.expect(kHeader);
  cursor.expect("primals");
  plan.primals = cursor.number<int32_t>("the number of primals");
  cursor.expect("results");
  plan.results = cursor.number<int32_t>("the number of results");
  for (cursor.next_line(); !cursor.at_end(); cursor.next_line()) {
    const auto read_one = [&](const auto& kind) {
      if (!cursor.take(kind.name)) return false;
      read_entry(cursor, (plan.*kind.member).emplace_back());
      return true;
    };
    const bool known =
        std::apply([&](const auto&... kind) { return (read_one(kind) || ...); }, kKinds);
    if (!known) cursor.fail("an entry of a call plan");
  }
  return plan;
}

}  // namespace antegrad
