#include "kernels/build.h"

#include <signal.h>

#include <algorithm>
#include <atomic>
#include <list>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cost/rates_file.h"
#include "files/private_folder.h"
#include "graph/hash.h"
#include "kernels/stub.h"

namespace antegrad::kernels {
namespace {

/// The libraries of this process, by the hash of what they were made from. The lock of a slot is
/// held while its library is made, so that others wait for it.
struct Slot {
  std::mutex lock;
  std::weak_ptr<const Library> library;
  std::string code;  ///< code_of()
};

/// Outlives all threads.
struct Slots {
  std::mutex lock;
  std::map<Hash128, std::shared_ptr<Slot>> by_key;

  static Slots& of_process() {
    static auto& slots = *new Slots;
    return slots;
  }
};

std::shared_ptr<Slot> slot_of(const Hash128& key, const std::string& code) {
  Slots& slots = Slots::of_process();
  const std::lock_guard guard(slots.lock);
  auto& slot = slots.by_key[key];
  if (!slot) {
    slot = std::make_shared<Slot>();
    slot->code = code;
  }
  return slot;
}

/// Outlive all threads. Bundles are never removed, so what is found in them stays.
struct Bundles {
  struct Taken {
    CompiledKernels kernels;
    bool keeps = false;
  };
  struct Found {
    const std::string* library = nullptr;
    bool keeps = false;
  };
  std::mutex lock;
  std::list<Taken> all;

  static Bundles& of_process() {
    static auto& bundles = *new Bundles;
    return bundles;
  }

  /// Null if no bundle has the code as this compiler makes it.
  Found library(const std::string& code, const Compiler& compiler) {
    const std::lock_guard guard(lock);
    for (const auto& [bundle, keeps] : all) {
      if (!(bundle.compiler == compiler)) continue;
      const auto found = bundle.libraries.find(code);
      if (found != bundle.libraries.end()) return {&found->second, keeps};
    }
    return {};
  }
};

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

/// Everything that the library follows from, in text: the start of its record.
std::string description(const Source& source, const Compiler& compiler,
                        const std::vector<std::string>& arguments) {
  return fmt::format("{}source {}\ncompiler {}: {}\narguments {}\nneeded {}\nfor {}\n", kRecord,
                     to_string(hash_of_bytes(source.text)), fmt::join(compiler.command, " "),
                     compiler.version, fmt::join(arguments, " "), fmt::join(source.needed, " "),
                     source.made_for);
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
    const std::string record = description(source, compiler_, arguments);
    const Hash128 key = hash_of_bytes(record);
    const std::string code = code_of(source, arguments);
    const auto slot = slot_of(key, code);
    const std::lock_guard guard(slot->lock);
    Built built;
    built.library = slot->library.lock();
    built.from = Built::From::process;
    if (!built.library) {
      const auto bundled = Bundles::of_process().library(code, compiler_);
      auto failure = bundled.library != nullptr
                         ? take(*bundled.library, source, built)
                         : make(source, arguments, to_string(key), record, built);
      if (failure) return *failure;
      if (bundled.keeps) keep(*bundled.library, to_string(key), record);
      slot->library = built.library;
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

  // Where that does not go, the next process takes it from where this one did.
  void keep(const std::string& library, const std::string& name, const std::string& record) {
    if (!folder_) return;
    const auto work = folder_->work();
    if (!work || work->write(kLibraryFile, library)) return;
    folder_->keep(*work, kLibraryFile, name, record);
    added_ = true;
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

/// Threads on which no signal handler of the host runs.
class Threads {
 public:
  template <class Work>
  Threads(size_t count, const Work& work) {
    sigset_t all, before;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      while (threads_.size() < count) threads_.emplace_back(work);
    } catch (const std::system_error&) {
      // As many as the system gives; the caller's thread does the rest.
    }
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  ~Threads() {
    for (std::thread& thread : threads_) thread.join();
  }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  std::vector<std::thread> threads_;
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
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < sources.size(); i = next++) results[i] = builder.build(sources[i]);
  };
  const size_t parallel = settings.parallel != 0
                              ? settings.parallel
                              : std::max(1U, std::thread::hardware_concurrency());
  {
    // This thread is one of them.
    const Threads others(std::min(parallel, std::max<size_t>(sources.size(), 1)) - 1, work);
    work();
  }
  if (builder.added()) folder->trim(settings.folder_bytes);
  return results;
}

void use_compiled(CompiledKernels compiled, bool keeps) {
  if (compiled.libraries.empty()) return;
  Bundles& bundles = Bundles::of_process();
  const std::lock_guard guard(bundles.lock);
  bundles.all.push_back({std::move(compiled), keeps});
}

std::optional<Compiler> compiler_of_compiled() {
  Bundles& bundles = Bundles::of_process();
  const std::lock_guard guard(bundles.lock);
  return bundles.all.empty() ? std::nullopt : std::optional(bundles.all.front().kernels.compiler);
}

std::map<std::string, std::string> loaded_libraries(const Libraries* only) {
  Slots& slots = Slots::of_process();
  std::vector<std::shared_ptr<Slot>> all;
  {
    const std::lock_guard guard(slots.lock);
    for (const auto& [key, slot] : slots.by_key) all.push_back(slot);
  }
  std::map<std::string, std::string> libraries;
  for (const auto& slot : all) {
    const std::lock_guard guard(slot->lock);
    const auto library = slot->library.lock();
    if (!library || (only != nullptr && !only->contains(library))) continue;
    libraries[slot->code] = library->bytes();
  }
  return libraries;
}

}  // namespace antegrad::kernels
