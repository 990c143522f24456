//! `bandog grid queue NAME work`: gives the elements of a queue to a command.

use std::{convert::Infallible, ffi::OsString, fs::File, process::Stdio, time::Duration};

use bandog::grid::{ClientGrid, Deque, Taken, codec::Bytes};
use rustix::process::Signal;
use tokio::time::{sleep, timeout};

use super::{
    call::{Common, Trouble},
    codec::Codec,
};
use crate::{
    console::{StatusLine, report},
    exit_code::ExitCode,
    fault::Fault,
    lock::{
        EXIT_TIMEOUT,
        grace::Grace,
        watch::{ChildEnd, Hold, LockDanger, watch},
    },
    process_tree::{Child, ProcessTree, heir::Heir, input},
    runtime,
    signals::Signals,
    store::{self, Store},
};

/// The default lease of an element.
pub(super) const LEASE: Duration = Duration::from_secs(30);
/// The maximum duration of one wait for an element; the worker then waits again.
const WAIT: Duration = Duration::from_secs(86_400);
/// The pause after the first failure, and the longest pause.
const PAUSES: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(30)];
/// The time for which an element that is on its way is waited for at the end, so that it goes back at once.
const ON_ITS_WAY: Duration = Duration::from_millis(100);
/// Interval between two progress lines.
const PROGRESS: Duration = Duration::from_secs(1);

type Element = Taken<Vec<u8>>;

impl Hold for Element {
    fn remaining(&self) -> Duration {
        self.remaining()
    }

    fn is_lost(&self) -> bool {
        self.is_lost()
    }

    fn expiring(&self, grace: Duration) -> impl Future<Output = ()> + Send {
        self.expiring(grace)
    }
}

/// What a worker has to do.
pub(super) struct Order<'a> {
    pub(super) name: &'a str,
    pub(super) words: &'a [OsString],
    pub(super) common: &'a Common,
    pub(super) lease: Duration,
    pub(super) count: Option<u64>,
    pub(super) idle: Option<Duration>,
}

/// Runs the command for each element.
pub(super) fn run(order: &Order<'_>) -> Result<ExitCode, Fault> {
    let Order { name, words, common: Common { codec, store, format }, .. } = *order;
    if words.is_empty() {
        return Err(Fault::usage("`work` needs a command: bandog grid queue NAME work -- CMD"));
    }
    if format.json {
        return Err(Fault::usage("`work` prints the output of CMD only, so it has no --json"));
    }
    let grace = Grace::new(order.lease, true, None)?;
    let store = Store::of(store)?;
    let client = store.object_client()?;
    let queue = client.grid().deque(name).map_err(|error| store.fault(&error))?.codec(Bytes).lease(order.lease);
    // Everything runs on the main thread, because the kernel kills the child when the thread that started it exits.
    runtime::block_on_with_io(async {
        let on_terminal = File::open("/dev/tty").is_ok();
        let signals = Signals::catch(on_terminal).map_err(|error| Fault::system("cannot catch signals", error))?;
        store.report_use(&format!("working on {name:?} in"));
        let (codec, store) = (*codec, &store);
        let mut worker =
            Worker { order, queue, codec, store, grace, on_terminal, signals, deliveries: 0, failures: 0, in_a_row: 0 };
        let ended = worker.work().await;
        // If the store does not answer, the client's rows stay until their ttl is over.
        let _ = timeout(EXIT_TIMEOUT, client.close()).await;
        ended.or_else(|trouble| trouble.report(store))
    })
}

/// A worker of a queue.
struct Worker<'a> {
    order: &'a Order<'a>,
    queue: Deque<Vec<u8>, Bytes>,
    codec: Codec,
    store: &'a Store,
    grace: Grace,
    /// Whether bandog has a terminal. If not, the command gets its own process group.
    on_terminal: bool,
    signals: Signals,
    deliveries: u64,
    failures: u64,
    /// The number of failures since the last success.
    in_a_row: u32,
}

/// The end of a wait.
enum Next {
    Element(Element),
    /// There was no element for the time of --idle.
    Idle,
    Signal(Signal),
}

/// The end of a delivery.
enum End {
    Done,
    /// The element is in the queue again.
    Failed,
    /// The element is in the queue again, and the worker ends with this code.
    Exit(ExitCode),
}

