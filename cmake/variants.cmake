# add_variants(FOLDER OUT [LINE]): every *.cu and *.cpp in FOLDER and in its chapters (FOLDER/*/, but FOLDER/common)
# becomes a loadable module of its own, with its card beside it as JSON: OUT/simt/ID.so, OUT/cuda/ID.so (where nvcc is
# found), OUT/cpu/ID.so. A new file needs no edit anywhere; one that does not compile leaves the others as they are (build
# with --keep-going). A line `// link: NAME` in a file links that library; `// link on HOME: NAME` does so in the module
# for that home alone. A line `// for cuda: 90a` compiles the file's GPU code for that architecture alone, for
# instructions that no other one has.
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

# Heeds a file's line `// for cuda: 90a`.
function(for_its_architecture target file)
  file(STRINGS ${file} alone REGEX "^// for cuda: *[0-9]+[a-z]?$" LIMIT_COUNT 1)
  if(alone)
    string(REGEX REPLACE "^// for cuda: *" "" alone "${alone}")
    set_target_properties(${target} PROPERTIES CUDA_ARCHITECTURES ${alone}-real)
  endif()
endfunction()

# The GPU code of a file, down to machine code, and no module: for builds that only check. Its host code is the same
# text in the module for the CPU device, where it also runs.
function(add_gpu_code file)
  cmake_path(GET file STEM id)
  set(wrapper ${PROJECT_BINARY_DIR}/wrappers/gpu_code/${id}.cu)
  file(CONFIGURE OUTPUT ${wrapper} CONTENT "#include \"${file}\"\n")
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
    file(CONFIGURE OUTPUT ${wrapper} CONTENT "#include \"${file}\"\n")
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
    COMMAND ${worker} card $<TARGET_FILE:${target}> ${home} ${out}/${home}/${id}.json
    VERBATIM)
endfunction()

# The module of a peer. Its card is read without the library that it calls and without a device, so any worker does.
function(add_peer file home out)
  cmake_path(GET file STEM id)
  set(module ${out}/${home}/${id}.py)
  add_custom_command(
    OUTPUT ${module} ${out}/${home}/${id}.json
    COMMAND ${CMAKE_COMMAND} -E copy ${file} ${module}
    COMMAND ladder_worker_simt card ${module} ${home} ${out}/${home}/${id}.json
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
      if(asked_for)
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
