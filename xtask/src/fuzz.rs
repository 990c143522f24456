//! Random inputs for every parser of untrusted text, in a release build.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::time::Instant;

use crate::fault::Fault;
use crate::step;
use crate::tally::Tally;

/// The packages that have tests with random inputs. The names of these tests begin with `fuzz_`.
const PACKAGES: &[&str] = &[
    "bandog-codec",
    "bandog-core",
    "bandog-cron",
    "bandog-macros",
    "bandog-redis",
    "bandog-schedule",
    "bandog",
    "bandog-page",
    "bandog-cli",
];

/// Tries this many inputs on each parser. Without a seed the inputs are new in each run.
pub(crate) fn run(inputs: u32, seed: Option<u64>) -> Result<(), Fault> {
    let seed = seed.unwrap_or_else(|| RandomState::new().hash_one(inputs));
    step::headline(&format!("{inputs} inputs for each parser; to repeat them: --inputs {inputs} --seed {seed}"));
    let (start, mut tally, mut tried) = (Instant::now(), Tally::default(), Tried::default());
    let mut command = step::cargo(&[
        "test",
        "--release",
        "--locked",
        "--no-fail-fast",
        "--features",
        "bandog/sqlite,bandog/zookeeper",
    ]);
    command.args(PACKAGES.iter().flat_map(|package| ["--package", *package]));
    command.args(["--lib", "--bins", "--test", "it", "fuzz_", "--", "--nocapture"]);
    command.env("BANDOG_FUZZ_INPUTS", inputs.to_string()).env("BANDOG_FUZZ_SEED", seed.to_string());
    let succeeded = step::watch("fuzzing", &mut command, |line| {
        tally.see(line);
        tried.see(line);
    })?;
    let words = format!(
        "{} parsers, {} inputs, {} of them accepted, in {:.0} s",
        tried.parsers,
        tried.inputs,
        tried.accepted,
        start.elapsed().as_secs_f64()
    );
    if succeeded && tried.parsers > 0 {
        eprintln!("==> no panic, no hang, and each accepted input is written back unchanged: {words}");
        return Ok(());
    }
    Err(Fault::failed(format!(
        "fuzzing failed, and the inputs are above: {words}, seed {seed}; failed: {:?}",
        tally.failures
    )))
}

/// The sums of the lines that the tests print: `fuzz: NAME: 3000 inputs, 412 accepted`.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tried {
    parsers: u64,
    inputs: u64,
    accepted: u64,
}

impl Tried {
    fn see(&mut self, line: &str) {
        // The test runner can print the name of a test in front of this text.
        let Some((_, report)) = line.split_once("fuzz: ") else { return };
        let number = |word: &str| {
            let (before, _) = report.split_once(word)?;
            before.rsplit(' ').next()?.parse::<u64>().ok()
        };
        if let (Some(inputs), Some(accepted)) = (number(" inputs,"), number(" accepted")) {
            self.parsers += 1;
            self.inputs += inputs;
            self.accepted += accepted;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_added_up() {
        let mut tried = Tried::default();
        for line in ["fuzz: Cron, unix: 3000 inputs, 412 accepted", "test fuzz_x ... fuzz: Key: 10 inputs, 1 accepted"]
        {
            tried.see(line);
        }
        tried.see("test fuzz::fuzz_unix ... ok");
        assert_eq!(tried, Tried { parsers: 2, inputs: 3010, accepted: 413 });
    }
}
