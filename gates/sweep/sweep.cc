#include "gates/sweep/sweep.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <thread>

#include "debug/text/progress.h"
#include "gates/run/locate.h"
#include "gates/run/locate_plan.h"
#include "gates/sweep/crew.h"
#include "gates/sweep/run_cell.h"
#include "gates/sweep/shrink.h"
#include "reference/error.h"

namespace lanescope {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t most_made_smaller = 4, most_located = 2;
constexpr std::uint64_t most_neighbours = 80;
constexpr char error_mark = '!';  ///< before the exit code and the words of an answer that is none

volatile sig_atomic_t interrupted = 0;
extern "C" void note_interrupt(int) { interrupted = 1; }

/// As long as it lives, an interrupt is noted, and the program goes on.
class Interrupts {
 public:
  Interrupts() {
    interrupted = 0;
    struct sigaction action {};
    action.sa_handler = note_interrupt;
    for (std::size_t i = 0; i < std::size(signals); ++i)
      sigaction(signals[i], &action, &before_[i]);
  }
  ~Interrupts() {
    for (std::size_t i = 0; i < std::size(signals); ++i)
      sigaction(signals[i], &before_[i], nullptr);
  }
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

 private:
  static constexpr int signals[] = {SIGINT, SIGTERM};
  struct sigaction before_[2];
};

int workers_of(const SweepOptions& options) {
  if (options.workers > 0) return options.workers;
  return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

/// What a process of the crew does: a cell as JSON becomes a result.
Crew::Work begin_work(const SweepOptions& options, const SweepPlan& plan) {
  unsetenv("LANESCOPE_NINJA");  // all is built
  Progress::show(false);
  const double timeout = options.timeout_seconds.value_or(locate_timeout_seconds);
  const auto runner = std::make_shared<CellRunner>(timeout);
  return [runner, &plan](const std::string& task) {
    const Json json = Json::parse(task).value();
    try {
      CellResult result = runner->run(cell_of(json));
      result.index = json["index"].integer();
      result.sweep = plan.id;
      result.build = plan.build;
      return result_line(result);
    } catch (const Error& error) {
      return error_mark + std::to_string(static_cast<int>(error.code())) + error.what();
    }
  };
}

std::string task_of(const Cell& cell, std::int64_t index) {
  Json json = cell_json(cell);
  json["index"] = index;
  return json.dump();
}

/// What came of a task.
CellResult result_of(const SweepPlan& plan, const std::string& task,
                     const std::optional<std::string>& answer, const std::string& lost) {
  if (answer && answer->front() == error_mark) {
    throw Error(static_cast<ExitCode>((*answer)[1] - '0'), answer->substr(2));
  }
  if (answer) return parse_result(*answer);
  const Json json = Json::parse(task).value();
  CellResult result;
  result.sweep = plan.id;
  result.build = plan.build;
  result.index = json["index"].integer();
  result.cell = cell_of(json);
  result.outcome = Outcome::lost;
  result.detail = "the process that ran and judged it ended twice: " + lost;
  return result;
}

class Sweep {
 public:
  Sweep(const SweepOptions& options, const SweepPlan& plan)
      : options_(options),
        plan_(plan),
        crew_(workers_of(options), [&] { return begin_work(options, plan); }) {}

  SweepReport run() {
    report_.workers = workers_of(options_);
    report_.wanted = std::ssize(plan_.indices);
    read_file();
    std::vector<std::pair<std::int64_t, Cell>> missing;
    std::vector<Cell> cells;
    for (const std::int64_t index : plan_.indices) {
      if (done_.contains(index)) continue;
      missing.emplace_back(index, draw_cell(plan_.draw, static_cast<std::uint64_t>(index)));
      cells.push_back(missing.back().second);
    }
    build_modules_of(cells);
    run_cells(missing);
    if (!report_.interrupted) make_smaller();
    summarise(report_);
    if (!report_.interrupted) locate_causes();
    return std::move(report_);
  }

 private:
  void read_file() {
    if (options_.output.empty()) return;
    file_ = std::make_unique<ResultFile>(options_.output);
    const std::set<std::int64_t> wanted(plan_.indices.begin(), plan_.indices.end());
    for (CellResult& result : results_of_sweep(options_.output, plan_)) {
      if (result.index < 0) {
        tried_.emplace(command_of(result.cell), result);
      } else if (wanted.contains(result.index)) {
        done_.insert(result.index);
      } else {
        continue;
      }
      keep(std::move(result));
    }
  }

  void keep(CellResult result) {
    failures_ += result.index >= 0 && result.failed();
    report_.results.push_back(std::move(result));
  }

  void add(const CellResult& result) {
    if (file_) file_->add(result_line(result));
    keep(result);
  }

  /// Why to end before the cells do; empty: there is no reason.
  std::string reason() const {
    if (interrupted) return "interrupted";
    if (options_.failures && failures_ >= *options_.failures) {
      return "--failures " + std::to_string(*options_.failures);
    }
    if (options_.minutes && seconds_since(begin_) > *options_.minutes * 60) {
      return "--minutes " + number_text(*options_.minutes, 6);
    }
    return {};
  }

  static double seconds_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }

  void run_cells(const std::vector<std::pair<std::int64_t, Cell>>& missing) {
    begin_ = Clock::now();
    Progress progress("sweeping", std::ssize(missing), "cells");
    std::size_t given = 0;
    std::int64_t ended = 0;
    crew_.run(
        [&]() -> std::optional<std::string> {
          if (given == missing.size()) return std::nullopt;
          const auto& [index, cell] = missing[given++];
          return task_of(cell, index);
        },
        [&](const std::string& task, const auto& answer, const std::string& lost) {
          add(result_of(plan_, task, answer, lost));
          progress.at(++ended, std::ssize(missing));
        },
        [&] { return !reason().empty(); });
    report_.seconds = seconds_since(begin_);
    report_.run_now = ended;
    if (ended < std::ssize(missing)) report_.stopped = reason();
    report_.interrupted = interrupted != 0;
  }

  /// Of each way to fail, the cell that takes least becomes smaller; of the most common one, what
  /// lies around that is run, for the rule.
  void make_smaller() {
    SweepReport before;
    before.results = report_.results;
    summarise(before);
    Progress progress("making failures smaller");
    const Trial trial = [&](const std::vector<Cell>& cells) { return run_tried(cells); };
    for (std::size_t i = 0; i < std::min(before.ways.size(), most_made_smaller); ++i) {
      if (interrupted) return;
      const CellResult least = shrink(before.ways[i].smallest, plan_.draw, trial);
      if (i > 0 || least.cell.checked) continue;
      std::vector<Cell> neighbours;
      for (std::uint64_t n = 0; n < most_neighbours; ++n) {
        neighbours.push_back(draw_neighbour(plan_.draw, least.cell, n));
      }
      run_tried(neighbours);
    }
  }

  /// How these cells fare; those that were run before are not run again.
  std::vector<CellResult> run_tried(const std::vector<Cell>& cells) {
    std::vector<Cell> unknown;
    for (const Cell& cell : cells) {
      if (!tried_.contains(command_of(cell))) unknown.push_back(cell);
    }
    build_modules_of(unknown);
    std::size_t given = 0;
    crew_.run(
        [&]() -> std::optional<std::string> {
          if (given == unknown.size()) return std::nullopt;
          return task_of(unknown[given++], -1);
        },
        [&](const std::string& task, const auto& answer, const std::string& lost) {
          const CellResult result = result_of(plan_, task, answer, lost);
          if (tried_.emplace(command_of(result.cell), result).second) add(result);
        },
        [] { return interrupted != 0; });
    std::vector<CellResult> results;
    for (const Cell& cell : cells) {
      const auto found = tried_.find(command_of(cell));
      results.push_back(found == tried_.end() ? CellResult() : found->second);
    }
    return results;
  }

  /// Of the smallest cells, what is wrong with them.
  void locate_causes() {
    std::size_t located = 0;
    for (FailingWay& way : report_.ways) {
      if (located++ == most_located || interrupted) return;
      RunOptions run = options_of(way.smallest.cell);
      run.checked = false;
      run.timeout_seconds = options_.timeout_seconds;
      try {
        way.cause = locate(run);
      } catch (const Error& error) {
        way.not_located = error.what();
      }
    }
  }

  const SweepOptions& options_;
  const SweepPlan& plan_;
  Crew crew_;
  SweepReport report_;
  std::unique_ptr<ResultFile> file_;
  std::set<std::int64_t> done_;              ///< indices of the cells in the results file
  std::map<std::string, CellResult> tried_;  ///< by command
  std::int64_t failures_ = 0;
  Clock::time_point begin_;
};

}  // namespace

