#pragma once

#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace lanescope {

/// An option that is declared, to say more of it.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}
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

 private:
  CLI::Option* option_;
};

/// The options of one command (bodies: command_line.cc). What is given is written to the variables
/// that are named, which must outlive the reading of the command line; else they stay as they are.
class Options {
 public:
  /// `arguments`: those of the program, without its name.
  Options(CLI::App& command, const std::vector<std::string>& arguments)
      : command_(command), arguments_(arguments) {}

  /// `names`: "-o,--output", or "kernel" for what stands without a name; one that differs from all
  /// others of the command by more than dashes, since CLI11 from 2.4 on takes those for the same.
  /// Value: std::string, a list of them, int, std::int64_t, std::uint64_t, or std::optional of
  /// std::int64_t or double.
  template <class Value>
  Option add(const char* names, Value& value, const char* about = "");
  /// False where it is not given.
  Option add_flag(const char* names, bool& value, const char* about);
  /// `read` may throw UsageError. `values`: what there is, for the help.
  void add_choice(const char* names, const std::function<void(const std::string&)>& read,
                  const char* values, const char* about);
  /// Of the options that are added to what it returns, exactly one must be given.
  Options one_of(const char* name);

  /// Once the command line is read: the options of the command that were given, "--shape".
  std::vector<std::string> given() const;
  const std::vector<std::string>& arguments() const { return arguments_; }

 private:
  CLI::App& command_;
  const std::vector<std::string>& arguments_;
};

}  // namespace lanescope
