#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace lanescope {

/// What may stand where the value of an option is wanted.
struct Suggested {
  std::vector<std::string> values;
  std::string file_ending;  ///< empty: no file
};
using Suggestions = std::map<const CLI::Option*, Suggested>;

/// An option that is declared, to say more of it.
class Option {
 public:
  Option required();
  /// What `wrong` says of a text, if anything, refuses it.
  Option check(std::string (*wrong)(const std::string& text));
  /// Both ends included. Number: int or double.
  template <class Number>
  Option between(Number least, Number most);
  /// Only where `other` is given too.
  Option needs(const Option& other);
  /// Of a list: one value each time that it is given.
  Option one_each_time();
  /// For who completes a command line: values that there are, and how names of files end that may
  /// stand there (empty: none may).
  Option suggest(std::vector<std::string> values, const char* file_ending = "");

 private:
  friend class Options;
  Option(CLI::Option* option, Suggestions& suggestions)
      : option_(option), suggestions_(suggestions) {}

  CLI::Option* option_;
  Suggestions& suggestions_;
};

/// The options of one command (bodies: options.cc). What is given is written to the variables
/// that are named, which must outlive the reading of the command line; else they stay as they are.
class Options {
 public:
  /// `arguments`: those of the program, without its name.
  Options(CLI::App& command, const std::vector<std::string>& arguments, Suggestions& suggestions)
      : command_(command), arguments_(arguments), suggestions_(suggestions) {}

  /// `names`: "-o,--output", or "kernel" for what stands without a name; one that differs from all
  /// others of the command by more than dashes, since CLI11 from 2.4 on takes those for the same.
  /// Value: std::string, a list of them, int, std::int64_t, std::uint64_t, or std::optional of
  /// std::int64_t or double.
  template <class Value>
  Option add(const char* names, Value& value, const char* about = "");
  /// A command of someone else: the first text that is no option of this one and all behind it.
  void add_command(const char* name, std::vector<std::string>& words, const char* about);
  /// False where it is not given.
  Option add_flag(const char* names, bool& value, const char* about);
  /// `read` may throw UsageError. `values`: what there is, for the help.
  Option add_choice(const char* names, const std::function<void(const std::string&)>& read,
                    const char* values, const char* about);

  /// Once the command line is read: the options of the command that were given, "--shape".
  std::vector<std::string> given() const;
  const std::vector<std::string>& arguments() const { return arguments_; }

 private:
  CLI::App& command_;
  const std::vector<std::string>& arguments_;
  Suggestions& suggestions_;
};

}  // namespace lanescope
