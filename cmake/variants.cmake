# add_variants(FOLDER OUT [LINE]): every *.cu and *.cpp in FOLDER and in its chapters (FOLDER/*/, but FOLDER/common)
# becomes a loadable module of its own: OUT/simt/ID.so, OUT/cuda/ID.so (where nvcc is found), OUT/cpu/ID.so. Beside it
# lies its card as JSON, with the hash of the text that was compiled (harness/base/source_text.hpp). A new file needs no
# edit anywhere; one that does not compile leaves the others as they are (build with --keep-going). A line
# `// link: NAME` in a file links that library; `// link on HOME: NAME` does so in the module
# for that home alone. A line `// for cuda: 90a` compiles the file's GPU code for that architecture alone, for
# instructions that no other one has.
# Parts: what several variants share is a header in FOLDER/common/. Where a NAME.cu stands beside a NAME.cuh, the header
# declares and the .cu file defines (kernels and the functions that launch them): it is compiled once per home, and
# linked into every module that includes the header, directly or through other parts.
# LINE is a regular expression: a file without a line like it is built by its target's name alone.
# precompile_contract(NAME) before it: what is compiled for the CPU reads the contract's header in the form that the
# compiler made of it once. nvcc reads the same files without it, so that CI finds a missing include.
# Every FOLDER/*.py is a peer: its module is the file itself, OUT/cpu/ID.py or OUT/cuda/ID.py or both, as its card says.
set(link_openmp OpenMP::OpenMP_CXX)
find_package(PkgConfig QUIET)
if(PKG_CONFIG_FOUND)
  pkg_check_modules(openblas QUIET IMPORTED_TARGET GLOBAL openblas)
endif()
set(link_openblas PkgConfig::openblas)
set(link_cublas CUDA::cublas)
set(link_cusparse CUDA::cusparse)

# NAME is a target that holds the header, for all modules that are added in this folder from here on.
macro(precompile_contract name)
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp CONTENT "")
  add_library(${name} OBJECT ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp)
  set_target_properties(${name} PROPERTIES CXX_VISIBILITY_PRESET hidden)
  target_link_libraries(${name} PRIVATE simt)
  target_precompile_headers(${name} PRIVATE ${PROJECT_SOURCE_DIR}/harness/contract/contract.hpp)
  set(contract_headers ${name})
endmacro()

# The architecture that a file's line `// for cuda: 90a` names; empty where it has none.
function(architecture_of file result)
  file(STRINGS ${file} alone REGEX "^// for cuda: *[0-9]+[a-z]?$" LIMIT_COUNT 1)
  string(REGEX REPLACE "^// for cuda: *" "" alone "${alone}")
  set(${result} "${alone}" PARENT_SCOPE)
endfunction()

# Compiles for that architecture, if there is one.
function(for_its_architecture target file)
  architecture_of(${file} alone)
  if(alone)
    set_target_properties(${target} PROPERTIES CUDA_ARCHITECTURES ${alone}-real)
  endif()
endfunction()

# The text of a source that includes `file`. Its card learns of a line `// for cuda:`, so that other GPUs are refused.
function(wrapper_text file result)
  architecture_of(${file} alone)
  set(text "#include \"${file}\"\n")
  if(alone)
    string(PREPEND text "#undef LADDER_FOR_CUDA\n#define LADDER_FOR_CUDA \"${alone}\"\n")
  endif()
  set(${result} "${text}" PARENT_SCOPE)
endfunction()

# The files in variants/common/ that `file` includes directly.
function(direct_parts file result)
  get_property(known GLOBAL PROPERTY "parts included by ${file}" SET)
  if(NOT known)
    set(found "")
    cmake_path(GET file PARENT_PATH folder)
    file(STRINGS ${file} lines REGEX "^#include \"[^\"]+\"")
    foreach(line IN LISTS lines)
      string(REGEX REPLACE "^#include \"([^\"]+)\".*" "\\1" header "${line}")
      cmake_path(ABSOLUTE_PATH header BASE_DIRECTORY ${folder} NORMALIZE)
      if(header MATCHES "/variants/common/" AND EXISTS ${header})
        list(APPEND found ${header})
      endif()
    endforeach()
    set_property(GLOBAL PROPERTY "parts included by ${file}" "${found}")
    set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  endif()
  get_property(found GLOBAL PROPERTY "parts included by ${file}")
  set(${result} "${found}" PARENT_SCOPE)
