// What the command line may say after a command's name. CLI11 reads it, but stays behind this
// header: it takes each file that includes it three seconds to compile.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace ng::cli {

/// Thrown for flags that do not go together or mean nothing: a wrong command line.
class WrongFlags : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  /// "--ranks or --hostfile is required"
  [[nodiscard]] static WrongFlags missing(const std::string& what) {
    return WrongFlags(what + " is required");
  }
};

/// A flag ("--seed") or positional argument ("RUN") of a command: a handle, which says more of it.
class Flag {
 public:
  explicit Flag(CLI::Option& option) : option_(&option) {}

  Flag required() const;
  Flag shows_default() const;                   ///< the variable's value now, in --help
  Flag range(int64_t low, int64_t high) const;  ///< of whole numbers, both included
  Flag one_of(std::initializer_list<const char*> words) const;
  Flag one_of(const std::vector<std::string>& words) const;
  Flag one_of(std::initializer_list<int> numbers) const;
  Flag one_of(const std::vector<int>& numbers) const;
  /// `problem` of an argument; empty: none.
  Flag check(const std::function<std::string(const std::string&)>& problem) const;
  Flag at_least(int arguments) const;   ///< that many behind it, or more
  Flag repeats() const;                 ///< it is given once for each argument
  Flag list() const;                    ///< "A,B,C"; given again, more of them
  Flag list(int entries) const;         ///< so many
  Flag one_argument_at_a_time() const;  ///< as repeats(), but --help shows that there may be more
  Flag excludes(const Flag& other) const;

  [[nodiscard]] bool is_given() const;

 private:
  CLI::Option* option_;
};

/// The flags and subcommands of a command, to which it adds its own: a handle, too.
class Flags {
 public:
  explicit Flags(CLI::App& app) : app_(&app) {}

  /// What takes an argument, which goes into `variable`: a text, a number, or a vector of these,
  /// which takes several. `name`: "--flag", "-f,--flag" or "POSITIONAL"; behind a space what --help
  /// shows for the argument, else its type: "--recipe NAME".
  template <class T>
  Flag option(const std::string& name, T& variable, const std::string& help);
  /// The same, whose value now is the default that --help shows.
  template <class T>
  Flag setting(const std::string& name, T& variable, const std::string& help) {
    return option(name, variable, help).shows_default();
  }
  /// The same of what `take` reads, which throws WrongFlags.
  Flag read_option(const std::string& name, const std::string& help,
                   const std::function<void(const std::string&)>& take);
  /// The same of all that were given.
  Flag read_options(const std::string& name, const std::string& help,
                    const std::function<void(const std::vector<std::string>&)>& take);
  /// What is given or not.
  Flag flag(const std::string& name, bool& variable, const std::string& help);

  /// Text below the flags in --help.
  void footer(const std::string& text);
  void footer(const std::function<std::string()>& text);
  /// Looks at the whole command line when it has been read; throws WrongFlags.
  void check(const std::function<void()>& all);

  /// Adds a command below this one, of which the user must name one then. Flags of all commands,
  /// such as --isa, may stand behind it.
  [[nodiscard]] Flags subcommand(const std::string& name, const std::string& help);
  /// The same of a command without which this one does something, too.
  [[nodiscard]] Flags optional_subcommand(const std::string& name, const std::string& help);

  [[nodiscard]] bool is_named() const;                         ///< on the command line, the command
  [[nodiscard]] bool is_given(const std::string& name) const;  ///< of its flags
  [[nodiscard]] bool has_named_below() const;                  ///< of the commands below it, one
  /// What was given for a flag of this command or, else, the program's; empty: nothing.
  [[nodiscard]] std::string text_of(const std::string& name) const;

 private:
  CLI::App* app_;
};

}  // namespace ng::cli
