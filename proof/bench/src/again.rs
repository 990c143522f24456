//! Other processes of this program, which have a role in a part.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, Command, Stdio},
};

/// A process with a role. It is killed when this value is dropped.
pub(crate) struct Again(Child);

impl Again {
    /// Starts a process with this role and its arguments.
    pub(crate) fn start(role: &[&str]) -> Self {
        let program = std::env::current_exe().expect("this program has a path");
        let mut command = Command::new(program);
        command.arg("--be").args(role).stdin(Stdio::piped()).stdout(Stdio::piped());
        Self(command.spawn().expect("this program starts again"))
    }

    /// Waits until the process prints its first line, which must be this one.
    pub(crate) fn wait_for(&mut self, expected: &str) {
        let out = self.0.stdout.take().expect("the process has an output");
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line).expect("the process prints a line");
        assert_eq!(line.trim_end(), expected);
    }

    pub(crate) fn kill(&mut self) {
        self.0.kill().expect("killed");
    }

    /// Ends its standard input, which ends the process.
    pub(crate) fn stop(&mut self) {
        drop(self.0.stdin.take());
    }

    /// Ends its standard input. Returns the output when the process has ended.
    pub(crate) fn output(mut self) -> String {
        self.stop();
        let mut text = String::new();
        let out = self.0.stdout.as_mut().expect("the process has an output");
        out.read_to_string(&mut text).expect("the process prints a text");
        text
    }
}

impl Drop for Again {
    fn drop(&mut self) {
        // The process might have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits in a process of this kind until its standard input ends.
pub(crate) async fn input_ends() {
    let end = tokio::task::spawn_blocking(|| std::io::stdin().read(&mut [0]));
    end.await.expect("no panic").expect("an input");
}
