//! The test programs of the workspace, and a run of several of them at the same time.

use std::env;
use std::io::{BufRead, BufReader};
use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use serde_json::Value;

use crate::fault::Fault;
use crate::record::{self, DOCTESTS};
use crate::since::UNIT;
use crate::step;
use crate::tally::Tally;

/// Parts of the names of tests with Java that only `cargo xtask interop` and `cargo xtask prove` run: many processes on one
/// object, the older version of Redisson, and Java without bandog.
const JAVA_PROOFS: &[&str] = &["contended::", "counter::", "old_java", "both_versions", "java_alone"];

/// The programs that measure times, or that fill the machine with processes. They run after the others, one at a time.
const ALONE: &[&str] = &["bandog-cli demo", "bandog-why it"];

/// The programs whose tests wait for timers and leases most of the time, so that more of them run at the same time than
/// the machine has cores.
const WAITING: &[&str] = &[
    "bandog-conformance seventh",
    "bandog-quorum it",
    "bandog-redis laws",
    "bandog-redis-data laws",
    "bandog-sql it",
    "bandog-sql laws",
    "bandog-sql mysql_laws",
    "bandog-sqlite laws",
    "bandog-sqlx it",
    "bandog-zookeeper laws",
];

/// The programs whose leases are short, and those that keep the processors busy: the latter start after the former.
const SHORT_LEASES: &[&str] = &["bandog-sql laws", "bandog-sql mysql_laws"];
const BUSY: &[&str] = &["bandog-interop interop", "bandog-example-redisson-neighbour interop", DOCTESTS];

/// Programs with tests that have a long form (`BANDOG_TEST_LONG=1`), and a part of the names of these tests. They are proofs,
/// too.
const LONG_FORMS: &[(&str, &str)] = &[("bandog-sql unit tests", "same_rules")];

/// The environment variable with the number of tests that a program runs at the same time.
const THREADS: &str = "RUST_TEST_THREADS";

/// A test program that cargo has built.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TestProgram {
    /// The package and the target, such as `bandog-redis laws`.
    name: String,
    package: String,
    program: PathBuf,
    /// The folder of the package, in which the program runs.
    folder: PathBuf,
    args: Vec<String>,
    /// Variables of its environment.
    variables: Vec<(&'static str, PathBuf)>,
}

/// Builds test programs with this command of cargo. None if they cannot be built.
pub(crate) fn build(what: &str, cargo: &mut Command) -> Result<Option<Vec<TestProgram>>, Fault> {
    let mut programs = Vec::new();
    cargo.args(["--no-run", "--message-format=json-render-diagnostics"]);
    let built = step::read(what, cargo, |line| programs.extend(TestProgram::of(line)))?;
    Ok(built.then_some(programs))
}

/// Fails if one of [`ALONE`], [`WAITING`], [`SHORT_LEASES`] or [`LONG_FORMS`] is not among these programs, which are all
/// programs.
pub(crate) fn check_names(programs: &[TestProgram]) -> Result<(), Fault> {
    let is_built = |name: &&&str| programs.iter().any(|program| program.name == **name);
    let long_forms = LONG_FORMS.iter().map(|(name, _)| name);
    let mut names = ALONE.iter().chain(WAITING).chain(SHORT_LEASES).chain(long_forms);
    match names.find(|name| !is_built(name)) {
        Some(name) => Err(Fault::failed(format!("no test program is called {name:?}; correct its name in xtask"))),
        None => Ok(()),
    }
}

/// Leaves [`JAVA_PROOFS`] out of the tests with Java.
pub(crate) fn without_proofs(mut java: Vec<TestProgram>) -> Vec<TestProgram> {
    let skip = || JAVA_PROOFS.iter().flat_map(|part| ["--skip".to_owned(), (*part).to_owned()]);
    java.iter_mut().for_each(|program| program.args.extend(skip()));
    java
}

/// Runs the programs, in this number of lanes, and then those of [`ALONE`]. Those that took the longest in the recorded run
/// of all tests start first, so that no lane is still busy with one of them when the others have nothing left to do. The
/// output of a program is printed when it ends. Returns whether all have succeeded.
pub(crate) fn run(mut programs: Vec<TestProgram>, lanes: NonZeroUsize, tally: &mut Tally) -> Result<bool, Fault> {
    let recorded = record::read()?;
    let seconds = |program: &TestProgram| recorded.seconds(&program.name).unwrap_or(f64::MAX);
    programs.sort_by(|one, other| seconds(other).total_cmp(&seconds(one)));
    let (alone, beside): (Vec<_>, Vec<_>) = programs.into_iter().partition(|program| program.is_one_of(ALONE));
    let succeeded = run_in_lanes(beside, lanes, tally)?;
    Ok(run_in_lanes(alone, NonZeroUsize::MIN, tally)? && succeeded)
}

