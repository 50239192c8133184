#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lanescope::ptx {

/// A piece of a PTX text (PTX ISA, "Lexical Elements").
struct Token {
  enum class Kind : std::uint8_t {
    end,
    word,    ///< opcode with its modifiers, directive, register, name: `ld.global.v4.u32`, `%r1`
    number,  ///< as written
    string,  ///< without its quotes
    mark,    ///< one character
  };
  Kind kind = Kind::end;
  std::string_view text;
  std::uint32_t line = 1;
  bool inline_asm = false;  ///< within the comments that mark an asm statement of CUDA C++

  bool is(char mark) const { return kind == Kind::mark && text[0] == mark; }
  bool is_word(std::string_view word) const { return kind == Kind::word && text == word; }
};

/// The tokens of a PTX text, one after the other. `text` must outlive it and its tokens.
class Lexer {
 public:
  /// `name` is what errors call the text. Throws UsageError, as all that reads on does.
  Lexer(std::string_view text, std::string name, std::uint32_t first_line = 1);

  const Token& token() const { return token_; }
  /// The token behind the present one.
  Token peek() const;
  /// Goes on to the next token, and returns the one that it leaves.
  Token take();
  /// The comments that stood before the present token since the last call, and are markers
  /// (reference/marker_words.h), as words.
  std::vector<Token> take_markers() { return std::exchange(markers_, {}); }
  /// Goes on where the token is this mark or word.
  bool accept(char mark);
  bool accept(std::string_view word);
  /// The same, or an error.
  void expect(char mark);
  std::string_view expect_word(const char* what);
  /// A whole number, with its sign.
  std::int64_t expect_integer(const char* what);

  [[noreturn]] void fail(const std::string& what) const { fail_at(token_.line, what); }
  /// "x.ptx:12: what".
  [[noreturn]] void fail_at(std::uint32_t line, const std::string& what) const;

 private:
  Token next(std::size_t& at, std::uint32_t& line, bool& inline_asm,
             std::vector<Token>* markers) const;
  void skip_blank(std::size_t& at, std::uint32_t& line, bool& inline_asm,
                  std::vector<Token>* markers) const;

  std::string_view text_;
  std::string name_;
  std::size_t at_ = 0;
  std::uint32_t line_ = 1;
  bool inline_asm_ = false;
  std::vector<Token> markers_;
  Token token_;
};

/// The bits of a whole number as PTX writes it: 12, 0x1f, 017, 0b11, each perhaps with U behind.
/// False where it is none or passes 64 bits.
bool parse_integer(std::string_view text, std::uint64_t& bits);

}  // namespace lanescope::ptx
