//! A session of a command-line client: `psql` or `mariadb`.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

const END: &str = "end of the answer";

/// A session. The client ends when its input is closed.
pub(crate) struct Terminal {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Terminal {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, input, output }
    }

    /// Executes statements, and returns the lines of their rows.
    pub(crate) fn ask(&mut self, statements: &str) -> Vec<String> {
        let input = self.input.as_mut().unwrap();
        writeln!(input, "{statements};\nselect '{END}';").unwrap();
        input.flush().unwrap();
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "the client has ended: {statements}");
            if line.trim_end() == END {
                return lines;
            }
            lines.push(line.trim_end().to_owned());
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
    }
}
