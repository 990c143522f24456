//! One delivery: its command, and how the element is settled.

use std::{collections::BTreeMap, future::pending, time::Instant};

use bandog::{ErrorKind, backend::Clock, work::Delivery};
use tokio::{
    io::{AsyncWrite, AsyncWriteExt, stderr, stdout},
    sync::{oneshot, watch},
    time::{sleep, timeout},
};

use super::{
    order::Order,
    tally::{EndJson, Outcome, Tally},
};
use crate::{
    console::report_queued,
    kept::{
        Ended, Failure, Kept, Lease, Sink,
        output::{LineForm, Tail},
        program::Missing,
    },
    store,
};

/// The exit code of a command that asks for a retry.
const AGAIN: u8 = 75;
/// Maximum length of an error in the store, in bytes.
const MOST: usize = 4096;

/// An element for this worker.
pub(super) struct Job {
    pub(super) delivery: Delivery<Vec<u8>>,
    /// The handler in the library waits for this. It is closed if the element is lost, or was removed.
    pub(super) settled: oneshot::Sender<()>,
}

/// How far a worker has been stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stop {
    No,
    /// Running commands may continue.
    Drain,
    /// Running commands are ended.
    End,
    /// Running commands are killed.
    Kill,
}

/// Resolves when the worker is stopped at least so far.
pub(super) async fn stopped(stop: &watch::Receiver<Stop>, far: Stop) {
    if stop.clone().wait_for(|stop| *stop >= far).await.is_err() {
        pending::<()>().await;
    }
}

/// Why bandog has ended a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    /// The element is lost, or was removed.
    Lost,
    Timeout,
    Stop,
}

/// How a command has ended, for its element.
enum Verdict {
    Done,
    /// It is delivered again.
    Again {
        exit_code: Option<u8>,
        error: String,
        asks: bool,
    },
    HandBack {
        error: String,
    },
    Lost {
        error: String,
    },
}

