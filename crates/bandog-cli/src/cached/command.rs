//! Runs the command, and keeps what it writes.

use std::{ffi::OsString, fs::File, io, os::fd::OwnedFd, process::Stdio, time::Duration};

use bandog::grid::Limits;
use rustix::io::ioctl_fionread;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, stdout},
    net::unix::pipe,
    pin, select,
    sync::{Notify, oneshot},
    time::interval,
};

use crate::{
    console::report,
    exit_code::ExitCode,
    fault::Fault,
    print,
    process_tree::{Child, ProcessTree, heir::Heir},
    signals::Signals,
    store,
};

/// The variable by which the heir recognizes the processes of a run.
const MARK: &str = "BANDOG_CACHED";
/// Maximum interval between two checks of the command. The command is polled because the parent of bandog might have
/// blocked SIGCHLD.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// Maximum number of bytes of one read.
const CHUNK: usize = 64 * 1024;

/// What a run gives to the cache: the output, or that there is none.
pub(super) type Loaded = Result<Option<Vec<u8>>, &'static str>;
/// Where it goes.
pub(super) type Answer = oneshot::Sender<Loaded>;

/// Runs the command.
pub(super) struct Runner<'a> {
    command: &'a [OsString],
    /// The URL for the command, without its password.
    url: Option<String>,
    pub(super) signals: Signals,
    /// Whether bandog has a terminal. If not, the command gets its own process group.
    on_terminal: bool,
}

/// A run that has ended.
pub(super) struct Ran {
    pub(super) code: ExitCode,
    /// The output that is not printed yet.
    pub(super) output: Vec<u8>,
    /// Whether the output may be stored: it is not too large, and no signal to bandog asked for an end.
    pub(super) is_whole: bool,
    /// Whether the output is too large to be stored.
    pub(super) is_large: bool,
}

impl<'a> Runner<'a> {
    /// From now on, catches signals.
    pub(super) fn new(command: &'a [OsString], url: Option<String>) -> Result<Self, Fault> {
        let on_terminal = File::open("/dev/tty").is_ok();
        let signals = Signals::catch(on_terminal).map_err(|error| Fault::system("cannot catch signals", error))?;
        Ok(Self { command, url, signals, on_terminal })
    }

    /// Runs the command to its end, and forwards signals. `answer` is dropped when the output is too large to be stored.
    pub(super) async fn run(&mut self, answer: &mut Option<Answer>) -> Result<Ran, Fault> {
        let no_pipe = |error| Fault::system("cannot open a pipe", error);
        let (from, to) = io::pipe().map_err(no_pipe)?;
        let from = pipe::Receiver::from_owned_fd(OwnedFd::from(from)).map_err(no_pipe)?;
        let mut processes = self.start(Stdio::from(to))?;
        let (mut output, ended) = (Output { kept: Vec::new(), is_large: false }, Notify::new());
        let (mut is_interrupted, mut printed) = (false, None);
        let code = {
            let reading = output.read(from, &ended, answer);
            pin!(reading);
            let mut check = interval(CHECK_INTERVAL);
            let code = loop {
                select! { biased;
                    caught = self.signals.next() => if !caught.is_child() {
                        is_interrupted |= caught.ending().is_some();
                        processes.forward(caught);
                    },
                    done = &mut reading, if printed.is_none() => printed = Some(done),
                    _ = check.tick() => {}
                }
                if let Some(code) = processes.reap() {
                    break code;
                }
            };
            ended.notify_one();
            if printed.is_none() {
                select! { biased;
                    done = &mut reading => printed = Some(done),
                    _ = self.signals.ending() => is_interrupted = true,
                }
            }
            code
        };
        processes.release();
        print::done(printed.unwrap_or(Ok(())))?;
        let Output { kept, is_large } = output;
        Ok(Ran { code, output: kept, is_whole: !is_interrupted && !is_large, is_large })
    }

    /// Starts the command, and its heir.
    fn start(&self, stdout: Stdio) -> Result<ProcessTree, Fault> {
        let marks = [(MARK, format!("{:032x}", fastrand::u128(..)))];
        let heir = Heir::appoint(&marks)?;
        let child = Child {
            command: self.command,
            variables: marks.into_iter().chain(self.url.clone().map(|url| (store::VARIABLE, url))).collect(),
            stdin: Stdio::null(),
            stdout,
            own_group: !self.on_terminal,
        };
        ProcessTree::start(child, Some(heir))
    }

    /// Prints an output. `code` is the exit code after that.
    pub(super) async fn print(&mut self, output: &[u8], code: ExitCode) -> Result<ExitCode, Fault> {
        select! { biased;
            printed = write(output) => print::done(printed).map(|_| code),
            signal = self.signals.ending() => Ok(ExitCode::Signal(signal.as_raw())),
        }
    }
}

/// The output of a run.
struct Output {
    /// The bytes that are not printed yet.
    kept: Vec<u8>,
    /// Whether the output is too large to be stored. Then it is printed as it comes.
    is_large: bool,
}

impl Output {
    /// Reads until all processes have closed the pipe, or `ended` reports the end of the command. What its background
    /// processes write later is not read.
    async fn read(&mut self, mut from: pipe::Receiver, ended: &Notify, answer: &mut Option<Answer>) -> io::Result<()> {
        let mut chunk = vec![0; CHUNK];
        // The number of bytes that are left in the pipe, once the command has ended.
        let mut left: Option<u64> = None;
        while left != Some(0) {
            let read = select! { biased;
                () = ended.notified(), if left.is_none() => {
                    left = Some(ioctl_fionread(&from)?);
                    continue;
                }
                read = from.read(&mut chunk) => read?,
            };
            if read == 0 {
                break;
            }
            left = left.map(|left| left.saturating_sub(read as u64));
            self.kept.extend_from_slice(&chunk[..read]);
            if self.kept.len() > Limits::default().element && !self.is_large {
                self.is_large = true;
                drop(answer.take());
                report("the output has more than 512 KiB, so it is not stored");
            }
            if self.is_large {
                write(&self.kept).await?;
                self.kept.clear();
            }
        }
        Ok(())
    }
}

/// Writes to standard output.
async fn write(output: &[u8]) -> io::Result<()> {
    let mut out = stdout();
    out.write_all(output).await?;
    out.flush().await
}