/// Runs all tests of `proofs`, and of the other programs the tests of [`LONG_FORMS`], one program at a time. Returns whether
/// all have succeeded.
pub(crate) fn prove(
    proofs: Vec<TestProgram>,
    mut programs: Vec<TestProgram>,
    tally: &mut Tally,
) -> Result<bool, Fault> {
    programs.retain_mut(|program| {
        let long_form = LONG_FORMS.iter().find(|(name, _)| program.name == *name);
        program.args.extend(long_form.map(|(_, tests)| (*tests).to_owned()));
        long_form.is_some()
    });
    run_in_lanes(proofs.into_iter().chain(programs).collect(), NonZeroUsize::MIN, tally)
}

/// Runs the programs. Each lane runs one program after another.
fn run_in_lanes(programs: Vec<TestProgram>, lanes: NonZeroUsize, tally: &mut Tally) -> Result<bool, Fault> {
    let short = programs.iter().filter(|program| program.is_one_of(SHORT_LEASES)).count();
    let (waiting, tally) = (Mutex::new(Waiting { programs, short }), Mutex::new(tally));
    thread::scope(|scope| {
        let lane = || -> Result<bool, Fault> {
            let mut succeeded = true;
            loop {
                let Some(program) = lock(&waiting).next() else { return Ok(succeeded) };
                succeeded &= program.run(&tally)?;
                lock(&waiting).ended(&program);
            }
        };
        let lanes: Vec<_> = (0..lanes.get()).map(|_| scope.spawn(lane)).collect();
        let results: Vec<_> =
            lanes.into_iter().map(|lane| lane.join().unwrap_or_else(|panic| resume_unwind(panic))).collect();
        results.into_iter().try_fold(true, |succeeded, lane| Ok(succeeded & lane?))
    })
}

/// The programs that have not started.
struct Waiting {
    programs: Vec<TestProgram>,
    /// The number of programs of [`SHORT_LEASES`] that have not ended.
    short: usize,
}

impl Waiting {
    /// The first program that may start: none of [`BUSY`] beside one of [`SHORT_LEASES`], unless nothing else is left.
    fn next(&mut self) -> Option<TestProgram> {
        let may_start = |program: &TestProgram| self.short == 0 || !program.is_one_of(BUSY);
        let first = self.programs.iter().position(may_start).unwrap_or_default();
        (first < self.programs.len()).then(|| self.programs.remove(first))
    }

    fn ended(&mut self, program: &TestProgram) {
        self.short -= usize::from(program.is_one_of(SHORT_LEASES));
    }
}

impl TestProgram {
    /// The program of a message of cargo. None if the message is not about a test program.
    fn of(line: &str) -> Option<Self> {
        let message: Value = serde_json::from_str(line).ok()?;
        if !message["profile"]["test"].as_bool()? {
            return None;
        }
        let program = PathBuf::from(message["executable"].as_str()?);
        let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_path_buf();
        let target = &message["target"];
        let package = package_of(message["package_id"].as_str()?)?.to_owned();
        let is_test = target["kind"].as_array()?.iter().any(|kind| kind == "test");
        let target = if is_test { target["name"].as_str()? } else { UNIT };
        let name = format!("{package} {target}");
        Some(Self { name, package, program, folder, args: Vec::new(), variables: Vec::new() })
    }

    /// A run of doctests with these arguments of cargo.
    pub(crate) fn doctests(args: &[&str]) -> Result<Self, Fault> {
        let cargo = step::cargo(args);
        let program = cargo.get_program().into();
        let folder = env::current_dir().map_err(|error| Fault::failed(format!("cannot find the root: {error}")))?;
        let args = cargo.get_args().map(|arg| arg.to_string_lossy().into_owned()).collect();
        let variables = step::settings().map(|(name, value)| (name, value.into())).collect();
        Ok(Self { name: DOCTESTS.to_owned(), package: String::new(), program, folder, args, variables })
    }

    /// The package and the target, such as `bandog-redis laws`.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether this is the program of a target of a package.
    pub(crate) fn is(&self, package: &str, target: &str) -> bool {
        self.package == package && self.name.split_once(' ').is_some_and(|(_, name)| name == target)
    }

    fn is_one_of(&self, names: &[&str]) -> bool {
        names.contains(&self.name.as_str())
    }

    /// Adds an argument, such as a part of the names of the tests to run.
    pub(crate) fn arg(&mut self, arg: &str) {
        self.args.push(arg.to_owned());
    }

