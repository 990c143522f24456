//! The jobs of the test: all combinations of policies, and bodies of different durations.

use std::{num::NonZeroU32, time::Duration};

use super::{
    history::{End, Job},
    schedule::{self, CatchUp, OnCrash, Overlap, Run},
};

/// Period of the jobs with a fixed rate. Every tenth job has a cron expression instead, and is due once a second.
const RATE: Duration = Duration::from_millis(100);

/// Records the start and the end of the body of each run.
pub(crate) trait Witness: Clone + Send + Sync + 'static {
    fn begins(&self, job: usize, run: &Run);
    fn ends(&self, job: usize, run: &Run, end: End);
}

/// The properties of the job with this number, for the checker.
pub(crate) fn declared(number: usize) -> Job {
    let period = if is_cron(number) { 1000 } else { 100 };
    let (limit, retry) = (limit(overlap(number)), on_crash(number) != OnCrash::Abandon);
    let waits = matches!(overlap(number), Overlap::Queue(_));
    Job { name: format!("storm-{number}"), period, limit, waits, retry }
}

/// The job that a node gives to its scheduler.
pub(crate) fn job(number: usize, witness: impl Witness) -> schedule::Job {
    let name = declared(number).name;
    let job = match is_cron(number) {
        true => schedule::Job::cron(name, "* * * * * ?"),
        false => schedule::Job::fixed_rate(name, RATE),
    };
    let job = job.overlap(overlap(number)).on_crash(on_crash(number)).grace(Duration::from_millis(200));
    let job = match number % 4 {
        0 => job.misfire_grace(Duration::from_secs(1)).catch_up(CatchUp::All(three())),
        1 => job.misfire_grace(Duration::from_secs(2)).catch_up(CatchUp::Once),
        _ => job.catch_up(CatchUp::Skip),
    };
    // Every second body ends by itself when it is cancelled. The scheduler must drop the other bodies.
    let ends_when_cancelled = number % 2 == 1;
    job.run(move |run: Run| {
        let recorded = RecordedRun::begin(number, run.clone(), witness.clone());
        async move {
            let work = tokio::time::sleep(length());
            let end = if ends_when_cancelled {
                tokio::select! {
                    () = work => End::Ok,
                    () = run.cancelled() => End::Cancelled,
                }
            } else {
                work.await;
                End::Ok
            };
            let end = if end == End::Ok && fastrand::u8(..) < 5 { End::Failed } else { end };
            recorded.end(end);
            if end == End::Ok { Ok(()) } else { Err("as planned") }
        }
    })
}

fn is_cron(number: usize) -> bool {
    number % 10 == 9
}

fn overlap(number: usize) -> Overlap {
    match number % 3 {
        0 => Overlap::Skip,
        1 => Overlap::Queue(three()),
        _ => Overlap::Allow(three()),
    }
}

fn limit(overlap: Overlap) -> usize {
    match overlap {
        Overlap::Allow(most) => most.get() as usize,
        Overlap::Skip | Overlap::Queue(_) | Overlap::Replace => 1,
    }
}

fn on_crash(number: usize) -> OnCrash {
    // The storm might kill the node that runs a tick, later the node that has taken the tick over, and so on. The
    // checker expects that the tick is retried until a run ends, so the number of retries has no limit.
    if (number / 3).is_multiple_of(2) { OnCrash::RetryUpTo(NonZeroU32::MAX) } else { OnCrash::Abandon }
}

fn three() -> NonZeroU32 {
    NonZeroU32::MIN.saturating_add(2)
}

/// A random duration for a body. Most durations are shorter than 300 ms. About one of five durations is zero, and one
/// of 150 durations is some seconds.
fn length() -> Duration {
    Duration::from_millis(match fastrand::u32(..150) {
        0 => fastrand::u64(1000..6000),
        1..30 => 0,
        _ => fastrand::u64(0..300),
    })
}

/// A running body. If the body is dropped before its end, the destructor records `End::Dropped`.
struct RecordedRun<W: Witness> {
    job: usize,
    run: Run,
    witness: W,
    has_ended: bool,
}

impl<W: Witness> RecordedRun<W> {
    fn begin(job: usize, run: Run, witness: W) -> Self {
        witness.begins(job, &run);
        Self { job, run, witness, has_ended: false }
    }

    fn end(mut self, end: End) {
        self.has_ended = true;
        self.witness.ends(self.job, &self.run, end);
    }
}

impl<W: Witness> Drop for RecordedRun<W> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.witness.ends(self.job, &self.run, End::Dropped);
        }
    }
}
