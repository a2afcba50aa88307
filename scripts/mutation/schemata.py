"""One text that holds all mutants of a file: `antegrad_mutants::on(17)` chooses at run time.

A change nested in another one is held by the unchanged branch of the outer one only; at most one is on.
"""

import hashlib

HEADER = "antegrad_mutants.h"

HEADER_TEXT = """\
// Made by scripts/mutate: which seeded bug is on.
//   ANTEGRAD_MUTANT=n             the n-th; none where it is not set
//   ANTEGRAD_MUTANTS_REACHED=FILE the process appends to FILE which places it came by
#pragma once

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace antegrad_mutants {

inline constexpr int kCount = @COUNT@;

struct State {
  int active = 0;
  const char* record = nullptr;
  std::atomic<bool> reached[kCount + 1] = {};
};

inline State& state() {
  static State* const instance = [] {
    auto* made = new State();
    if (const char* number = std::getenv("ANTEGRAD_MUTANT")) made->active = std::atoi(number);
    made->record = std::getenv("ANTEGRAD_MUTANTS_REACHED");
    if (made->record != nullptr) {
      std::atexit([] {
        const auto& s = state();
        std::FILE* file = std::fopen(s.record, "a");
        if (file == nullptr) return;
        for (int i = 1; i <= kCount; ++i) {
          if (s.reached[i].load(std::memory_order_relaxed)) std::fprintf(file, "%d\\n", i);
        }
        std::fclose(file);
      });
    }
    return made;
  }();
  return *instance;
}

inline bool on(int number) {
  auto& s = state();
  if (s.record != nullptr) s.reached[number].store(true, std::memory_order_relaxed);
  return s.active == number;
}

}  // namespace antegrad_mutants
"""

# Of changes to the same text, the outer ones come first.
DEPTH = {"dropped statement": 0, "negated condition": 1, "changed constant": 2, "swapped argument": 3}


def header(count):
    return HEADER_TEXT.replace("@COUNT@", str(count))


def parts_of(candidate, number):
    """What stands before and after the unchanged text."""
    on = f"antegrad_mutants::on({number})"
    if candidate.kind == "dropped statement":
        return f"{{ if (!{on}) ", " }"
    if candidate.kind == "negated condition":
        return f"({on} != static_cast<bool>(", "))"
    if candidate.kind == "changed constant":
        return ("(", f" != {on})") if candidate.text in ("true", "false") else ("(", f" + {on})")
    return f"({on} ? {' '.join(candidate.changed.split())} : ", ")"


def render(source, chosen, numbers):
    """The text that holds these candidates, and where in it each one lies: [(start, end, candidate)].

    Lines keep their numbers: what is inserted holds no line break.
    """
    out, spans = [], []
    length = 0

    def put(data):
        nonlocal length
        out.append(data)
        length += len(data)

    def put_range(position, end, inner):
        while inner:
            candidate, *rest = inner
            count = sum(1 for c in rest if c.start < candidate.end)
            nested, inner = rest[:count], rest[count:]
            before, after = parts_of(candidate, numbers[candidate.id])
            put(source[position:candidate.start])
            start = length
            put(before.encode())
            put_range(candidate.start, candidate.end, nested)
            put(after.encode())
            spans.append((start, length, candidate))
            position = candidate.end
        put(source[position:end])

    put(f'#include "{HEADER}"\n#line 1\n'.encode())
    put_range(0, len(source), sorted(chosen, key=lambda c: (c.start, -c.end, DEPTH[c.kind], c.id)))
    return b"".join(out), spans


def digest(source, candidates, flags):
    """Of a file's text, of what would be changed in it, and of the flags that it is compiled with."""
    state = hashlib.sha256(source + flags.encode())
    for candidate in candidates:
        state.update("\0".join((candidate.id, *parts_of(candidate, 0))).encode())
    return state.hexdigest()
