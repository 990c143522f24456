//! Counts tests by the output of the test runner.

/// The numbers of tests of a run, and the names of the failed tests.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) ignored: u64,
    pub(crate) failures: Vec<String>,
}

impl Tally {
    /// Reads one line of output.
    pub(crate) fn see(&mut self, line: &str) {
        if let Some(counts) = line.strip_prefix("test result: ") {
            self.passed += count(counts, "passed");
            self.failed += count(counts, "failed");
            self.ignored += count(counts, "ignored");
        } else if let Some(name) = failure(line) {
            self.failures.push(name.to_owned());
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
        assert_eq!(tally, Tally { passed: 41, failed: 1, ignored: 2, failures });
        assert_eq!(tally.words(), "41 passed, 1 failed, 2 ignored");
    }
}