impl Order<'_> {
    /// Runs the command for an element, and settles the element. If the program is missing, the element is handed back.
    pub(super) async fn deliver(
        &self,
        job: Job,
        missing: Option<Missing>,
        stop: &watch::Receiver<Stop>,
        tally: &Tally,
    ) {
        let Job { delivery, mut settled } = job;
        let begun = Instant::now();
        let verdict = match missing {
            Some(missing) => Verdict::HandBack { error: missing.to_string() },
            None => self.run(&delivery, &mut settled, stop).await,
        };
        let asks = matches!(verdict, Verdict::Again { asks: true, .. });
        let end = self.settle(&delivery, verdict).await.took(begun.elapsed());
        tally.count(end.end, asks);
        if end.end != Outcome::Lost {
            // The handler may have been dropped meanwhile.
            let _ = settled.send(());
        }
        if let Some(error) = &end.error {
            let first = error.lines().next().unwrap_or_default();
            let what = match end.end {
                Outcome::Done => "is done, but may come again",
                Outcome::Retry => "comes again",
                Outcome::Dead => "is dead",
                Outcome::HandedBack => "is handed back",
                Outcome::Lost => "is lost",
                Outcome::Unknown => "may come again",
            };
            report_queued(&format!("element {} (attempt {}) {what}: {first}", end.id, end.attempt));
        }
        if self.format.json {
            let mut line = serde_json::to_vec(&end).unwrap_or_default();
            line.push(b'\n');
            let mut out = stdout();
            // If the reader has closed the pipe, the work goes on.
            if out.write_all(&line).await.is_ok() {
                let _ = out.flush().await;
            }
        }
    }

    /// Runs the command.
    async fn run(
        &self,
        delivery: &Delivery<Vec<u8>>,
        settled: &mut oneshot::Sender<()>,
        stop: &watch::Receiver<Stop>,
    ) -> Verdict {
        let mut cut = None;
        let cancelled = async {
            let late = async {
                match self.options.timeout {
                    Some(limit) => sleep(limit).await,
                    None => pending().await,
                }
            };
            cut = Some(tokio::select! { biased;
                () = settled.closed() => Cut::Lost,
                () = stopped(stop, Stop::End) => Cut::Stop,
                () = late => Cut::Timeout,
            });
        };
        let (clock, grace) = (Clock::system(), self.grace);
        let deadline = || {
            let now = clock.now();
            now + delivery.remaining() - grace.head_start
        };
        let (out, errors) = (Tail::default(), Tail::default());
        let headers: BTreeMap<_, _> = delivery.headers().iter().collect();
        let headers = (!headers.is_empty()).then(|| ("BANDOG_HEADERS", serde_json::json!(headers).to_string()));
        let kept = Kept {
            name: self.name,
            command: self.command,
            directory: None,
            variables: self.store.for_child().map(|url| (store::VARIABLE.to_owned(), url)).into_iter().collect(),
            marks: [
                ("BANDOG_QUEUE", self.name.to_owned()),
                ("BANDOG_ELEMENT", delivery.id().to_string()),
                ("BANDOG_FENCE", delivery.fence().get().to_string()),
                ("BANDOG_ATTEMPT", delivery.attempt().to_string()),
            ]
            .into_iter()
            .chain(headers)
            .collect(),
            grace: grace.kill_after,
            input: Some(delivery),
            lease: Some(Lease { deadline: &deadline, check_interval: grace.check_interval / 2 }),
        };
        let to: Box<dyn AsyncWrite + Send + Unpin> =
            if self.format.json { Box::new(stderr()) } else { Box::new(stdout()) };
        let sinks = [
            Sink { form: self.form(), to, tail: &out },
            Sink { form: self.form(), to: Box::new(stderr()), tail: &errors },
        ];
        let ended = kept.run(sinks, cancelled, stopped(stop, Stop::Kill)).await;
        self.verdict(ended, cut, *stop.borrow(), &errors)
    }

    /// The form of the lines that the command prints.
    fn form(&self) -> LineForm<'_> {
        if self.options.plain { LineForm::plain() } else { LineForm::prefixed(self.name) }
    }

    /// What the end of a command means.
    fn verdict(&self, Ended { result, is_ordered }: Ended, cut: Option<Cut>, stop: Stop, errors: &Tail) -> Verdict {
        let with_output = |error: String| {
            let output = errors.text(MOST.saturating_sub(error.len() + 1));
            if output.is_empty() { error } else { format!("{error}\n{output}") }
        };
        let failed = |error: String| Verdict::Again { exit_code: None, error: with_output(error), asks: false };
        let failure = match result {
            Ok(()) => return Verdict::Done,
            Err(Failure::Expired) => return Verdict::Lost { error: Failure::Expired.to_string() },
            Err(failure) => failure,
        };
        match (is_ordered, cut) {
            (true, Some(Cut::Lost)) => {
                return Verdict::Lost { error: "it was removed, or its lease was lost".to_owned() };
            }
            (true, Some(Cut::Timeout)) => {
                let limit = humantime::format_duration(self.options.timeout.unwrap_or_default());
                return failed(format!("the command took longer than {limit}"));
            }
            (true, Some(Cut::Stop) | None) if stop >= Stop::End => {
                return Verdict::HandBack { error: "the worker was stopped".to_owned() };
            }
            _ => {}
        }
        match failure {
            Failure::Exit(code) => {
                let asks = code == AGAIN;
                let text = if asks { format!("{failure}: it asks for a retry") } else { failure.to_string() };
                Verdict::Again { exit_code: Some(code), error: with_output(text), asks }
            }
            Failure::Signal(_) | Failure::CutShort | Failure::Machine(_) => failed(failure.to_string()),
            Failure::Missing(_) | Failure::Expired => Verdict::HandBack { error: failure.to_string() },
        }
    }

    /// Settles an element.
    async fn settle(&self, delivery: &Delivery<Vec<u8>>, verdict: Verdict) -> EndJson {
        let mut end = EndJson {
            id: delivery.id().to_string(),
            attempt: delivery.attempt(),
            fence: delivery.fence().get(),
            end: Outcome::Done,
            exit_code: None,
            error: None,
            took_ms: 0,
        };
        let result = match verdict {
            Verdict::Done => {
                end.exit_code = Some(0);
                delivery.done().await
            }
            Verdict::Again { exit_code, error, .. } => {
                let is_last = delivery.attempt() >= self.options.deliveries;
                end.end = if is_last { Outcome::Dead } else { Outcome::Retry };
                end.exit_code = exit_code;
                end.error = Some(error.clone());
                delivery.retry_after(self.options.backoff.after(delivery.attempt()), error).await
            }
            Verdict::HandBack { error } => {
                (end.end, end.error) = (Outcome::HandedBack, Some(error));
                delivery.hand_back().await
            }
            Verdict::Lost { error } => {
                (end.end, end.error) = (Outcome::Lost, Some(error));
                if delivery.is_lost() {
                    return end;
                }
                // The lease could not be extended in time, but the store may answer now.
                let limit = delivery.remaining();
                let answer = timeout(limit, delivery.hand_back()).await;
                if matches!(answer, Ok(Ok(()))) {
                    end.end = Outcome::HandedBack;
                }
                return end;
            }
        };
        if let Err(error) = result {
            end.end = if error.kind() == ErrorKind::Lost { Outcome::Lost } else { Outcome::Unknown };
            end.error = Some(error.to_string());
        }
        end
    }
}
