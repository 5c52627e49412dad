# cmake -DOUTPUT=... -DROOT=... -DFILES="a;b" -P embed_sources.cmake
# Writes every file as one line `{"name", R"(...)"},` for an array of name and text.
set(text "")
foreach(file IN LISTS FILES)
  file(READ ${ROOT}/${file} content)
  string(APPEND text "{\"${file}\", R\"INGOT_SOURCE(${content})INGOT_SOURCE\"},\n")
endforeach()
file(WRITE ${OUTPUT} "${text}")
