target_link_libraries(ingot_base PUBLIC fmt::fmt nlohmann_json::nlohmann_json Threads::Threads PRIVATE PkgConfig::XXHASH)
