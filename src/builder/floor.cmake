target_link_libraries(ingot_builder PRIVATE CURL::libcurl OpenSSL::Crypto)
