// What g++ knows of the alignment of each access, said to the counter (harness/simt/counting/joins.hpp).
#pragma once
#include <string>
#include <string_view>

namespace ladder {

/// `assembly`: what `g++ -S -dP -fsanitize=thread` writes, where a comment before each instruction has its operands in
/// memory with their size and alignment: "[3 c->feature[0]+0 S4 A128]", bytes and bits. Returns it without these
/// comments. Behind each call that reports an access stands an instruction that does nothing, whose displacement says
/// how the access that follows is aligned: nopl 5(%rax), a multiple of 2^(5 - 1) bytes.
std::string with_alignments(std::string_view assembly);

}  // namespace ladder