std::vector<CellResult> results_of_sweep(const std::string& path, const SweepPlan& plan) {
  std::vector<CellResult> own = read_results({path});
  std::erase_if(own, [&](const CellResult& result) { return result.sweep != plan.id; });
  const auto others = std::count_if(
      own.begin(), own.end(), [&](const CellResult& result) { return result.build != plan.build; });
  if (others == 0) return own;
  throw MismatchError(path + " holds " + std::to_string(others) +
                      " cells of this sweep from another build: name another file with -o (and "
                      "compare the two with --baseline), or delete it");
}

SweepReport sweep(const SweepOptions& options, const SweepPlan& plan) {
  const Interrupts interrupts;
  return Sweep(options, plan).run();
}

void run_batch(const SweepOptions& options, const SweepPlan& plan,
               const std::vector<std::int64_t>& indices) {
  std::vector<std::string> tasks;
  std::vector<Cell> cells;
  for (const std::int64_t index : indices) {
    cells.push_back(draw_cell(plan.draw, static_cast<std::uint64_t>(index)));
    tasks.push_back(task_of(cells.back(), index));
  }
  build_modules_of(cells);
  std::size_t given = 0;
  Crew(workers_of(options), [&] { return begin_work(options, plan); })
      .run(
          [&]() -> std::optional<std::string> {
            if (given == tasks.size()) return std::nullopt;
            return tasks[given++];
          },
          [&](const std::string& task, const auto& answer, const std::string& lost) {
            std::puts(result_line(result_of(plan, task, answer, lost)).c_str());
          },
          [] { return false; });
}

}  // namespace lanescope