    /// Sets a variable of the environment.
    pub(crate) fn set(&mut self, (name, path): (&'static str, &Path)) {
        self.variables.push((name, path.to_owned()));
    }

    /// Runs the program, and prints its output as a whole. Returns whether it has succeeded.
    fn run(&self, tally: &Mutex<&mut Tally>) -> Result<bool, Fault> {
        let cannot = |error| Fault::unavailable(format!("cannot run {}: {error}", self.program.display()));
        step::headline(&format!("started: {}", self.name));
        let start = Instant::now();
        let mut child = self.command().stdout(Stdio::piped()).spawn().map_err(cannot)?;
        let stdout = child.stdout.take().into_iter();
        let mut output = Vec::new();
        for line in stdout.flat_map(|pipe| BufReader::new(pipe).split(b'\n')).map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).into_owned();
            if line.ends_with(" has been running for over 60 seconds") {
                eprintln!("{}: {line}", self.name);
            }
            output.push(line);
        }
        let status = child.wait().map_err(cannot)?;
        let mut tally = lock(tally);
        tally.took(&self.name, start.elapsed());
        println!("==> {}, {:.1} s", self.name, start.elapsed().as_secs_f64());
        for line in &output {
            println!("{line}");
            tally.see(line);
        }
        if !status.success() {
            println!("==> failed: {} ({status})", self.name);
            tally.failures.push(format!("{} ({status})", self.name));
        }
        Ok(status.success())
    }

    /// The command of the program, with the variables that cargo sets. The paths of libraries are inherited from cargo,
    /// which runs this task.
    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.current_dir(&self.folder).args(&self.args).envs(self.variables.iter().cloned());
        if self.name == DOCTESTS {
            step::forget_package(&mut command);
        } else {
            command.env("CARGO_MANIFEST_DIR", &self.folder).env("CARGO_PKG_NAME", &self.package);
        }
        if self.is_one_of(WAITING) && env::var_os(THREADS).is_none() {
            let cores = thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
            command.env(THREADS, cores.saturating_mul(NonZeroUsize::MIN.saturating_add(1)).to_string());
        }
        command
    }
}

/// The name of the package, as in `path+file:///folder/bandog-redis#0.1.0` or `path+file:///bench#bandog-bench@0.1.0`.
fn package_of(id: &str) -> Option<&str> {
    let (path, version) = id.split_once('#')?;
    match version.split_once('@') {
        Some((name, _)) => Some(name),
        None => path.rsplit('/').next(),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_in_the_messages_of_cargo() {
        let message = |id: &str, kind: &str, test: bool| {
            format!(
                r#"{{"reason":"compiler-artifact","package_id":"{id}","manifest_path":"/w/crates/x/Cargo.toml",
                "target":{{"kind":["{kind}"],"name":"laws"}},"profile":{{"test":{test}}},"executable":"/w/target/laws-1"}}"#
            )
        };
        let program = |name: &str, package: &str| TestProgram {
            name: name.into(),
            package: package.into(),
            program: "/w/target/laws-1".into(),
            folder: "/w/crates/x".into(),
            args: Vec::new(),
            variables: Vec::new(),
        };
        let of = |id, kind, test| TestProgram::of(&message(id, kind, test));
        assert_eq!(of("path+file:///w/crates/x#0.1.0", "test", true), Some(program("x laws", "x")));
        assert_eq!(
            of("path+file:///w/bench#bench-x@0.1.0", "lib", true),
            Some(program("bench-x unit tests", "bench-x"))
        );
        assert_eq!(of("path+file:///w/crates/x#0.1.0", "bin", false), None);
        assert_eq!(TestProgram::of(r#"{"reason":"build-finished","success":true}"#), None);
        assert_eq!(TestProgram::of("some other text"), None);
    }

    fn script(name: &str, program: &str) -> TestProgram {
        TestProgram {
            name: name.into(),
            package: name.into(),
            program: program.into(),
            folder: "/".into(),
            args: Vec::new(),
            variables: Vec::new(),
        }
    }

    #[test]
    fn a_busy_program_waits_for_the_end_of_short_leases() {
        let programs = [BUSY[0], SHORT_LEASES[0], "other"].map(|name| script(name, "true")).into();
        let mut waiting = Waiting { programs, short: 1 };
        let mut next = || waiting.next().map(|program| program.name);
        assert_eq!([next(), next()], [Some(SHORT_LEASES[0].to_owned()), Some("other".to_owned())]);
        let programs = vec![script(BUSY[0], "true"), script("other", "true")];
        let mut waiting = Waiting { programs, short: 1 };
        waiting.ended(&script(SHORT_LEASES[0], "true"));
        assert_eq!(waiting.next().map(|program| program.name).as_deref(), Some(BUSY[0]));
    }

    #[test]
    fn each_program_runs_once_and_a_failure_is_reported() {
        let all_succeed = ["one", "two", ALONE[0], "three", ALONE[1]].map(|name| script(name, "true")).into();
        let (lanes, mut tally) = (NonZeroUsize::new(2).expect("two"), Tally::default());
        assert!(run(all_succeed, lanes, &mut tally).is_ok_and(|succeeded| succeeded));
        assert!(tally.times.keys().eq([ALONE[0], ALONE[1], "one", "three", "two"]));
        assert!(tally.failures.is_empty());
        let one_fails = vec![script("good", "true"), script("bad", "false"), script(ALONE[0], "true")];
        assert!(run(one_fails, lanes, &mut tally).is_ok_and(|succeeded| !succeeded));
        assert_eq!(tally.failures, ["bad (exit status: 1)"]);
        assert!(run(vec![script("none", "/does/not/exist")], lanes, &mut tally).is_err());
    }
}
