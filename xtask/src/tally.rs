//! Counts tests by the output of the test runner.

use std::collections::BTreeMap;
use std::time::Duration;

/// Maximum number of lines of one failed test that [`Tally::print_failures`] repeats.
const MAX_LINES: usize = 40;

/// The numbers of tests of a run, and the names and the output of the failed tests.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) ignored: u64,
    pub(crate) failures: Vec<String>,
    /// The time that each program took.
    pub(crate) times: BTreeMap<String, Duration>,
    /// The first lines of the output of the failed tests, with the line that names each of them.
    output: Vec<String>,
    /// Whether the lines that follow are the output of failed tests.
    is_in_failures: bool,
    /// The number of lines of this output that are still repeated.
    room: usize,
}

impl Tally {
    /// Adds the time that a program took. A package can have several programs of one name, such as its unit tests.
    pub(crate) fn took(&mut self, program: &str, time: Duration) {
        *self.times.entry(program.to_owned()).or_default() += time;
    }

    /// Reads one line of output.
    pub(crate) fn see(&mut self, line: &str) {
        if let Some(counts) = line.strip_prefix("test result: ") {
            self.passed += count(counts, "passed");
            self.failed += count(counts, "failed");
            self.ignored += count(counts, "ignored");
            (self.is_in_failures, self.room) = (false, 0);
        } else if matches!(line, "failures:" | "successes:") {
            (self.is_in_failures, self.room) = (line == "failures:", 0);
        } else if let Some(name) = failure(line) {
            self.failures.push(name.to_owned());
        } else if self.is_in_failures {
            self.repeat(line);
        }
    }

    fn repeat(&mut self, line: &str) {
        if line.starts_with("---- ") {
            self.room = MAX_LINES;
        }
        if self.room > 0 {
            self.room -= 1;
            self.output.push(line.to_owned());
        }
    }

    /// Prints the output of the failed tests again, because it can be far up, and then their names.
    pub(crate) fn print_failures(&self) {
        for line in &self.output {
            eprintln!("{line}");
        }
        for name in &self.failures {
            eprintln!("failed: {name}");
        }
    }

    /// The counts as text.
    pub(crate) fn words(&self) -> String {
        let mut words = format!("{} passed, {} failed", self.passed, self.failed);
        if self.ignored > 0 {
            words.push_str(&format!(", {} ignored", self.ignored));
        }
        words
    }
}

/// The number in front of `word`, as in `ok. 3 passed; 0 failed; …`.
fn count(counts: &str, word: &str) -> u64 {
    let parts = counts.split([';', '.']).map(str::trim);
    let number = parts.filter_map(|part| part.strip_suffix(word)).find_map(|number| number.trim().parse().ok());
    number.unwrap_or(0)
}

/// The name in `test NAME ... FAILED`.
fn failure(line: &str) -> Option<&str> {
    let name = line.strip_prefix("test ")?.strip_suffix(" ... FAILED")?;
    Some(name.trim_end_matches(" - should panic"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_added_up_and_failures_named() {
        let output = "\
running 2 tests
test a::b ... ok
test a::c - should panic ... FAILED
test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s
test result: ok. 40 passed; 0 failed; 2 ignored; 0 measured; 7 filtered out; finished in 10.50s";
        let mut tally = Tally::default();
        output.lines().for_each(|line| tally.see(line));
        let failures = vec!["a::c".to_owned()];
        assert_eq!(tally, Tally { passed: 41, failed: 1, ignored: 2, failures, ..Tally::default() });
        assert_eq!(tally.words(), "41 passed, 1 failed, 2 ignored");
    }

    #[test]
    fn the_output_of_failed_tests_is_kept() {
        let output = "\
test b ... FAILED
successes:

---- a stdout ----
from a

successes:
    a

failures:

---- b stdout ----
from b

failures:
    b

test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s
after";
        let mut tally = Tally::default();
        output.lines().for_each(|line| tally.see(line));
        assert_eq!(tally.output, ["---- b stdout ----", "from b", ""]);
        let mut long = Tally::default();
        let lines = ["failures:", "---- c stdout ----"].into_iter().chain([""; 100]);
        lines.for_each(|line| long.see(line));
        assert_eq!(long.output.len(), MAX_LINES);
    }
}
