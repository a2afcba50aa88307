#include "kernels/build.h"

#include <atomic>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cost/rates_file.h"
#include "files/private_folder.h"
#include "graph/hash.h"
#include "kernels/in_parallel.h"
#include "kernels/stub.h"

namespace antegrad::kernels {
namespace {

/// All of the compiler's arguments. Stubs have short names: their own could hold anything.
std::vector<std::string> arguments_for(const Source& source) {
  auto arguments = flags_of(source.capability, source.numerics);
  arguments.insert(arguments.end(), {"-o", kLibraryFile, kSourceFile, "-lgcc"});
  if (!source.needed.empty()) arguments.emplace_back("-Wl,--no-as-needed");
  for (size_t i = 0; i < source.needed.size(); ++i) {
    arguments.push_back(fmt::format("./stub{}.so", i));
  }
  return arguments;
}

/// The code of a library, whoever compiled it for which machine: the hash of what it was made from.
std::string code_of(const Source& source, const std::vector<std::string>& arguments) {
  return to_string(hash_of_bytes(fmt::format("{}\n{}\n{}", source.text, fmt::join(arguments, " "),
                                             fmt::join(source.needed, " "))));
}

MadeFrom made_from(const Source& source, const Compiler& compiler,
                   const std::vector<std::string>& arguments) {
  return {.text = source.text,
          .compiler = fmt::format("{}: {}", fmt::join(compiler.command, " "), compiler.version),
          .arguments = fmt::format("{}", fmt::join(arguments, " ")),
          .needed = fmt::format("{}", fmt::join(source.needed, " ")),
          .made_for = source.made_for};
}

using OpenedFolder = antegrad::Outcome<PrivateFolder, FolderFailure>;

class Builder {
 public:
  Builder(const Compiler& compiler, const Settings& settings, const OpenedFolder& folder)
      : compiler_(compiler), settings_(settings), folder_(folder) {}

  Outcome<Built> build(const Source& source) {
    if (const auto line = including_line(source.text)) {
      return Failure{Reason::source_refused, "it includes a file: " + *line};
    }
    if (const auto missing = missing_features(source.capability); !missing.empty()) {
      return Failure{Reason::not_loadable,
                     fmt::format("this CPU lacks {}", fmt::join(missing, ", "))};
    }
    const auto arguments = arguments_for(source);
    const std::string record = record_of(made_from(source, compiler_, arguments));
    const Hash128 key = hash_of_bytes(record);
    const std::string code = code_of(source, arguments);
    const auto slot = slot_of(key, code);
    const std::lock_guard guard(slot->lock);
    Built built;
    built.library = std::static_pointer_cast<const Library>(slot->held.lock());
    built.from = Built::From::process;
    if (!built.library) {
      const auto bundled = bundled_code(code, &compiler_);
      auto failure = bundled.bytes != nullptr
                         ? take(*bundled.bytes, source, built)
                         : make(source, arguments, to_string(key), record, built);
      if (failure) return *failure;
      // Where that does not go, the next process takes it from where this one did.
      if (bundled.keeps && folder_ &&
          folder_->keep_bytes(*bundled.bytes, to_string(key), record).empty()) {
        added_ = true;
      }
      slot->held = built.library;
    }
    for (const std::string& name : source.functions) {
      built.functions.push_back(built.library->function(name));
      if (built.functions.back() == nullptr) {
        return Failure{Reason::not_loadable, "no function " + name};
      }
    }
    return built;
  }

  /// Whether the folder has grown.
  bool added() const { return added_; }

 private:
  static std::optional<Failure> take(const std::string& bundled, const Source& source,
                                     Built& built) {
    built.from = Built::From::bundle;
    return load(bundled, source, File(), built);
  }

  static std::optional<Failure> load(std::string_view bytes, const Source& source, const File& file,
                                     Built& built) {
    auto library = Library::load(bytes, source.needed, file);
    if (!library) return library.failure();
    built.library = std::move(*library);
    return {};
  }

  std::optional<Failure> make(const Source& source, const std::vector<std::string>& arguments,
                              const std::string& name, const std::string& record, Built& built) {
    if (!folder_) return failure_of(folder_.failure());
    PrivateFolder::Entry entry = folder_->read(name, record);
    built.from = Built::From::folder;
    built.damage = std::move(entry.damage);
    if (entry.bytes.empty()) {
      auto work = folder_->work();
      if (!work) return failure_of(work.failure());
      if (auto failure = work->write(kSourceFile, source.text)) return failure_of(*failure);
      for (size_t i = 0; i < source.needed.size(); ++i) {
        auto failure = work->write(fmt::format("stub{}.so", i), stub_library(source.needed[i]));
        if (failure) return failure_of(*failure);
      }
      if (auto failure = compile(compiler_, arguments, work->directory(), settings_.time_limit)) {
        return failure;
      }
      entry = folder_->keep(*work, kLibraryFile, name, record);
      built.from = Built::From::compiler;
      if (!entry.damage.empty()) built.damage = std::move(entry.damage);
      if (entry.bytes.empty()) return Failure{Reason::compiler_failed, built.damage};
      added_ = true;
    }
    return load(entry.bytes, source, entry.file, built);
  }

  const Compiler& compiler_;
  const Settings& settings_;
  const OpenedFolder& folder_;
  std::atomic<bool> added_ = false;
};

}  // namespace

std::string folder_of_kernels(const std::string& caches) {
  return caches.empty() ? "" : caches + "/kernels";
}

std::string folder_of(const Settings& settings) {
  return settings.folder.empty() ? folder_of_kernels(cache_directory("")) : settings.folder;
}

std::vector<Outcome<Built>> build(std::span<const Source> sources, const Compiler& compiler,
                                  const Settings& settings) {
  const auto folder = PrivateFolder::open(folder_of(settings), kEntrySuffix);
  std::vector<Outcome<Built>> results(sources.size(), Failure{Reason::not_loadable, ""});
  Builder builder(compiler, settings, folder);
  in_parallel(sources.size(), settings.parallel,
              [&](size_t i) { results[i] = builder.build(sources[i]); });
  if (builder.added()) folder->trim(settings.folder_bytes);
  return results;
}

}  // namespace antegrad::kernels
