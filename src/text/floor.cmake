target_link_libraries(ingot_text PRIVATE PkgConfig::PCRE2 ${UTF8PROC_LIBRARY})