impl Worker<'_> {
    async fn work(&mut self) -> Result<ExitCode, Trouble> {
        let Order { count, idle, .. } = *self.order;
        while count.is_none_or(|count| self.deliveries < count) {
            let element = match self.next(idle).await? {
                Next::Element(element) => element,
                Next::Idle => break,
                Next::Signal(signal) => return Ok(ExitCode::Signal(signal.as_raw())),
            };
            self.deliveries += 1;
            match self.deliver(element).await? {
                End::Done => self.in_a_row = 0,
                End::Exit(code) => return Ok(code),
                End::Failed => {
                    self.failures += 1;
                    let [first, longest] = PAUSES;
                    let pause = (first * 2u32.saturating_pow(self.in_a_row.min(16))).min(longest);
                    self.in_a_row = self.in_a_row.saturating_add(1);
                    if count.is_some_and(|count| self.deliveries >= count) {
                        break;
                    }
                    tokio::select! { biased;
                        signal = self.signals.ending() => return Ok(ExitCode::Signal(signal.as_raw())),
                        () = sleep(pause) => {}
                    }
                }
            }
        }
        Ok(if self.failures == 0 { ExitCode::Done } else { ExitCode::Failed })
    }

    /// Waits for an element.
    async fn next(&mut self, idle: Option<Duration>) -> Result<Next, Trouble> {
        let progress = progress(self.order.name, self.deliveries, self.failures);
        tokio::pin!(progress);
        loop {
            let taking = self.queue.take(idle.unwrap_or(WAIT));
            tokio::pin!(taking);
            let taken = tokio::select! { biased;
                signal = self.signals.ending() => {
                    // Without this, an element that is on its way would be available after its lease only.
                    if let Ok(Ok(Some(element))) = timeout(ON_ITS_WAY, taking).await {
                        element.release().await?;
                    }
                    return Ok(Next::Signal(signal));
                }
                taken = &mut taking => taken?,
                never = &mut progress => match never {},
            };
            match taken {
                Some(element) => return Ok(Next::Element(element)),
                None if idle.is_some() => return Ok(Next::Idle),
                None => {}
            }
        }
    }

    /// Runs the command for an element.
    async fn deliver(&mut self, element: Element) -> Result<End, Trouble> {
        let mut processes = match self.start(&element) {
            Ok(processes) => processes,
            Err(fault) => {
                self.release(element).await;
                return Err(fault.into());
            }
        };
        let grace = self.grace.within(element.remaining(), self.order.lease, None);
        let ended = watch(&element, &mut processes, &mut self.signals, grace, |caught| caught.ending()).await;
        processes.release();
        let title = format!(
            "the element (fence {}, delivery {}) of {:?}",
            element.fence().get(),
            element.delivery(),
            self.order.name
        );
        let code = match ended {
            ChildEnd::ByItself(code) => code,
            ChildEnd::Stopped { by, survivors } => {
                survivors.iter().for_each(|process| report_survivor(process.pid));
                self.release(element).await;
                return Ok(End::Exit(ExitCode::Signal(by.as_raw())));
            }
            ChildEnd::ForTheLock { danger, survivors } => {
                report(&match danger {
                    LockDanger::Expiring => {
                        format!("the lease of {title} could not be renewed, so the command was terminated")
                    }
                    LockDanger::Expired | LockDanger::Gone => {
                        format!("{title} was lost, so the command was terminated; another worker may have it")
                    }
                });
                survivors.iter().for_each(|process| report_survivor(process.pid));
                // The drop gives the element back, if it is not lost yet.
                drop(element);
                return Ok(End::Failed);
            }
        };
        match code.number() {
            0 => match element.done().await {
                Ok(()) => Ok(End::Done),
                Err(error) => {
                    report(&format!("{title} is done, but may come again: {error}"));
                    Ok(End::Failed)
                }
            },
            number => {
                report(&format!("the command exited with {number}; {title} goes back"));
                self.release(element).await;
                // The program cannot be started for any other element either.
                let cannot_run = matches!(code, ExitCode::Child(126 | 127));
                Ok(if cannot_run { End::Exit(code) } else { End::Failed })
            }
        }
    }

    /// Starts the command, with the element on its standard input.
    fn start(&self, element: &Element) -> Result<ProcessTree, Fault> {
        let stdin = self.input(element)?;
        let marks = [("BANDOG_NAME", self.order.name.to_owned()), ("BANDOG_FENCE", element.fence().get().to_string())];
        let heir = Heir::appoint(&marks)?;
        let url = self.store.for_child().map(|url| (store::VARIABLE, url));
        let delivery = ("BANDOG_DELIVERY", element.delivery().to_string());
        let variables = marks.into_iter().chain([delivery]).chain(url).collect();
        ProcessTree::start(
            Child {
                command: self.order.words,
                variables,
                stdin: Stdio::from(stdin),
                stdout: Stdio::inherit(),
                own_group: !self.on_terminal,
            },
            Some(heir),
        )
    }

    /// The element as a file in memory.
    fn input(&self, element: &Element) -> Result<File, Fault> {
        let text = match self.codec {
            Codec::Text => element.to_vec(),
            Codec::Json | Codec::Kryo5 => {
                let shown = self.codec.read(element);
                shown
                    .map_err(|error| Fault::new(ExitCode::Denied, format!("an element cannot be read: {error}")))?
                    .text
                    .into_bytes()
            }
        };
        input::file_of(&text).map_err(|error| Fault::system("cannot pass an element to the command", error))
    }

    /// Makes the element available again.
    async fn release(&self, element: Element) {
        if let Err(error) = element.release().await {
            report(&format!("{error}\n  the element is available again after its lease at the latest"));
        }
    }
}

fn report_survivor(pid: rustix::process::Pid) {
    report(&format!("process {pid} cannot be killed and still runs"));
}

/// Runs beside a wait, and never ends: draws a line with the progress, if there is a terminal.
async fn progress(name: &str, deliveries: u64, failures: u64) -> Infallible {
    let mut waited = Duration::ZERO;
    sleep(PROGRESS).await;
    let Some(line) = StatusLine::on_terminal() else { return std::future::pending().await };
    loop {
        waited += PROGRESS;
        let waited = humantime::format_duration(waited);
        line.draw(&format!("waiting {waited} for elements of {name:?}; {deliveries} delivered, {failures} went back"));
        sleep(PROGRESS).await;
    }
}
