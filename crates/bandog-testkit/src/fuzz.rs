//! Random inputs for parsers of untrusted text.
//!
//! Each input begins as a sample, or as the first part of one sample plus the last part of another sample. Then the
//! input is changed a few times: bytes are replaced, pieces are removed, repeated or exchanged, and words are inserted.
//! These words are words of the format that the parser reads, and values that parsers often handle wrongly.
//!
//! A test checks each input with a property, which is a function that panics if the parser behaves wrongly. If the
//! property panics for an input, pieces of the input are removed as long as the property still panics for the rest. At
//! the end, this smallest input is printed.
//!
//! Two variables of the environment set the amount of work:
//! - `BANDOG_FUZZ_INPUTS`: the number of inputs for each property, 3,000 by default;
//! - `BANDOG_FUZZ_SEED`: the seed, 1 by default. The same seed gives the same inputs, so that a failed run can be
//!   repeated.

use std::{
    env, process,
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread,
    time::Duration,
};

use proptest::{
    strategy::{NewTree, Strategy, ValueTree},
    test_runner::{Config, RngAlgorithm, RngSeed, TestCaseError, TestError, TestRng, TestRunner},
};
use rand::{Rng, RngExt};

/// The number of inputs for each property if `BANDOG_FUZZ_INPUTS` is not set.
const INPUTS: u32 = 3_000;
/// If the property takes longer than this for one input, the property counts as hanging. The time is long, because a
/// test might get no CPU time for seconds on a loaded machine.
const HANG: Duration = Duration::from_secs(30);
/// Maximum number of changes to one input.
const CHANGES: u32 = 6;
/// Maximum length of an input in bytes. Most parsers have a lower limit, so an input can be too long for them.
const LONGEST: usize = 8192;

/// Numbers and texts that parsers often handle wrongly, such as the limits of integers and unusual Unicode characters.
const AWKWARD: &[&str] = &[
    "0",
    "-1",
    "+1",
    "1",
    "00",
    "9",
    "60",
    "255",
    "256",
    "65536",
    "2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "1e309",
    "0.5",
    "NaN",
    "٣",
    "１",
    "\0",
    "\t",
    "\n",
    "\r\n",
    "\u{1b}[2J",
    "\u{202e}",
    "\u{200b}",
    "\u{a0}",
    "é",
    "e\u{301}",
    "ß",
    "İ",
    "漢字",
    "🦀",
    "👩\u{200d}👩\u{200d}👧",
    "\u{feff}",
    "\u{10ffff}",
    " ",
    "  ",
    "%",
    "%00",
    "%2F",
    "%ff",
    "\\",
    "\"",
    "'",
    "{",
    "}",
    "{{",
    "${",
    "[",
    "]",
    "(",
    ")",
    "*",
    "?",
    "/",
    "//",
    ":",
    "::",
    ";",
    ",",
    ",,",
    "-",
    "--",
    "=",
    "&",
    "@",
    "#",
    "~",
    "^",
    "$",
    "|",
    "<",
    ">",
    "!",
    "",
];

/// Checks a property with random texts that resemble the samples. `words` are the words of the format that the parser
/// reads. `name` is the name of the property in messages.
///
/// The property returns whether the parser accepted the text.
///
/// # Panics
/// If the property panics for an input. The message contains the input and the seed. This function also panics if the
/// parser accepted all inputs or refused all inputs, because then only half of the parser was tested.
///
/// If the property does not return, the input is printed and the process is aborted, after 30 s to 60 s.
pub fn texts(name: &str, samples: &[&str], words: &[&str], property: impl Fn(&str) -> bool) {
    let samples: Vec<&[u8]> = samples.iter().map(|sample| sample.as_bytes()).collect();
    bytes(name, &samples, words, |bytes| property(&String::from_utf8_lossy(bytes)));
}

/// Does the same as [`texts`], with random bytes instead of random texts.
///
/// # Panics
/// As [`texts`].
pub fn bytes(name: &str, samples: &[&[u8]], words: &[&str], property: impl Fn(&[u8]) -> bool) {
    let inputs = variable("BANDOG_FUZZ_INPUTS").map_or(INPUTS, |inputs| u32::try_from(inputs).unwrap_or(u32::MAX));
    let seed = variable("BANDOG_FUZZ_SEED").unwrap_or(1);
    let config =
        Config { cases: inputs, failure_persistence: None, rng_seed: RngSeed::Fixed(seed), ..Config::default() };
    let mut entropy = [0; 16];
    entropy[..8].copy_from_slice(&seed.to_le_bytes());
    entropy[8] = 1; // This generator does not accept a seed of only zeros.
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::XorShift, &entropy));
    let strategy = Resembling {
        samples: samples.iter().map(|sample| sample.to_vec()).collect(),
        words: words.iter().chain(AWKWARD).map(|word| word.as_bytes().to_vec()).collect(),
    };
    let watch = HangDetector::start(name);
    let accepted = std::cell::Cell::new(0_u64);
    let outcome = runner.run(&strategy, |input| {
        watch.begin(&input);
        accepted.set(accepted.get() + u64::from(property(&input)));
        Ok::<_, TestCaseError>(())
    });
    drop(watch);
    match outcome {
        Ok(()) => {}
        Err(TestError::Fail(why, input)) => {
            panic!("{name}, seed {seed}: {why}\nthe smallest input that fails: b\"{}\"", input.escape_ascii())
        }
        Err(TestError::Abort(why)) => panic!("{name}, seed {seed}: {why}"),
    }
    let accepted = accepted.get();
    println!("fuzz: {name}: {inputs} inputs, {accepted} accepted");
    assert!(inputs < INPUTS || accepted > 0, "{name}: no input was accepted, so the samples are wrong");
    assert!(inputs < INPUTS || accepted < u64::from(inputs), "{name}: every input was accepted");
}

