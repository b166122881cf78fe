# cmake -D FILE=variants/ID.cu -D WRAPPER=ID.cpp -P wrap.cmake: writes the one-line source by which a C++ compiler reads
# a .cu file. What only nvcc can read is one error there, in words and at its line, in the place of many.
file(READ ${FILE} text)
set(define "")
if(text MATCHES "(^|\n)// for cuda: *([0-9]+[a-z]?)\n")
  set(define "#undef LADDER_FOR_CUDA\n#define LADDER_FOR_CUDA \"${CMAKE_MATCH_2}\"\n")  # as wrapper_text has it
endif()
string(REGEX REPLACE "//[^\n]*" "" text "${text}")  # comments may say what they like

# Makes `content` an error at the first place where `text` holds `mark`, if it does.
function(refuse mark words)
  string(FIND "${text}" "${mark}" at)
  if(at EQUAL -1)
    return()
  endif()
  string(SUBSTRING "${text}" 0 ${at} before)
  string(REGEX MATCHALL "\n" newlines "${before}")
  list(LENGTH newlines line)
  math(EXPR line "${line} + 1")
  set(content "#line ${line} \"${FILE}\"\n#error \"${words}\"\n" PARENT_SCOPE)
endfunction()

set(content "#include \"${FILE}\"\n")
refuse("extern __shared__" "extern __shared__ is for nvcc alone: write T* tile = dynamic_shared<T>();")
refuse("<<<" "kernel<<<...>>> is for nvcc alone: write launch(kernel, grid, block, shared bytes, stream, arguments...);")
file(WRITE ${WRAPPER} "${define}${content}")
