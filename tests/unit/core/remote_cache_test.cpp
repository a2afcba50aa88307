// The remote cache, with real Redis servers and with some that misbehave.

#include "remote/remote_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include <antegrad/error.h>

#include "remote/seal.h"
#include "support/folder.h"
#include "support/redis_server.h"

namespace antegrad::testing {
namespace remote_cache_test {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

#define NEEDS_REDIS()                                                    \
  if (!has_redis()) GTEST_SKIP() << "built without hiredis and OpenSSL"; \
  if (!RedisServer::exists()) GTEST_SKIP() << "there is no redis-server"

std::string text_of(const std::string& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

// ---- addresses ----------------------------------------------------------------------------------

TEST(RemoteAddress, IsRead) {
  EXPECT_EQ(remote_address("redis://cache"), (RemoteAddress{.host = "cache"}));
  EXPECT_EQ(remote_address("rediss://me@cache.example:7000/3?timeout_ms=250"),
            (RemoteAddress{.host = "cache.example",
                           .port = 7000,
                           .tls = true,
                           .user = "me",
                           .database = 3,
                           .time_limit = milliseconds(250)}));
  EXPECT_EQ(remote_address("redis://[::1]:7000/"), (RemoteAddress{.host = "::1", .port = 7000}));
  EXPECT_EQ(remote_address("redis://[fe80::2]").host, "fe80::2");
}

TEST(RemoteAddress, IsRefusedInWords) {
  for (const auto& [url, word] : {std::pair{"http://cache", "begins"},
                                  {"redis://", "no host"},
                                  {"redis://:7000", "no host"},
                                  {"redis://cache:0", "port \"0\""},
                                  {"redis://cache:65536", "port"},
                                  {"redis://cache:", "port"},
                                  {"redis://cache/x", "database"},
                                  {"redis://cache?ttl=3", "ttl"},
                                  {"redis://cache?timeout_ms=0", "timeout_ms"},
                                  {"redis://[::1", "bracket"},
                                  {"redis://me:secret@cache", "ANTEGRAD_REMOTE_CACHE_PASSWORD"}}) {
    try {
      remote_address(url);
      ADD_FAILURE() << url;
    } catch (const OptionError& error) {
      EXPECT_THAT(error.what(), HasSubstr(word));
      EXPECT_THAT(error.what(), ::testing::Not(HasSubstr("secret")));
    }
  }
}

// ---- seals --------------------------------------------------------------------------------------

TEST(Seal, IsWhatOpensslComputes) {
  if (!has_redis()) GTEST_SKIP() << "built without OpenSSL";
  if (std::system("openssl version > /dev/null 2>&1") != 0) GTEST_SKIP() << "no openssl command";
  const TemporaryFolder folder;
  const std::string bytes("a\0b\n", 4);
  std::ofstream(folder / "sealed", std::ios::binary) << "4 name\n" << bytes;
  const auto command = "openssl dgst -sha256 -hmac secret -r '" + (folder / "sealed") + "' > '" +
                       (folder / "digest") + "'";
  ASSERT_EQ(std::system(command.c_str()), 0);
  EXPECT_EQ(seal_of("secret", "name", bytes), text_of(folder / "digest").substr(0, 64));
  EXPECT_NE(seal_of("secret", "name", bytes), seal_of("secret", "nam", "e" + bytes));
}

// ---- entries ------------------------------------------------------------------------------------

RemoteCache cache_of(const RedisServer& server, const std::string& key = "",
                     const std::string& password = "", const std::string& suffix = "") {
  return {remote_address(server.url(suffix)), {.password = password, .authority = "", .key = key}};
}

// What the counts grew by meanwhile.
RemoteCacheStats counted(const std::function<void()>& what) {
  const auto before = remote_cache_stats();
  what();
  auto after = remote_cache_stats();
  after.hits -= before.hits;
  after.misses -= before.misses;
  after.stored -= before.stored;
  after.rejected -= before.rejected;
  after.failures -= before.failures;
  after.skipped -= before.skipped;
  return after;
}

TEST(RemoteCache, FindsWhatOthersKeep) {
  NEEDS_REDIS();
  const RedisServer server;
  auto writer = cache_of(server), reader = cache_of(server);
  std::string bytes(200'000, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7);
  const auto counts = counted([&] {
    const auto none = reader.find("one");
    EXPECT_EQ(none.bytes + none.trouble, "");
    EXPECT_EQ(writer.keep("one", bytes), "");
    EXPECT_EQ(reader.find("one").bytes, bytes);
  });
  EXPECT_EQ(counts.misses, 1);
  EXPECT_EQ(counts.stored, 1);
  EXPECT_EQ(counts.failures, 0);
  // Another database is another cache.
  EXPECT_EQ(cache_of(server, "", "", "/5").find("one").bytes, "");
}

// What is on the server under a name that ends so.
std::pair<std::string, std::string> on_server(Redis& redis, const std::string& name) {
  const auto entries = redis.list(kRemotePrefix);
  for (const auto& entry : *entries) {
    if (entry.key.ends_with(":" + name))
      return {entry.key, **redis.get(entry.key, kMostRemoteBytes)};
  }
  ADD_FAILURE() << "no entry " << name;
  return {};
}

TEST(RemoteCache, GroupsWithDifferentKeysDoNotMeet) {
  NEEDS_REDIS();
  const RedisServer server;
  auto ours = cache_of(server, "our key"), others = cache_of(server, "another key");
  auto nobodys = cache_of(server);
  EXPECT_TRUE(ours.seals());
  EXPECT_FALSE(nobodys.seals());
  EXPECT_EQ(ours.keep("one", "our bytes"), "");
  const auto counts = counted([&] {
    EXPECT_EQ(others.find("one").bytes + nobodys.find("one").bytes, "");
    EXPECT_EQ(nobodys.keep("one", "bytes of anybody"), "");
    EXPECT_EQ(ours.find("one").bytes, "our bytes");
    EXPECT_EQ(others.find("one").bytes, "");
  });
  EXPECT_EQ(counts.misses, 3);
  EXPECT_EQ(counts.rejected, 0);
}

// Somebody who can write to the server, and does not know the key.
TEST(RemoteCache, RejectsWhatWasChanged) {
  NEEDS_REDIS();
  const RedisServer server;
  auto cache = cache_of(server, "our key"), others = cache_of(server, "another key");
  EXPECT_EQ(cache.keep("one", "bytes of one"), "");
  EXPECT_EQ(others.keep("two", "bytes of two"), "");
  auto connected = Redis::connect(remote_address(server.url()), {});
  ASSERT_TRUE(connected);
  Redis& redis = **connected;
  const auto [place, entry] = on_server(redis, "one");
  const auto group = place.substr(0, place.size() - 3);
  const auto expect_rejected = [&](const std::string& name, const std::string& value) {
    ASSERT_FALSE(redis.set(group + name, value, kRemoteLife));
    const auto counts = counted([&] {
      const auto found = cache.find(name);
      EXPECT_EQ(found.bytes, "") << value;
      EXPECT_NE(found.trouble, "");
    });
    EXPECT_EQ(counts.rejected, 1);
  };
  expect_rejected("two", entry);                           // under another name
  expect_rejected("two", on_server(redis, "two").second);  // with another seal
  expect_rejected("one", "antegrad remote 1 none\nbytes of one");
  for (size_t i = 0; i < entry.size(); ++i) {
    auto changed = entry;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    expect_rejected("one", changed);
  }
  for (const auto& value : {std::string(), std::string("x"), entry.substr(0, entry.size() - 1),
                            entry + "x", std::string("antegrad remote 1 ")}) {
    expect_rejected("one", value);
  }
  ASSERT_FALSE(redis.set(place, entry, kRemoteLife));
  EXPECT_EQ(cache.find("one").bytes, "bytes of one");
}

TEST(RemoteCache, SendsNothingTooLarge) {
  NEEDS_REDIS();
  const RedisServer server;
  auto cache = cache_of(server);
  EXPECT_THAT(cache.keep("one", std::string(kMostRemoteBytes, 'x')), HasSubstr("too large"));
  auto connected = Redis::connect(remote_address(server.url()), {});
  ASSERT_TRUE(connected);
  const std::string large(kMostRemoteBytes + (size_t{4} << 20), 'x');
  ASSERT_FALSE((*connected)->set(std::string(kRemotePrefix) + "plain:two", large, kRemoteLife));
  EXPECT_THAT(cache.find("two").trouble, HasSubstr("more than an entry"));
}

TEST(RemoteCache, LogsIn) {
  NEEDS_REDIS();
  const RedisServer server(
      {"--requirepass", "secret", "--user", "me", "on", ">mine", "~*", "+@all"});
  EXPECT_EQ(cache_of(server, "", "secret").keep("one", "bytes"), "");
  auto me = RemoteCache(remote_address("redis://me@127.0.0.1:" + std::to_string(server.port())),
                        {.password = "mine"});
  EXPECT_EQ(me.find("one").bytes, "bytes");
  EXPECT_THAT(cache_of(server, "", "wrong").find("one").trouble, HasSubstr("WRONGPASS"));
  EXPECT_THAT(cache_of(server).find("one").trouble, HasSubstr("NOAUTH"));
}

TEST(RemoteCache, ConnectsAgainWhenTheServerComesBack) {
  NEEDS_REDIS();
  RedisServer server;
  auto now = std::chrono::steady_clock::now();
  RemoteCache cache(remote_address(server.url()), {}, [&] { return now; });
  EXPECT_EQ(cache.keep("one", "bytes"), "");
  server.stop();
  server.start();  // it has forgotten everything
  EXPECT_EQ(cache.keep("one", "bytes"), "") << "a connection that was closed is made again";
  server.stop();
  const auto counts = counted([&] {
    EXPECT_THAT(cache.find("one").trouble, HasSubstr("refused"));
    EXPECT_THAT(cache.find("one").trouble, HasSubstr("not asked"));
    server.start();
    EXPECT_NE(cache.find("one").trouble, "") << "it is left alone for a while";
    now += RemoteCache::kPause;
    EXPECT_EQ(cache.find("one").trouble, "");
  });
  EXPECT_EQ(counts.failures, 1);
  EXPECT_EQ(counts.skipped, 2);
  EXPECT_EQ(counts.misses, 1);
}

TEST(RemoteCache, MayBeUsedInAForkedChild) {
  NEEDS_REDIS();
  const RedisServer server;
  auto cache = cache_of(server);
  EXPECT_EQ(cache.keep("one", "bytes"), "");
  const pid_t child = ::fork();
  if (child == 0) {
    for (int i = 0; i < 50; ++i) {
      if (cache.find("one").bytes != "bytes") ::_exit(1);
    }
    ::_exit(0);
  }
  for (int i = 0; i < 50; ++i) EXPECT_EQ(cache.find("one").bytes, "bytes");
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(RemoteCache, ServesManyThreads) {
  NEEDS_REDIS();
  const RedisServer server;
  auto cache = cache_of(server, "key");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, name = std::to_string(t)] {
      for (int i = 0; i < 50; ++i) {
        EXPECT_EQ(cache.keep(name, name + " bytes"), "");
        EXPECT_EQ(cache.find(name).bytes, name + " bytes");
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

// ---- TLS ----------------------------------------------------------------------------------------

// A certificate authority, and a server with a certificate of it for `name`.
class Certificates {
 public:
  explicit Certificates(const std::string& name) {
    run("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=ca "
        "-keyout ca.key -out ca.crt");
    run("req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=server "
        "-keyout server.key -out server.csr");
    std::ofstream(folder_ / "names") << "subjectAltName=" << name << "\n";
    run("x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -extfile names "
        "-out server.crt");
  }
  std::vector<std::string> settings() const {
    return {
        "--tls-cert-file",    folder_ / "server.crt", "--tls-key-file",     folder_ / "server.key",
        "--tls-ca-cert-file", folder_ / "ca.crt",     "--tls-auth-clients", "no"};
  }
  std::string authority() const { return folder_ / "ca.crt"; }

 private:
  void run(const std::string& command) const {
    const auto all = "cd '" + folder_.path() + "' && openssl " + command + " > log 2>&1";
    EXPECT_EQ(std::system(all.c_str()), 0) << text_of(folder_ / "log");
  }
  TemporaryFolder folder_;
};

std::string trouble_over_tls(const RedisServer& server, const std::string& host,
                             const std::string& authority) {
  RemoteCache cache(remote_address("rediss://" + host + ":" + std::to_string(server.port())),
                    {.password = "", .authority = authority});
  std::string bytes(300'000, 'x');
  if (auto trouble = cache.keep("one", bytes); !trouble.empty()) return trouble;
  EXPECT_EQ(cache.find("one").bytes, bytes);
  return "";
}

TEST(RemoteCache, SpeaksTls) {
  NEEDS_REDIS();
  const Certificates certificates("DNS:localhost"), others("DNS:localhost");
  const RedisServer server(certificates.settings(), /*tls=*/true);
  EXPECT_EQ(trouble_over_tls(server, "localhost", certificates.authority()), "");
  // Another name than that of the certificate, another authority, and the system's.
  EXPECT_THAT(trouble_over_tls(server, "127.0.0.1", certificates.authority()),
              HasSubstr("certificate"));
  EXPECT_THAT(trouble_over_tls(server, "localhost", others.authority()), HasSubstr("certificate"));
  EXPECT_THAT(trouble_over_tls(server, "localhost", ""), HasSubstr("certificate"));
  EXPECT_THAT(trouble_over_tls(server, "localhost", "/none"), HasSubstr("/none"));
  // Without TLS on one side.
  EXPECT_NE(cache_of(server).find("one").trouble, "");
  const RedisServer plain;
  EXPECT_NE(trouble_over_tls(plain, "localhost", certificates.authority()), "");
}

TEST(RemoteCache, ChecksAddressesInCertificates) {
  NEEDS_REDIS();
  const Certificates certificates("IP:127.0.0.1");
  const RedisServer server(certificates.settings(), /*tls=*/true);
  EXPECT_EQ(trouble_over_tls(server, "127.0.0.1", certificates.authority()), "");
}

// ---- servers that misbehave ---------------------------------------------------------------------

// Takes connections, and does something with each.
class OddServer {
 public:
  explicit OddServer(std::function<void(int socket)> talk)
      : listening_(listening_socket()), thread_([this, talk = std::move(talk)] {
          while (true) {
            const int socket = ::accept(listening_.first, nullptr, nullptr);
            if (socket < 0) return;
            talk(socket);
            ::close(socket);
          }
        }) {}
  ~OddServer() {
    ::shutdown(listening_.first, SHUT_RDWR);
    thread_.join();
    ::close(listening_.first);
  }
  RemoteCache cache() const {
    return {remote_address("redis://127.0.0.1:" + std::to_string(listening_.second) +
                           "?timeout_ms=200"),
            {}};
  }

 private:
  std::pair<int, uint16_t> listening_;
  std::thread thread_;
};

void say(int socket, const std::string& text) {
  ::send(socket, text.data(), text.size(), MSG_NOSIGNAL);
}

void read_request(int socket) {
  char bytes[4096];
  ::recv(socket, bytes, sizeof(bytes), 0);
}

struct Misbehaviour {
  const char* name;
  std::function<void(int socket)> talk;
  const char* word;
};

TEST(RemoteCache, EndsInTimeWhateverAServerDoes) {
  if (!has_redis()) GTEST_SKIP() << "built without hiredis and OpenSSL";
  const auto answer = [](std::string text) {
    return [text](int socket) {
      read_request(socket);
      say(socket, text);
    };
  };
  const std::vector<Misbehaviour> misbehaviours = {
      {"closes at once", [](int) {}, ""},
      {"says nothing",
       [](int socket) {
         std::this_thread::sleep_for(milliseconds(600));
         say(socket, "-");
       },
       "in time"},
      {"dies in an answer", answer("$1000\r\nabc"), "closed"},
      {"sends bytes one by one",
       [](int socket) {
         read_request(socket);
         say(socket, "$1000\r\n");
         for (int i = 0; i < 12; ++i) {
           std::this_thread::sleep_for(milliseconds(50));
           say(socket, "x");
         }
       },
       "in time"},
      {"speaks another protocol", answer("HTTP/1.1 400 Bad Request\r\n\r\n"), "answered"},
      {"refuses", answer("-LOADING Redis is loading the dataset in memory\r\n"), "LOADING"},
      {"answers with a number", answer(":3\r\n"), "form"},
      {"answers with a list", answer("*1\r\n$1\r\nx\r\n"), "form"},
      {"nests lists",
       answer("*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n$1\r\nx\r\n"), ""},
      {"announces a negative length", answer("$-5\r\n"), ""},
      {"announces a huge length", answer("$9223372036854775807\r\n"), ""},
      {"announces a huge list", answer("*2147483647\r\n"), ""},
  };
  for (const auto& [name, talk, word] : misbehaviours) {
    const OddServer server(talk);
    auto cache = server.cache();
    const auto start = std::chrono::steady_clock::now();
    const auto found = cache.find("one");
    const auto spent = std::chrono::steady_clock::now() - start;
    EXPECT_EQ(found.bytes, "") << name;
    EXPECT_THAT(found.trouble, HasSubstr(word)) << name;
    EXPECT_NE(found.trouble, "") << name;
    EXPECT_LT(spent, milliseconds(5000)) << name;
  }
}

TEST(RemoteCache, SaysThatNobodyIsThere) {
  if (!has_redis()) GTEST_SKIP() << "built without hiredis and OpenSSL";
  const auto nobody = "redis://127.0.0.1:" + std::to_string(free_port());
  EXPECT_THAT(RemoteCache(remote_address(nobody), {}).keep("one", "bytes"),
              HasSubstr("Connection refused"));
  EXPECT_NE(RemoteCache(remote_address("redis://no.such.host.invalid"), {}).find("one").trouble,
            "");
}

}  // namespace remote_cache_test
}  // namespace antegrad::testing
