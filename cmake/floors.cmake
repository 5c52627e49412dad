# One folder of src/ is one static library: ingot_<floor>. FLOORS lists them in order with what each may use.

# Reads FLOORS into FLOOR_NAMES and FLOOR_DEPS_<name>.
function(read_floors)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/FLOORS)
  file(STRINGS ${PROJECT_SOURCE_DIR}/FLOORS lines REGEX "^[a-z]+:")
  set(names "")
  foreach(line IN LISTS lines)
    string(REGEX MATCH "^([a-z]+):[ ]*(.*)$" _ "${line}")
    set(name ${CMAKE_MATCH_1})
    string(REGEX REPLACE "[ ]+" ";" deps "${CMAKE_MATCH_2}")
    list(APPEND names ${name})
    set(FLOOR_DEPS_${name} "${deps}" PARENT_SCOPE)
  endforeach()
  set(FLOOR_NAMES "${names}" PARENT_SCOPE)
endfunction()

# The folder is the list: writes <floor>_stems.inc with one `INGOT_STEM(stem)` line for every file that matches.
# A floor's list.cpp includes it, so a file that does not define its stem's symbol is a link error.
function(generate_stems floor pattern)
  file(GLOB files CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} ${pattern})
  list(SORT files)
  set(text "")
  foreach(file IN LISTS files)
    get_filename_component(stem ${file} NAME_WE)
    if(NOT stem STREQUAL "list")
      string(APPEND text "INGOT_STEM(${stem})\n")
    endif()
  endforeach()
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/${floor}_stems.inc CONTENT "${text}")
endfunction()
