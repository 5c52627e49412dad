#pragma once

#include <openssl/ssl.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace ingot::test {

// The server's side of HTTPS on 127.0.0.1, with a certificate that it signed itself.
class TlsServer {
 public:
  TlsServer();
  // What a client must trust, as PEM.
  const std::string& certificate() const { return certificate_; }
  SSL_CTX* context() const { return context_.get(); }

 private:
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_;
  std::string certificate_;
};

// One accepted connection, plain or, with a server, encrypted. Closes it.
class Peer {
 public:
  Peer(int socket, const TlsServer* tls);
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  bool good() const { return good_; }
  // Bytes received; 0 at the end.
  std::size_t receive(char* to, std::size_t most);
  void send(std::string_view data);

 private:
  int socket_;
  SSL* ssl_ = nullptr;
  bool good_ = true;
};

}  // namespace ingot::test
