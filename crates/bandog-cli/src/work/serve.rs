//! Works until a signal, or until the queue is empty.

use std::{pin::pin, time::Duration};

use bandog::{
    Client,
    work::{Delivery, Phase},
};
use futures_util::{StreamExt, stream::FuturesUnordered};
use rustix::process::Signal;
use signal_hook::low_level::signal_name;
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{Instant, sleep_until, timeout},
};

use super::{
    order::{Order, cannot_run},
    run::{Job, Stop, stopped},
    tally::Tally,
};
use crate::{
    console::{StatusLine, report, report_queued},
    exit_code::ExitCode,
    fault::Fault,
    kept::program,
    lock::EXIT_TIMEOUT,
    queue::open::{self, Queue},
    signals::Signals,
};

/// The time for which the library waits for commands after the drain, in addition to the grace period: bandog itself ends
/// them, and hands their elements back.
const END: Duration = Duration::from_secs(30);
/// The first interval between two checks whether the queue is empty, and the longest one.
const EMPTY_CHECKS: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(2)];
/// Interval between two progress lines.
const PROGRESS: Duration = Duration::from_secs(1);

/// The error of a handler whose command was ended.
const ENDED: &str = "the command was ended";

/// Works on a queue.
pub(super) async fn serve(order: &Order<'_>, client: Client) -> Result<ExitCode, Fault> {
    let mut signals = Signals::catch(true).map_err(|error| Fault::system("cannot catch signals", error))?;
    let queue = open::queue(&client, order.name, order.store)?;
    let ready = tokio::select! { biased;
        signal = signals.ending() => return Ok(ExitCode::Signal(signal.as_raw())),
        ready = client.ready() => ready,
    };
    ready.map_err(|error| order.store.fault(&error))?;
    order.store.report_use(&format!("working on {:?} in", order.name));
    let tally = Tally::default();
    let ended = work(order, &queue, &mut signals, &tally).await;
    // If the store does not answer, the client's rows stay until their ttl is over.
    let _ = timeout(EXIT_TIMEOUT, client.close()).await;
    report(&tally.to_string());
    ended
}

async fn work(order: &Order<'_>, queue: &Queue, signals: &mut Signals, tally: &Tally) -> Result<ExitCode, Fault> {
    let options = order.options;
    let dead_before = if options.until_empty { dead(queue).await } else { None };
    let (jobs, mut inbox) = mpsc::unbounded_channel();
    let workers = queue.workers(options.workers).lease(options.lease).deliveries(options.deliveries);
    let workers = workers.backoff(options.backoff).drain(options.drain + order.grace.warning() + END);
    let running = workers.run(move |delivery: Delivery<Vec<u8>>| {
        let (settled, end) = oneshot::channel();
        let sent = jobs.send(Job { delivery, settled });
        async move {
            // Each element is settled before this ends, unless it is lost.
            sent.map_err(|_| ENDED)?;
            end.await.map_err(|_| ENDED)
        }
    });
    let (stop, stop_seen) = watch::channel(Stop::No);
    let mut running = pin!(running.until(stopped(&stop_seen, Stop::Drain)));
    let mut deliveries = FuturesUnordered::new();
    let mut end = ExitCode::Done;
    let mut drain_until = pin!(sleep_until(Instant::now()));
    let mut empty_check = pin!(sleep_until(Instant::now() + EMPTY_CHECKS[0]));
    let mut pause = EMPTY_CHECKS[0];
    let line = StatusLine::on_terminal();
    let mut progress = tokio::time::interval(PROGRESS);
    let mut fault = None;
    let ended = loop {
        let now = *stop.borrow();
        tokio::select! { biased;
            signal = signals.ending() => if now == Stop::No {
                report_queued(&stop_message(signal, deliveries.len(), options.drain));
                drain_until.as_mut().reset(Instant::now() + options.drain);
                stop.send_replace(Stop::Drain);
            } else {
                end = ExitCode::Signal(signal.as_raw());
                stop.send_replace(Stop::Kill);
            },
            Some(()) = deliveries.next() => {}
            Some(job) = inbox.recv() => {
                pause = EMPTY_CHECKS[0];
                let missing = program::check(order.command, &[], None).err();
                if let Some(missing) = &missing {
                    // The program cannot be started for any other element either.
                    fault.get_or_insert_with(|| cannot_run(missing));
                    drain_until.as_mut().reset(Instant::now() + options.drain);
                    stop.send_modify(|stop| *stop = (*stop).max(Stop::Drain));
                }
                deliveries.push(order.deliver(job, missing, &stop_seen, tally));
            }
            ended = &mut running => break ended,
            () = &mut drain_until, if now == Stop::Drain => {
                stop.send_replace(Stop::End);
            }
            () = &mut empty_check, if now == Stop::No && options.until_empty => {
                if deliveries.is_empty() && is_empty(queue).await {
                    stop.send_replace(Stop::Drain);
                    drain_until.as_mut().reset(Instant::now() + options.drain);
                }
                pause = (pause * 2).min(EMPTY_CHECKS[1]);
                empty_check.as_mut().reset(Instant::now() + pause);
            }
            _ = progress.tick(), if line.is_some() => if let Some(line) = &line {
                line.draw(&format!("{:?}: {} running, {tally}", order.name, deliveries.len()));
            },
        }
    };
    drop(line);
    // All elements are settled, except those that were lost: their commands are ending.
    stop.send_modify(|stop| *stop = (*stop).max(Stop::End));
    while deliveries.next().await.is_some() {}
    ended.map_err(|error| order.store.fault(&error))?;
    match fault {
        Some(fault) => Err(fault),
        None if end == ExitCode::Done && options.until_empty && has_dead(queue, dead_before, tally).await => {
            Ok(ExitCode::Failed)
        }
        None => Ok(end),
    }
}

/// The number of dead elements. None: the store does not answer.
async fn dead(queue: &Queue) -> Option<u64> {
    queue.status().await.ok().map(|status| status.count(Phase::Dead))
}

/// Whether an element has become dead since then: by its command, or because no worker has completed its last delivery.
async fn has_dead(queue: &Queue, before: Option<u64>, tally: &Tally) -> bool {
    if tally.has_dead() {
        return true;
    }
    match before.zip(dead(queue).await) {
        Some((before, dead)) => dead > before,
        None => {
            report("it is not known whether another element is dead: the store does not answer");
            false
        }
    }
}

/// Whether no element is ready, delayed or taken. If the store does not answer, this is not known.
async fn is_empty(queue: &Queue) -> bool {
    let Ok(status) = queue.status().await else { return false };
    [Phase::Ready, Phase::Delayed, Phase::Taken].iter().all(|phase| status.count(*phase) == 0)
}

/// The message after the first stop signal.
fn stop_message(signal: Signal, commands: usize, drain: Duration) -> String {
    let name = signal_name(signal.as_raw()).unwrap_or("a signal");
    match commands {
        0 => format!("{name}: stopping"),
        commands => format!(
            "{name}: stopping; the running commands ({commands}) may continue for {}, another signal kills them",
            humantime::format_duration(drain)
        ),
    }
}
