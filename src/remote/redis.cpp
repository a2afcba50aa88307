// The protocol is hiredis'. Its own connections know no TLS in Debian 12, and wait for each part of
// an answer anew, so streams of ours carry it.

#include "remote/redis.h"

#include <hiredis/hiredis.h>

#include <cstdlib>
#include <utility>

#include <fmt/format.h>

namespace antegrad {
namespace {

constexpr size_t kSmallAnswer = size_t{1} << 20;

struct FreeReply {
  void operator()(redisReply* reply) const { ::freeReplyObject(reply); }
};
using Reply = std::unique_ptr<redisReply, FreeReply>;

struct FreeReader {
  void operator()(redisReader* reader) const { ::redisReaderFree(reader); }
};

using Reader = std::unique_ptr<redisReader, FreeReader>;

/// More elements than a list of keys has. hiredis takes memory for as many as a server announces,
/// and looks at all of it when it lets go: seconds for a list that never comes.
constexpr int64_t kMostElements = 1 << 20;

const redisReplyObjectFunctions& usual_functions() {
  static const redisReplyObjectFunctions usual = *Reader(::redisReaderCreate())->fn;
  return usual;
}

template <class Count>  // int, or size_t in later versions
void* list_of(const redisReadTask* task, Count elements) {
  if (static_cast<int64_t>(elements) > kMostElements) return nullptr;
  return usual_functions().createArray(task, elements);
}

Reader bounded_reader() {
  static redisReplyObjectFunctions bounded = [] {
    auto functions = usual_functions();
    functions.createArray = list_of;
    return functions;
  }();
  Reader reader(::redisReaderCreate());
  reader->fn = &bounded;
  return reader;
}

std::string text_of(const redisReply& reply) { return {reply.str, reply.len}; }

RemoteFailure unexpected() { return {"it answered in another form than expected"}; }

class Connection final : public Redis {
 public:
  Connection(std::unique_ptr<Stream> stream, std::chrono::milliseconds time_limit)
      : stream_(std::move(stream)), time_limit_(time_limit), reader_(bounded_reader()) {}

  std::optional<RemoteFailure> log_in(const RemoteAddress& address, const RemoteSecrets& secrets) {
    if (!secrets.password.empty()) {
      std::vector<std::string_view> command{"AUTH", secrets.password};
      if (!address.user.empty()) command.insert(command.begin() + 1, address.user);
      if (auto failure = request_status(command)) return failure;
    }
    if (address.database == 0) return std::nullopt;
    return request_status({"SELECT", std::to_string(address.database)});
  }

  Outcome<std::optional<std::string>, RemoteFailure> get(const std::string& key,
                                                         size_t most_bytes) override {
    auto reply = request({"GET", key}, most_bytes + kSmallAnswer);
    if (!reply) return reply.failure();
    if ((*reply)->type == REDIS_REPLY_NIL) return std::optional<std::string>();
    if ((*reply)->type != REDIS_REPLY_STRING) return unexpected();
    return std::optional(text_of(**reply));
  }

  std::optional<RemoteFailure> set(const std::string& key, std::string_view value,
                                   std::chrono::seconds life) override {
    return request_status({"SET", key, value, "EX", std::to_string(life.count())});
  }

  Outcome<std::vector<Listed>, RemoteFailure> list(const std::string& prefix) override {
    std::vector<Listed> found;
    std::string cursor = "0";
    do {
      auto reply = request({"SCAN", cursor, "MATCH", prefix + "*", "COUNT", "1000"}, kSmallAnswer);
      if (!reply) return reply.failure();
      if ((*reply)->type != REDIS_REPLY_ARRAY || (*reply)->elements != 2) return unexpected();
      cursor = text_of(*(*reply)->element[0]);
      const redisReply& keys = *(*reply)->element[1];
      for (size_t i = 0; i < keys.elements; ++i) {
        auto& listed = found.emplace_back(Listed{text_of(*keys.element[i])});
        auto length = request({"STRLEN", listed.key}, kSmallAnswer);
        if (!length) return length.failure();
        if ((*length)->type == REDIS_REPLY_INTEGER) listed.bytes = (*length)->integer;
      }
    } while (cursor != "0");
    return found;
  }

  std::optional<RemoteFailure> remove(const std::vector<std::string>& keys) override {
    for (const auto& key : keys) {
      if (auto reply = request({"DEL", key}, kSmallAnswer); !reply) return reply.failure();
    }
    return std::nullopt;
  }

 private:
  std::optional<RemoteFailure> request_status(const std::vector<std::string_view>& command) {
    auto reply = request(command, kSmallAnswer);
    if (!reply) return reply.failure();
    if ((*reply)->type != REDIS_REPLY_STATUS) return unexpected();
    return std::nullopt;
  }

  Outcome<Reply, RemoteFailure> request(const std::vector<std::string_view>& command,
                                        size_t most_bytes) {
    const auto deadline = std::chrono::steady_clock::now() + time_limit_;
    std::vector<const char*> words;
    std::vector<size_t> lengths;
    for (const auto word : command) {
      words.push_back(word.data());
      lengths.push_back(word.size());
    }
    char* text = nullptr;
    const int length = ::redisFormatCommandArgv(&text, static_cast<int>(words.size()), words.data(),
                                                lengths.data());
    if (length < 0) return RemoteFailure{"there is no memory for the request"};
    const std::unique_ptr<char, decltype(&std::free)> owned(text, &std::free);
    if (auto failure = stream_->send({text, static_cast<size_t>(length)}, deadline)) {
      return *failure;
    }
    for (size_t received = 0;;) {
      void* found = nullptr;
      if (::redisReaderGetReply(reader_.get(), &found) != REDIS_OK) {
        return RemoteFailure{fmt::format("what it answered: {}", reader_->errstr)};
      }
      if (Reply reply(static_cast<redisReply*>(found)); reply) {
        if (reply->type == REDIS_REPLY_ERROR) return RemoteFailure{text_of(*reply)};
        return reply;
      }
      auto arrived = stream_->receive(deadline);
      if (!arrived) return arrived.failure();
      received += arrived->size();
      if (received > most_bytes) return RemoteFailure{"it sent more than an entry can have"};
      ::redisReaderFeed(reader_.get(), arrived->data(), arrived->size());
    }
  }

  std::unique_ptr<Stream> stream_;
  std::chrono::milliseconds time_limit_;
  Reader reader_;
};

}  // namespace

bool has_redis() { return true; }

Outcome<std::unique_ptr<Redis>, RemoteFailure> Redis::connect(const RemoteAddress& address,
                                                              const RemoteSecrets& secrets) {
  auto stream = connect_to(address, secrets, std::chrono::steady_clock::now() + address.time_limit);
  if (!stream) return stream.failure();
  auto made = std::make_unique<Connection>(std::move(*stream), address.time_limit);
  if (auto failure = made->log_in(address, secrets)) return *failure;
  return std::unique_ptr<Redis>(std::move(made));
}

}  // namespace antegrad