fn variable(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{name} is {text:?}, which is not a number")))
}

/// Generates inputs that resemble samples.
#[derive(Debug)]
struct Resembling {
    samples: Vec<Vec<u8>>,
    words: Vec<Vec<u8>>,
}

impl Strategy for Resembling {
    type Tree = Shrinking;
    type Value = Vec<u8>;

    fn new_tree(&self, runner: &mut TestRunner) -> NewTree<Self> {
        let rng = runner.rng();
        let mut input = pick(rng, &self.samples).clone();
        if rng.random_ratio(1, 4) {
            let (cut, other) = (rng.random_range(0..=input.len()), pick(rng, &self.samples));
            input.truncate(cut);
            input.extend_from_slice(&other[rng.random_range(0..=other.len())..]);
        }
        // A small number of changes is more probable than a large number, because the parser accepts an input with few
        // changes more often. If the parser accepts the input, more code of the parser is executed.
        let changes = rng.random_range(0..=CHANGES);
        for _ in 0..rng.random_range(0..=changes) {
            self.change(&mut input, rng);
        }
        input.truncate(LONGEST);
        Ok(Shrinking::new(input))
    }
}

impl Resembling {
    /// Makes one random change to the input.
    fn change(&self, input: &mut Vec<u8>, rng: &mut TestRng) {
        let from = rng.random_range(0..=input.len());
        let to = (from + rng.random_range(0..=8)).min(input.len());
        match rng.random_range(0..8) {
            0 if from < input.len() => input[from] = rng.random(),
            1 if from < input.len() => input[from] = rng.random_range(b' '..=b'~'),
            2 => drop(input.drain(from..to)),
            3 => {
                let piece = input[from..to].to_vec();
                let times = if rng.random_ratio(1, 16) { rng.random_range(1..300) } else { 1 };
                input.splice(from..from, piece.repeat(times));
            }
            4 => drop(input.splice(from..to, pick(rng, &self.words).iter().copied())),
            5 => {
                // A number is replaced as a whole, because changes inside a number rarely matter to a parser.
                let start = (0..from).rev().take_while(|at| input[*at].is_ascii_digit()).last().unwrap_or(from);
                let end = (from..input.len()).find(|at| !input[*at].is_ascii_digit()).unwrap_or(input.len());
                input.splice(start..end, pick(rng, &self.words).iter().copied());
            }
            6 => {
                let other = pick(rng, &self.samples);
                let start = rng.random_range(0..=other.len());
                let end = (start + rng.random_range(0..=16)).min(other.len());
                input.splice(from..to, other[start..end].iter().copied());
            }
            _ => drop(input.splice(from..from, pick(rng, &self.words).iter().copied())),
        }
    }
}

fn pick<'a, T>(rng: &mut impl Rng, from: &'a [T]) -> &'a T {
    &from[rng.random_range(0..from.len())]
}

/// Removes pieces of an input as long as the property still panics for the rest. Large pieces are removed first.
#[derive(Debug)]
struct Shrinking {
    input: Vec<u8>,
    /// The input before the last removal.
    before: Vec<u8>,
    /// The index of the first byte of the next piece that is removed.
    at: usize,
    /// The length of the next piece that is removed.
    size: usize,
}

impl Shrinking {
    fn new(input: Vec<u8>) -> Self {
        let size = input.len().div_ceil(2);
        Self { before: Vec::new(), input, at: 0, size }
    }
}

impl ValueTree for Shrinking {
    type Value = Vec<u8>;

    fn current(&self) -> Vec<u8> {
        self.input.clone()
    }

    /// Removes the next piece. Returns false if no pieces are left to remove.
    fn simplify(&mut self) -> bool {
        while self.size > 0 {
            if self.at < self.input.len() {
                self.before.clone_from(&self.input);
                let end = (self.at + self.size).min(self.input.len());
                self.input.drain(self.at..end);
                return true;
            }
            self.at = 0;
            self.size /= 2;
        }
        false
    }

    /// Puts the last removed piece back, because the property did not panic for the rest. Then removes the next piece.
    fn complicate(&mut self) -> bool {
        self.input.clone_from(&self.before);
        self.at += self.size;
        self.simplify()
    }
}

/// If the property takes too long for one input, prints this input and aborts the process.
struct HangDetector {
    /// The number of the present input, and its bytes.
    current: Arc<Mutex<(u64, Vec<u8>)>>,
    /// Dropping this sender ends the detector's thread.
    _ends: mpsc::Sender<()>,
}

impl HangDetector {
    /// Starts the detector's thread. `name` is the name of the property.
    fn start(name: &str) -> Self {
        let current = Arc::new(Mutex::new((0, Vec::new())));
        let (ends, ended) = mpsc::channel();
        let (name, seen) = (name.to_owned(), Arc::clone(&current));
        thread::spawn(move || {
            let mut last = 0;
            while ended.recv_timeout(HANG) == Err(mpsc::RecvTimeoutError::Timeout) {
                let current = seen.lock().unwrap_or_else(PoisonError::into_inner);
                if current.0 == last && last > 0 {
                    eprintln!("{name} hangs on the input b\"{}\"", current.1.escape_ascii());
                    process::abort();
                }
                last = current.0;
            }
        });
        Self { current, _ends: ends }
    }

    /// Records that the property begins with this input.
    fn begin(&self, input: &[u8]) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        current.0 += 1;
        current.1.clear();
        current.1.extend_from_slice(input);
    }
}

#[cfg(test)]
mod tests;
