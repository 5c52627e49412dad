target_link_libraries(ingot_plan PRIVATE PkgConfig::XXHASH)
