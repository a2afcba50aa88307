#include "remote/stream.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "files/file.h"

namespace antegrad {
namespace {

constexpr size_t kChunk = size_t{64} << 10;
constexpr const char* kLate = "it did not answer in time";

/// Whether the socket is ready before the deadline.
bool wait_for(const File& socket, short events, Deadline deadline) {
  while (true) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd entry{socket.number(), events, 0};
    const int ready = ::poll(&entry, 1, static_cast<int>(std::max<int64_t>(left.count(), 0)));
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

class PlainStream final : public Stream {
 public:
  explicit PlainStream(File socket) : socket_(std::move(socket)) {}

  std::optional<RemoteFailure> send(std::string_view bytes, Deadline deadline) override {
    while (!bytes.empty()) {
      if (!wait_for(socket_, POLLOUT, deadline)) return RemoteFailure{kLate};
      const auto sent = ::send(socket_.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent >= 0) {
        bytes.remove_prefix(static_cast<size_t>(sent));
      } else if (errno != EAGAIN && errno != EINTR) {
        return RemoteFailure{error_text(errno)};
      }
    }
    return std::nullopt;
  }

  Outcome<std::string, RemoteFailure> receive(Deadline deadline) override {
    std::string bytes(kChunk, '\0');
    while (true) {
      if (!wait_for(socket_, POLLIN, deadline)) return RemoteFailure{kLate};
      const auto got = ::recv(socket_.number(), bytes.data(), bytes.size(), 0);
      if (got > 0) {
        bytes.resize(static_cast<size_t>(got));
        return bytes;
      }
      if (got == 0) return RemoteFailure{"it closed the connection"};
      if (errno != EAGAIN && errno != EINTR) return RemoteFailure{error_text(errno)};
    }
  }

 private:
  File socket_;
};

std::string tls_error() {
  const auto code = ERR_peek_last_error();
  ERR_clear_error();
  const char* reason = ERR_reason_error_string(code);
  return reason == nullptr ? "unknown error" : reason;
}

/// TLS over another stream: OpenSSL sees memory alone, so that it neither waits nor raises signals.
class TlsStream final : public Stream {
 public:
  explicit TlsStream(std::unique_ptr<Stream> below) : below_(std::move(below)) {}

  std::optional<RemoteFailure> agree(const RemoteAddress& address, const std::string& authority,
                                     Deadline deadline) {
    context_.reset(SSL_CTX_new(TLS_client_method()));
    if (!context_) return RemoteFailure{"TLS: " + tls_error()};
    SSL_CTX_set_min_proto_version(context_.get(), TLS1_2_VERSION);
    SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);
    const int found = authority.empty() ? SSL_CTX_set_default_verify_paths(context_.get())
                                        : SSL_CTX_load_verify_locations(context_.get(),
                                                                        authority.c_str(), nullptr);
    if (found != 1) return RemoteFailure{fmt::format("TLS: {}: {}", authority, tls_error())};
    session_.reset(SSL_new(context_.get()));
    if (!session_) return RemoteFailure{"TLS: " + tls_error()};
    received_ = BIO_new(BIO_s_mem());
    to_send_ = BIO_new(BIO_s_mem());
    SSL_set_bio(session_.get(), received_, to_send_);  // which owns them now
    expect_name(address.host);
    while (true) {
      const int result = SSL_connect(session_.get());
      if (auto failure = move_on(result, deadline)) {
        if (const long verified = SSL_get_verify_result(session_.get()); verified != X509_V_OK) {
          failure->text =
              fmt::format("its certificate: {}", X509_verify_cert_error_string(verified));
        }
        return failure;
      }
      if (result == 1) return std::nullopt;
    }
  }

  std::optional<RemoteFailure> send(std::string_view bytes, Deadline deadline) override {
    while (!bytes.empty()) {
      const auto part = static_cast<int>(std::min(bytes.size(), kChunk));
      const int written = SSL_write(session_.get(), bytes.data(), part);
      if (auto failure = move_on(written, deadline)) return failure;
      if (written > 0) bytes.remove_prefix(static_cast<size_t>(written));
    }
    return std::nullopt;
  }

  Outcome<std::string, RemoteFailure> receive(Deadline deadline) override {
    std::string bytes(kChunk, '\0');
    while (true) {
      const int got = SSL_read(session_.get(), bytes.data(), static_cast<int>(bytes.size()));
      if (auto failure = move_on(got, deadline)) return *failure;
      if (got <= 0) continue;
      bytes.resize(static_cast<size_t>(got));
      return bytes;
    }
  }

 private:
  struct Free {
    void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
    void operator()(SSL* session) const { SSL_free(session); }
  };

  void expect_name(const std::string& host) {
    auto* const checks = SSL_get0_param(session_.get());
    if (X509_VERIFY_PARAM_set1_ip_asc(checks, host.c_str()) == 1) return;
    SSL_set1_host(session_.get(), host.c_str());
    SSL_set_tlsext_host_name(session_.get(), host.c_str());
  }

  /// After a call of OpenSSL: sends what it wants to send, and gets what it waits for.
  std::optional<RemoteFailure> move_on(int result, Deadline deadline) {
    const int state = SSL_get_error(session_.get(), result);
    std::string text;
    if (state == SSL_ERROR_ZERO_RETURN) return RemoteFailure{"it closed the connection"};
    if (result <= 0 && state != SSL_ERROR_WANT_READ && state != SSL_ERROR_WANT_WRITE) {
      text = "TLS: " + tls_error();
    }
    if (auto failure = send_pending(deadline)) return failure;  // also what says that we refuse
    if (!text.empty()) return RemoteFailure{std::move(text)};
    if (state != SSL_ERROR_WANT_READ) return std::nullopt;
    auto arrived = below_->receive(deadline);
    if (!arrived) return arrived.failure();
    BIO_write(received_, arrived->data(), static_cast<int>(arrived->size()));
    return std::nullopt;
  }

  std::optional<RemoteFailure> send_pending(Deadline deadline) {
    while (BIO_ctrl_pending(to_send_) > 0) {
      std::string bytes(BIO_ctrl_pending(to_send_), '\0');
      const int read = BIO_read(to_send_, bytes.data(), static_cast<int>(bytes.size()));
      if (read <= 0) break;
      bytes.resize(static_cast<size_t>(read));
      if (auto failure = below_->send(bytes, deadline)) return failure;
    }
    return std::nullopt;
  }

  std::unique_ptr<Stream> below_;
  std::unique_ptr<SSL_CTX, Free> context_;
  std::unique_ptr<SSL, Free> session_;
  BIO* received_ = nullptr;
  BIO* to_send_ = nullptr;
};

struct FreeAddresses {
  void operator()(addrinfo* addresses) const { ::freeaddrinfo(addresses); }
};

Outcome<File, RemoteFailure> connect_socket(const addrinfo& to, Deadline deadline) {
  File socket(
      ::socket(to.ai_family, to.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, to.ai_protocol));
  if (!socket) return RemoteFailure{error_text(errno)};
  const int on = 1;  // requests are sent in one piece
  ::setsockopt(socket.number(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  if (::connect(socket.number(), to.ai_addr, to.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return RemoteFailure{error_text(errno)};
    if (!wait_for(socket, POLLOUT, deadline)) return RemoteFailure{kLate};
    int error = 0;
    socklen_t length = sizeof(error);
    ::getsockopt(socket.number(), SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0) return RemoteFailure{error_text(error)};
  }
  return socket;
}

}  // namespace

Outcome<std::unique_ptr<Stream>, RemoteFailure> connect_to(const RemoteAddress& address,
                                                           const RemoteSecrets& secrets,
                                                           Deadline deadline) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int failed =
      ::getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  if (failed != 0) return RemoteFailure{::gai_strerror(failed)};
  const std::unique_ptr<addrinfo, FreeAddresses> addresses(found);
  RemoteFailure last{"it has no address"};
  for (const addrinfo* to = addresses.get(); to != nullptr; to = to->ai_next) {
    auto socket = connect_socket(*to, deadline);
    if (!socket) {
      last = socket.failure();
      continue;
    }
    std::unique_ptr<Stream> plain = std::make_unique<PlainStream>(std::move(*socket));
    if (!address.tls) return plain;
    auto tls = std::make_unique<TlsStream>(std::move(plain));
    if (auto failure = tls->agree(address, secrets.authority, deadline)) return *failure;
    return std::unique_ptr<Stream>(std::move(tls));
  }
  return last;
}

}  // namespace antegrad
