#include "debug/ptx/lexer.h"

#include <cctype>
#include <charconv>
#include <utility>

#include "debug/text/text.h"
#include "reference/error.h"
#include "reference/marker_words.h"

namespace lanescope::ptx {
namespace {

bool starts_word(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%' ||
         c == '.';
}
bool goes_on_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '.';
}
bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

Lexer::Lexer(std::string_view text, std::string name, std::uint32_t first_line)
    : text_(text), name_(std::move(name)), line_(first_line) {
  token_ = next(at_, line_, inline_asm_, &markers_);
}

void Lexer::fail_at(std::uint32_t line, const std::string& what) const {
  throw UsageError(name_ + ":" + std::to_string(line) + ": " + what);
}

void Lexer::skip_blank(std::size_t& at, std::uint32_t& line, bool& inline_asm,
                       std::vector<Token>* markers) const {
  while (at < text_.size()) {
    const char c = text_[at];
    if (c == '\n') ++line;
    if (std::isspace(static_cast<unsigned char>(c))) {
      ++at;
    } else if (text_.substr(at, 2) == "//") {
      if (text_.substr(at).starts_with("// begin inline asm")) inline_asm = true;
      if (text_.substr(at).starts_with("// end inline asm")) inline_asm = false;
      const std::size_t begin = at;
      at = std::min(text_.find('\n', at), text_.size());
      std::string_view comment = text_.substr(begin, at - begin);
      comment.remove_prefix(std::min(comment.find_first_not_of("/ \t"), comment.size()));
      if (markers && comment.starts_with(marker_word)) {
        markers->push_back({Token::Kind::word, comment, line, inline_asm});
      }
    } else if (text_.substr(at, 2) == "/*") {
      const std::size_t end = text_.find("*/", at + 2);
      if (end == std::string_view::npos) fail_at(line, "a comment /* has no end");
      for (; at < end + 2; ++at) line += text_[at] == '\n';
    } else {
      return;
    }
  }
}

Token Lexer::next(std::size_t& at, std::uint32_t& line, bool& inline_asm,
                  std::vector<Token>* markers) const {
  skip_blank(at, line, inline_asm, markers);
  Token token;
  token.line = line;
  token.inline_asm = inline_asm;
  if (at >= text_.size()) return token;
  const std::size_t begin = at;
  const char c = text_[at];
  const auto behind = [&] { return at + 1 < text_.size() ? text_[at + 1] : ' '; };
  if (c == '"') {
    const std::size_t end = text_.find('"', at + 1);
    if (end == std::string_view::npos) fail_at(line, "a string has no end");
    token.kind = Token::Kind::string;
    token.text = text_.substr(at + 1, end - at - 1);
    at = end + 1;
    return token;
  }
  if (is_digit(c)) {
    token.kind = Token::Kind::number;
    // 1.5e+3: a sign belongs to it behind an exponent's letter, but not in 0x1e+3.
    const bool decimal = c != '0' || behind() == '.';
    while (at < text_.size() &&
           (goes_on_word(text_[at]) || (decimal && (text_[at] == '+' || text_[at] == '-') &&
                                        std::tolower(text_[at - 1]) == 'e'))) {
      ++at;
    }
  } else if (starts_word(c)) {
    token.kind = Token::Kind::word;
    ++at;
    while (at < text_.size()) {
      // .reg.b32, as CUDA's headers have it, is .reg .b32.
      if (c == '.' && text_[at] == '.') break;
      // ld.shared::cta: two colons are part of the word, one ends a label.
      if (text_[at] == ':' && behind() == ':') {
        at += 2;
      } else if (goes_on_word(text_[at])) {
        ++at;
      } else {
        break;
      }
    }
  } else {
    token.kind = Token::Kind::mark;
    ++at;
    if (c < ' ' || c > '~') fail_at(line, "a character that no PTX has: is this text at all?");
  }
  token.text = text_.substr(begin, at - begin);
  return token;
}

Token Lexer::peek() const {
  std::size_t at = at_;
  std::uint32_t line = line_;
  bool inline_asm = inline_asm_;
  return next(at, line, inline_asm, nullptr);
}

Token Lexer::take() { return std::exchange(token_, next(at_, line_, inline_asm_, &markers_)); }

bool Lexer::accept(char mark) {
  if (!token_.is(mark)) return false;
  take();
  return true;
}

bool Lexer::accept(std::string_view word) {
  if (!token_.is_word(word)) return false;
  take();
  return true;
}

void Lexer::expect(char mark) {
  if (accept(mark)) return;
  const bool at_end = token_.kind == Token::Kind::end;
  fail(std::string("'") + mark + "' is expected, " +
       (at_end ? "but the text ends here: is it whole?" : "not '" + printable(token_.text) + "'"));
}

std::string_view Lexer::expect_word(const char* what) {
  if (token_.kind != Token::Kind::word) {
    const bool at_end = token_.kind == Token::Kind::end;
    fail(
        std::string(what) + " is expected, " +
        (at_end ? "but the text ends here: is it whole?" : "not '" + printable(token_.text) + "'"));
  }
  return take().text;
}

std::int64_t Lexer::expect_integer(const char* what) {
  const bool negative = accept('-');
  if (!negative) accept('+');
  std::uint64_t bits = 0;
  if (token_.kind != Token::Kind::number || !parse_integer(token_.text, bits)) {
    fail(std::string(what) + " is expected, not '" + printable(token_.text) + "'");
  }
  take();
  return static_cast<std::int64_t>(negative ? 0 - bits : bits);
}

bool parse_integer(std::string_view text, std::uint64_t& bits) {
  if (text.ends_with('U')) text.remove_suffix(1);
  int base = 10;
  if (text.size() > 1 && text[0] == '0') {
    base = text[1] == 'x' || text[1] == 'X' ? 16 : text[1] == 'b' || text[1] == 'B' ? 2 : 8;
    text.remove_prefix(base == 8 ? 1 : 2);
  }
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bits, base);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace lanescope::ptx