endfunction()

# The headers in variants/common/ that `file` includes, directly or through others.
function(all_parts file result)
  set(pending ${file})
  set(found "")
  while(pending)
    list(POP_FRONT pending current)
    direct_parts(${current} headers)
    foreach(header IN LISTS headers)
      if(NOT header IN_LIST found)
        list(APPEND found ${header})
        list(APPEND pending ${header})
      endif()
    endforeach()
  endwhile()
  set(${result} "${found}" PARENT_SCOPE)
endfunction()

# Links into `target` the compiled parts that FILES use, for this home.
function(link_parts target home files)
  set(pending ${files})
  set(seen ${files})
  while(pending)
    list(POP_FRONT pending current)
    direct_parts(${current} headers)
    foreach(header IN LISTS headers)
      cmake_path(REPLACE_EXTENSION header LAST_ONLY cu OUTPUT_VARIABLE source)
      foreach(part ${header} ${source})
        if(EXISTS ${part} AND NOT part IN_LIST seen)
          list(APPEND seen ${part})
          list(APPEND pending ${part})
          if(part STREQUAL source)
            cmake_path(GET part STEM name)
            target_sources(${target} PRIVATE $<TARGET_OBJECTS:${home}_part_${name}>)
          endif()
        endif()
      endforeach()
    endforeach()
  endwhile()
endfunction()

# Objects from a file's text for the CPU device, by a one-line source that includes it: build/wrappers/WHERE.cpp.
function(add_simt_objects target file where)
  set(wrapper ${PROJECT_BINARY_DIR}/wrappers/${where}.cpp)
  file(CONFIGURE OUTPUT ${wrapper} CONTENT "#include \"${file}\"\n")
  add_library(${target} OBJECT ${wrapper})
  target_link_libraries(${target} PRIVATE simt)
  target_compile_options(${target} PRIVATE ${simt_optimised})
  if(contract_headers)
    target_precompile_headers(${target} REUSE_FROM ${contract_headers})
  endif()
endfunction()

