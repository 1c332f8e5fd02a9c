#include "cli/flags.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

namespace ng::cli {

Flag Flag::required() const { return Flag(*option_->required()); }

Flag Flag::shows_default() const { return Flag(*option_->capture_default_str()); }

Flag Flag::range(int64_t low, int64_t high) const {
  return Flag(*option_->check(CLI::Range(low, high)));
}

Flag Flag::one_of(std::initializer_list<const char*> words) const {
  return one_of(std::vector<std::string>(words.begin(), words.end()));
}

Flag Flag::one_of(const std::vector<std::string>& words) const {
  return Flag(*option_->check(CLI::IsMember(words)));
}

Flag Flag::one_of(std::initializer_list<int> numbers) const {
  return one_of(std::vector<int>(numbers));
}

Flag Flag::one_of(const std::vector<int>& numbers) const {
  return Flag(*option_->check(CLI::IsMember(numbers)));
}

Flag Flag::check(const std::function<std::string(const std::string&)>& problem) const {
  return Flag(*option_->check(problem));
}

Flag Flag::at_least(int arguments) const { return Flag(*option_->expected(arguments, -1)); }

Flag Flag::one_argument_at_a_time() const {
  return Flag(*option_->allow_extra_args(false)->take_all());
}

Flag Flag::repeats() const { return Flag(*option_->expected(1)).one_argument_at_a_time(); }

Flag Flag::list() const { return Flag(*option_->delimiter(',')).repeats(); }

Flag Flag::list(int entries) const { return Flag(*option_->delimiter(',')->expected(entries)); }

Flag Flag::excludes(const Flag& other) const { return Flag(*option_->excludes(other.option_)); }

bool Flag::is_given() const { return option_->count() > 0; }

namespace {

/// The option that add(name) makes, for "name type".
template <class Add>
Flag with_type(const std::string& name_and_type, const Add& add) {
  const size_t space = name_and_type.find(' ');
  CLI::Option* option = add(name_and_type.substr(0, space));
  if (space != std::string::npos) option->type_name(name_and_type.substr(space + 1));
  return Flag(*option);
}

}  // namespace

template <class T>
Flag Flags::option(const std::string& name, T& variable, const std::string& help) {
  return with_type(name,
                   [&](const std::string& flag) { return app_->add_option(flag, variable, help); });
}

template Flag Flags::option(const std::string&, std::string&, const std::string&);
template Flag Flags::option(const std::string&, int&, const std::string&);
template Flag Flags::option(const std::string&, int64_t&, const std::string&);
template Flag Flags::option(const std::string&, uint32_t&, const std::string&);
template Flag Flags::option(const std::string&, uint64_t&, const std::string&);
template Flag Flags::option(const std::string&, float&, const std::string&);
template Flag Flags::option(const std::string&, double&, const std::string&);
template Flag Flags::option(const std::string&, std::vector<std::string>&, const std::string&);
template Flag Flags::option(const std::string&, std::vector<int64_t>&, const std::string&);

Flag Flags::read_option(const std::string& name, const std::string& help,
                        const std::function<void(const std::string&)>& take) {
  return with_type(
      name, [&](const std::string& flag) { return app_->add_option_function(flag, take, help); });
}

Flag Flags::read_options(const std::string& name, const std::string& help,
                         const std::function<void(const std::vector<std::string>&)>& take) {
  return with_type(
      name, [&](const std::string& flag) { return app_->add_option_function(flag, take, help); });
}

Flag Flags::flag(const std::string& name, bool& variable, const std::string& help) {
  return Flag(*app_->add_flag(name, variable, help));
}

void Flags::footer(const std::string& text) { app_->footer(text); }

void Flags::footer(const std::function<std::string()>& text) { app_->footer(text); }

void Flags::check(const std::function<void()>& all) { app_->callback(all); }

Flags Flags::subcommand(const std::string& name, const std::string& help) {
  app_->require_subcommand(1);
  return optional_subcommand(name, help);
}

Flags Flags::optional_subcommand(const std::string& name, const std::string& help) {
  CLI::App* command = app_->add_subcommand(name, help);
  command->fallthrough();
  return Flags(*command);
}

bool Flags::is_named() const { return app_->parsed(); }

bool Flags::is_given(const std::string& name) const { return app_->count(name) > 0; }

bool Flags::has_named_below() const { return !app_->get_subcommands().empty(); }

std::string Flags::text_of(const std::string& name) const {
  for (const CLI::App* app = app_; app != nullptr; app = app->get_parent()) {
    const CLI::Option* option = app->get_option_no_throw(name);
    if (option != nullptr && option->count() > 0) return option->as<std::string>();
  }
  return "";
}

}  // namespace ng::cli
