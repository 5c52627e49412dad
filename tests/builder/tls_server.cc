#include "tests/builder/tls_server.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

namespace ingot::test {

namespace {

void must(bool good) {
  if (!good) std::abort();  // libssl cannot do the simplest things: nothing to test with
}

std::string pem_of(X509* certificate) {
  BIO* memory = BIO_new(BIO_s_mem());
  must(memory && PEM_write_bio_X509(memory, certificate) == 1);
  char* data = nullptr;
  const long size = BIO_get_mem_data(memory, &data);
  std::string text(data, static_cast<std::size_t>(size));
  BIO_free(memory);
  return text;
}

X509* self_signed(EVP_PKEY* key) {
  X509* certificate = X509_new();
  X509_set_version(certificate, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate), -60);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
  X509_set_pubkey(certificate, key);
  X509_NAME* name = X509_get_subject_name(certificate);
  const auto* text = reinterpret_cast<const unsigned char*>("fake hub");
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, text, -1, -1, 0);
  X509_set_issuer_name(certificate, name);
  X509_EXTENSION* address =
      X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, "IP:127.0.0.1");
  must(address && X509_add_ext(certificate, address, -1) == 1);
  X509_EXTENSION_free(address);
  must(X509_sign(certificate, key, EVP_sha256()) != 0);
  return certificate;
}

}  // namespace

TlsServer::TlsServer() : context_(SSL_CTX_new(TLS_server_method()), SSL_CTX_free) {
  std::signal(SIGPIPE, SIG_IGN);  // libssl writes to clients that have gone
  EVP_PKEY* key = EVP_EC_gen("P-256");
  must(context_ && key);
  X509* certificate = self_signed(key);
  must(SSL_CTX_use_certificate(context_.get(), certificate) == 1 &&
       SSL_CTX_use_PrivateKey(context_.get(), key) == 1);
  certificate_ = pem_of(certificate);
  X509_free(certificate);
  EVP_PKEY_free(key);
}

Peer::Peer(int socket, const TlsServer* tls) : socket_(socket) {
  if (!tls) return;
  ssl_ = SSL_new(tls->context());
  SSL_set_fd(ssl_, socket_);
  good_ = SSL_accept(ssl_) == 1;
}

Peer::~Peer() {
  if (ssl_ && good_) SSL_shutdown(ssl_);
  SSL_free(ssl_);
  ::shutdown(socket_, SHUT_RDWR);
  ::close(socket_);
}

std::size_t Peer::receive(char* to, std::size_t most) {
  if (ssl_) {
    const int n = SSL_read(ssl_, to, static_cast<int>(most));
    return n > 0 ? static_cast<std::size_t>(n) : 0;
  }
  const ssize_t n = ::recv(socket_, to, most, 0);
  return n > 0 ? static_cast<std::size_t>(n) : 0;
}

void Peer::send(std::string_view data) {
  while (!data.empty()) {
    const ssize_t n = ssl_ ? SSL_write(ssl_, data.data(), static_cast<int>(data.size()))
                           : ::send(socket_, data.data(), data.size(), MSG_NOSIGNAL);
    if (n <= 0) return;
    data.remove_prefix(static_cast<std::size_t>(n));
  }
}

}  // namespace ingot::test