# An object file per home for each compiled part: FOLDER/*/NAME.cu. They are built when a module needs them.
function(add_parts folder)
  file(GLOB sources CONFIGURE_DEPENDS ${folder}/*/*.cu)
  foreach(file IN LISTS sources)
    cmake_path(GET file STEM name)
    add_simt_objects(simt_part_${name} ${file} parts/${name})
    set_target_properties(simt_part_${name} PROPERTIES EXCLUDE_FROM_ALL ON)
    set(targets simt_part_${name})
    if(ladder_cuda)
      add_library(cuda_part_${name} OBJECT ${file})
      if(ladder_cuda_quick)
        target_compile_options(cuda_part_${name} PRIVATE -fatbin)
      else()
        set_target_properties(cuda_part_${name} PROPERTIES EXCLUDE_FROM_ALL ON)
      endif()
      for_its_architecture(cuda_part_${name} ${file})
      list(APPEND targets cuda_part_${name})
    endif()
    set_target_properties(${targets} PROPERTIES CXX_VISIBILITY_PRESET hidden CUDA_VISIBILITY_PRESET hidden)
    if(NOT LADDER_VARIANT_WERROR)
      set_target_properties(${targets} PROPERTIES LADDER_WARNINGS_ARE_SHOWN ON)
    endif()
  endforeach()
endfunction()

# The GPU code of a file, down to machine code, and no module: for builds that only check. Its host code is the same
# text in the module for the CPU device, where it also runs.
function(add_gpu_code file)
  cmake_path(GET file STEM id)
  set(wrapper ${PROJECT_BINARY_DIR}/wrappers/gpu_code/${id}.cu)
  wrapper_text(${file} text)
  file(CONFIGURE OUTPUT ${wrapper} CONTENT "${text}" @ONLY)
  add_library(cuda_${id} OBJECT ${wrapper})
  target_compile_options(cuda_${id} PRIVATE -fatbin)
  if(NOT LADDER_VARIANT_WERROR)
    set_target_properties(cuda_${id} PROPERTIES LADDER_WARNINGS_ARE_SHOWN ON)
  endif()
  for_its_architecture(cuda_${id} ${file})
endfunction()

# One module from one file, for one home (simt, cuda or cpu), run by that home's worker.
function(add_variant file home out)
  cmake_path(GET file STEM id)
  set(target ${home}_${id})
  set(worker ladder_worker_simt)
  if(home STREQUAL "cuda")
    set(worker ladder_worker_cuda)
  endif()
  # The same text is compiled once per home, as another language each: a one-line source that includes it.
  set(suffix cpp)
  if(home STREQUAL "cuda")
    set(suffix cu)
  endif()
  cmake_path(RELATIVE_PATH out BASE_DIRECTORY ${PROJECT_BINARY_DIR} OUTPUT_VARIABLE where)
  set(wrapper ${PROJECT_BINARY_DIR}/wrappers/${where}/${home}/${id}.${suffix})
  if(home STREQUAL "simt")
    set(script ${PROJECT_SOURCE_DIR}/cmake/wrap.cmake)
    add_custom_command(
      OUTPUT ${wrapper}
      COMMAND ${CMAKE_COMMAND} -D FILE=${file} -D WRAPPER=${wrapper} -P ${script}
      DEPENDS ${file} ${script}
      COMMENT "Reading ${id}"
      VERBATIM)
  else()
    wrapper_text(${file} text)
    file(CONFIGURE OUTPUT ${wrapper} CONTENT "${text}" @ONLY)
  endif()
  add_library(${target} MODULE ${wrapper})
  if(NOT LADDER_VARIANT_WERROR)
    set_target_properties(${target} PROPERTIES LADDER_WARNINGS_ARE_SHOWN ON)
  endif()
  set_target_properties(${target} PROPERTIES PREFIX "" OUTPUT_NAME ${id} LIBRARY_OUTPUT_DIRECTORY ${out}/${home}
                                             CXX_VISIBILITY_PRESET hidden CUDA_VISIBILITY_PRESET hidden)
  if(home STREQUAL "cuda")
    target_link_libraries(${target} PRIVATE CUDA::cudart)
    for_its_architecture(${target} ${file})
  else()
    target_link_libraries(${target} PRIVATE simt)
    if(home STREQUAL "simt")
      target_compile_options(${target} PRIVATE ${simt_optimised})
    endif()
    file(STRINGS ${file} linked REGEX "^// link" LIMIT_COUNT 1)  # a library may bring options with it
    if(contract_headers AND NOT linked)
      target_precompile_headers(${target} REUSE_FROM ${contract_headers})
    endif()
  endif()
  link_parts(${target} ${home} ${file})
  set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})  # its links are read here
  file(STRINGS ${file} wanted REGEX "^// link( on ${home})?: ")
  foreach(line IN LISTS wanted)
    string(REGEX REPLACE "^// link[^:]*: *([a-z0-9_]+).*" "\\1" library "${line}")
    if(NOT DEFINED link_${library} OR NOT TARGET ${link_${library}})
      message(STATUS "${id} (${home}) is left out: library '${library}' is not here")
      set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON)
    else()
      target_link_libraries(${target} PRIVATE ${link_${library}})
    endif()
  endforeach()
  add_dependencies(${target} ${worker})
  add_custom_command(
    TARGET ${target} POST_BUILD
    COMMAND ${worker} card $<TARGET_FILE:${target}> ${home} ${out}/${home}/${id}.json ${file}
    VERBATIM)
endfunction()

# Checks that a file compiles for the CPU device, and makes no module: the compiler's first half alone, a fifth of its
# time. The module is built by its name.
function(add_check file)
  cmake_path(GET file STEM id)
  add_simt_objects(checked_${id} ${file} checked/${id})
  target_compile_options(checked_${id} PRIVATE -fsyntax-only)
  set_target_properties(checked_${id} PROPERTIES CXX_VISIBILITY_PRESET hidden
                                                 CXX_COMPILER_LAUNCHER ${PROJECT_SOURCE_DIR}/cmake/only_check.sh)
  set_target_properties(simt_${id} PROPERTIES EXCLUDE_FROM_ALL ON)
endfunction()

# The module of a peer. Its card is read without the library that it calls and without a device, so any worker does.
function(add_peer file home out)
  cmake_path(GET file STEM id)
  set(module ${out}/${home}/${id}.py)
  add_custom_command(
    OUTPUT ${module} ${out}/${home}/${id}.json
    COMMAND ${CMAKE_COMMAND} -E copy ${file} ${module}
    COMMAND ladder_worker_simt card ${module} ${home} ${out}/${home}/${id}.json ${file}
    DEPENDS ${file} ladder_worker_simt ${PROJECT_SOURCE_DIR}/harness/worker/peer.py
    VERBATIM)
  add_custom_target(${home}_${id} ALL DEPENDS ${module} ${out}/${home}/${id}.json)
endfunction()

# The devices that a peer's card names, in its line `"devices": ["cpu", "cuda"],`.
function(devices_of_peer file result)
  set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  file(STRINGS ${file} line REGEX "^ *\"devices\": *\\[.*\\],?$" LIMIT_COUNT 1)
  string(REGEX MATCHALL "cpu|cuda" devices "${line}")
  if(NOT devices)
    message(WARNING "${file} is left out: its card needs a line \"devices\": [\"cpu\", \"cuda\"], or one of the two")
  endif()
  set(${result} ${devices} PARENT_SCOPE)
endfunction()

function(add_variants folder out)
  file(GLOB sources CONFIGURE_DEPENDS ${folder}/*.cu ${folder}/*.cpp ${folder}/*/*.cu ${folder}/*/*.cpp)
  list(FILTER sources EXCLUDE REGEX "/common/")
  set(expected "")
  foreach(file IN LISTS sources)
    cmake_path(GET file STEM id)
    cmake_path(GET file EXTENSION ending)
    file(STRINGS ${file} cuda_only REGEX "^// link: *(cublas|cusparse|nccl)")
    if(ending STREQUAL ".cpp")
      set(homes cpu)
    elseif(cuda_only AND ladder_cuda)
      set(homes cuda)
    elseif(cuda_only)
      set(homes "")
    elseif(ladder_cuda AND NOT ladder_cuda_quick)
      set(homes simt cuda)
    else()
      set(homes simt)
      if(ladder_cuda)
        add_gpu_code(${file})
      endif()
    endif()
    set(asked_for ON)
    if(ARGN)
      file(STRINGS ${file} asked_for REGEX "${ARGN}" LIMIT_COUNT 1)
    endif()
    foreach(home IN LISTS homes)
      add_variant(${file} ${home} ${out})
      if(home STREQUAL "simt" AND id IN_LIST checked_rungs)
        add_check(${file})
      elseif(asked_for)
        string(APPEND expected "${home}/${id}\n")
      else()
        set_target_properties(${home}_${id} PROPERTIES EXCLUDE_FROM_ALL ON)
      endif()
    endforeach()
  endforeach()
  file(GLOB peers CONFIGURE_DEPENDS ${folder}/*.py ${folder}/*/*.py)
  foreach(file IN LISTS peers)
    file(STRINGS ${file} card REGEX "^CARD[ :=]" LIMIT_COUNT 1)
    if(NOT card)
      continue()  # a program that stands beside variants
    endif()
    cmake_path(GET file STEM id)
    devices_of_peer(${file} homes)
    foreach(home IN LISTS homes)
      add_peer(${file} ${home} ${out})
      string(APPEND expected "${home}/${id}\n")
    endforeach()
  endforeach()
  # What ought to be there: `ladder list` names what did not build.
  file(CONFIGURE OUTPUT ${out}/expected.txt CONTENT "${expected}")
endfunction()
