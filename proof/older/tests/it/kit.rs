//! The commands of both versions.

use std::{
    env, fs,
    io::Write,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use bandog_testkit::Signal;
use tempfile::TempDir;

/// The variables with the paths of the commands.
pub(crate) const OLDER: &str = "BANDOG_OLDER";
pub(crate) const NEWER: &str = "BANDOG_NEWER";

/// A store, and the files of its workers.
pub(crate) struct Store {
    pub(crate) url: String,
    /// The exit code of older programs afterwards.
    pub(crate) refusal: &'static str,
    /// The URL with which an operator changes the layout, if that is necessary.
    pub(crate) operator: Option<String>,
    folder: TempDir,
}

/// A command that has ended.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// A command that runs. It is killed when this is dropped.
pub(crate) struct Runs(Option<Child>);

impl Store {
    pub(crate) fn new(url: String, refusal: &'static str, operator: Option<String>) -> Self {
        Self { url, refusal, operator, folder: TempDir::new().unwrap() }
    }

    pub(crate) fn with_url(self, url: String) -> Self {
        Self { url, ..self }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, program: &str, args: &[&str]) -> Command {
        let path = env::var_os(program).expect("`cargo xtask older` sets the paths of the commands");
        let mut command = Command::new(path);
        command.args(args).env("BANDOG_URL", &self.url).stdin(Stdio::piped());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs a command to its end.
    pub(crate) fn run(&self, program: &str, args: &[&str]) -> Program {
        Runs(Some(self.command(program, args).spawn().unwrap())).wait()
    }

    pub(crate) fn push(&self, program: &str, queue: &str, payload: &str) -> Program {
        self.run(program, &["push", queue, payload])
    }

    pub(crate) fn push_with_header(&self, program: &str, queue: &str, payload: &str) -> Program {
        self.run(program, &["push", queue, payload, "--header", "k=v"])
    }

    /// Begins to push these lines.
    pub(crate) fn push_lines(&self, program: &str, queue: &str, lines: &[String]) -> Runs {
        let mut pusher = self.open_pusher(program, queue);
        for line in lines {
            pusher.write(line);
        }
        drop(pusher.0.as_mut().unwrap().stdin.take());
        pusher
    }

    /// A command that pushes each line that it gets.
    pub(crate) fn open_pusher(&self, program: &str, queue: &str) -> Runs {
        Runs(Some(self.command(program, &["push", queue, "--lines"]).spawn().unwrap()))
    }

    /// A worker that writes each element, with its headers, as a line of a file when it is done.
    pub(crate) fn worker(&self, program: &str, queue: &str, before: &str) -> Runs {
        Runs(Some(self.work_command(program, queue, before, &["--workers", "4", "--lease", "3s"]).spawn().unwrap()))
    }

    /// Works until the queue is empty.
    pub(crate) fn work(&self, program: &str, queue: &str) -> Program {
        Runs(Some(self.work_command(program, queue, "true", &["--until-empty", "--lease", "3s"]).spawn().unwrap()))
            .wait()
    }

    fn work_command(&self, program: &str, queue: &str, before: &str, options: &[&str]) -> Command {
        let file = self.path(queue);
        let line = r#"printf '%s\n' "$(cat)${BANDOG_HEADERS:+ $BANDOG_HEADERS}""#;
        let script = format!("{before}; {line} >> '{}'", file.display());
        let mut command = self.command(program, &["work", queue]);
        command.args(options).args(["--", "sh", "-c", &script]);
        command
    }

    /// The lines of all workers of a queue.
    pub(crate) fn lines(&self, queue: &str) -> Vec<String> {
        fs::read_to_string(self.path(queue)).unwrap_or_default().lines().map(str::to_owned).collect()
    }

    /// The number of elements in a phase.
    pub(crate) fn count(&self, program: &str, queue: &str, phase: &str) -> u64 {
        let shown = self.run(program, &["queue", queue, "show", "--json"]);
        let found = shown.stdout.split_once(&format!("\"{phase}\":"));
        let digits = found.map(|(_, rest)| rest.chars().take_while(char::is_ascii_digit).collect::<String>());
        digits.and_then(|digits| digits.parse().ok()).unwrap_or_else(|| panic!("{shown:?}"))
    }

    pub(crate) fn assert_empty(&self, program: &str, queue: &str) {
        for phase in ["ready", "delayed", "blocked", "taken", "dead"] {
            assert_eq!(self.count(program, queue, phase), 0, "{phase} elements of {queue}");
        }
    }
}

impl Runs {
    /// Writes a line to its standard input.
    pub(crate) fn write(&mut self, line: &str) {
        let input = self.0.as_mut().unwrap().stdin.as_mut().unwrap();
        // A command that has ended reads nothing.
        let _ = writeln!(input, "{line}");
        let _ = input.flush();
    }

    /// Ends its standard input, and waits for its end.
    pub(crate) fn close(mut self) -> Program {
        drop(self.0.as_mut().unwrap().stdin.take());
        self.wait()
    }

    /// Waits for its end.
    pub(crate) fn wait(mut self) -> Program {
        let child = self.0.take().unwrap();
        let ended = child.wait_with_output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Program { code: ended.status.code().unwrap_or(-1), stdout: text(ended.stdout), stderr: text(ended.stderr) }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        bandog_testkit::process::send(self.0.as_ref().unwrap().id(), signal);
    }

    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.0.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Stops it as an operator does.
    pub(crate) fn stop(&mut self) {
        self.signal(Signal::TERM);
        self.0.take().unwrap().wait().unwrap();
    }
}

impl Drop for Runs {
    fn drop(&mut self) {
        self.kill();
    }
}
