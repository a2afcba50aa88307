#include "readers.h"

#include <cstdio>
#include <cstdlib>
#include <string>

#include <antegrad/config.h>
#include <antegrad/error.h>

#include "cache/bundle.h"
#include "cache/plan_cache.h"
#include "explain/import_json.h"
#include "explain/record.h"
#include "files/private_folder.h"
#include "graph/call_plan.h"
#include "graph/compare.h"
#include "graph/hash.h"
#include "graph/parse.h"
#include "graph/text.h"
#include "graph/verify.h"
#include "options/remote_address.h"
#include "remote/remote_cache.h"

namespace antegrad::testing {
namespace {

void demand(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "readers: %s\n", what);
  std::abort();
}

// Damage is an error of ours.
template <class Read>
void refused_or(const Read& read) {
  try {
    read();
  } catch (const InternalError&) {
    throw;  // "this is a bug"
  } catch (const Error&) {
  }
}

void graph(std::string_view bytes) {
  refused_or([&] {
    const auto parsed = parse_graph(bytes);
    demand(first_difference(parse_graph(to_text(parsed)), parsed).empty(),
           "a graph changes when it is written and read again");
    try {
      verify(parsed);
    } catch (const InternalError&) {  // what it breaks
    }
  });
}

void call_plan(std::string_view bytes) {
  refused_or([&] {
    const auto plan = parse_call_plan(bytes);
    demand(parse_call_plan(to_text(plan)) == plan, "a call plan changes");
  });
}

void record(std::string_view bytes) {
  refused_or([&] {
    const auto parsed = parse_record(bytes);
    demand(to_text(parse_record(to_text(parsed))) == to_text(parsed), "a record changes");
  });
}

// With the sum that its maker would have written.
void bundle(std::string_view bytes) {
  refused_or([&] {
    const auto text = "antegrad bundle 1\n" + std::string(bytes);
    const auto read = bundle_of_text(text + "\nsum " + to_string(hash_of_bytes(text)) + "\n");
    demand(bundle_of_text(bundle_text(read)) == read, "a bundle changes");
  });
}

void whole_bundle(std::string_view bytes) {
  refused_or([&] { bundle_of_text(bytes); });
}

void entry(std::string_view bytes) {
  for (const auto first_words : {kPlanRecord, std::string_view("antegrad kernels 2\n")}) {
    if (const auto parts = parts_of_entry(bytes, first_words)) {
      demand(parts->contents.size() + parts->record.size() <= bytes.size(),
             "an entry is larger than its file");
    }
  }
}

void remote_entry(std::string_view bytes) {
  for (const char* key : {"", "key"}) {
    const auto found = read_remote_entry(bytes, "name", key);
    demand(found.bytes.size() <= bytes.size(), "an entry is larger than what was sent");
    demand(*key == 0 || found.bytes.empty(), "a seal without its key");
  }
}

void address(std::string_view bytes) {
  refused_or([&] { demand(!remote_address(std::string(bytes)).host.empty(), "no host"); });
}

void exported_graph(std::string_view bytes) {
  refused_or([&] { import_json(bytes, "exported"); });
}

void options(std::string_view bytes) {
  refused_or([&] {
    const auto read = options_from_json(bytes);
    demand(to_json(options_from_json(to_json(read))) == to_json(read), "options change");
  });
}

constexpr Reader kReaders[] = {
    {"graph", graph},
    {"call_plan", call_plan},
    {"record", record},
    {"bundle", bundle},
    {"whole_bundle", whole_bundle},
    {"entry", entry},
    {"remote_entry", remote_entry},
    {"address", address},
    {"exported_graph", exported_graph},
    {"options", options},
};

}  // namespace

std::span<const Reader> readers() { return kReaders; }

}  // namespace antegrad::testing
