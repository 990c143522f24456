//! The dispatcher's loop. Each round reads the messages, plans the jobs that are due, polls the store, and sends the
//! swaps. Then the loop sleeps until the next event.

use std::{future::poll_fn, panic::AssertUnwindSafe, sync::Arc, task::Poll, time::Duration};

use bandog_core::Error;
use bandog_sync::Client;
use futures_util::FutureExt;
use tokio::{sync::mpsc, task::AbortHandle};

use super::{
    entry::JobEntry,
    executor::RunStarter,
    follower::Follower,
    local_jobs::LocalJobs,
    mailbox::{Mailbox, Message},
    planner::{OnFailure, Planner},
    polls::POLL_INTERVAL,
    shutdown::{OpenWork, Shutdown},
    time::Timekeeper,
};
use crate::{pauses::KnownPauses, plan::RunEnd};

/// Maximum duration of a sleep without a store. The wall clock might be set during a sleep. The dispatcher notices this
/// in the next round, because it reads the wall clock in each round.
const LONGEST_SLEEP: Duration = Duration::from_secs(30);

pub(crate) struct Dispatcher {
    planner: Planner,
    follower: Follower,
    mailbox: Mailbox,
    shutdown: Shutdown,
}

impl Dispatcher {
    /// `pool`: number of runs that this node can execute at the same time.
    pub(crate) fn new(
        entries: Vec<JobEntry>,
        time: Timekeeper,
        node: Arc<str>,
        pool: usize,
        client: Option<Client>,
        poll_interval: Duration,
        (mail, mailbox): (mpsc::UnboundedSender<Message>, mpsc::UnboundedReceiver<Message>),
    ) -> Self {
        let now = time.moment();
        Self {
            planner: Planner::new(LocalJobs::new(entries, time, pool, RunStarter::new(mail, client.clone())), node),
            follower: Follower::new(client, poll_interval, now),
            mailbox: Mailbox::new(mailbox, now),
            shutdown: Shutdown::default(),
        }
    }

    /// Sets the pauses that are known at the start.
    pub(crate) fn with_pauses(mut self, pauses: KnownPauses) -> Self {
        self.planner.set_pauses(pauses);
        self
    }

    /// Sets the function that is called for each run that has failed for good.
    pub(crate) fn with_failures(mut self, on_failure: Option<OnFailure>) -> Self {
        self.planner.set_on_failure(on_failure);
        self
    }

    /// Spawns the dispatcher as a task of the current tokio runtime.
    pub(crate) fn start(self) -> AbortHandle {
        let task = tokio::spawn(async {
            if AssertUnwindSafe(self.run()).catch_unwind().await.is_err() {
                tracing::error!("the scheduler panicked and has ended: no job starts any more");
            }
        });
        task.abort_handle()
    }

    /// Runs the loop until a stop is complete.
    async fn run(mut self) {
        self.planner.log_rests();
        loop {
            if self.planner.local_mut().follow_clock() {
                self.planner.log_rests();
            }
            self.read_mailbox();
            self.planner.local_mut().wake();
            self.end_drain_when_due();
            self.follower.poll(&mut self.planner);
            self.planner.local_mut().serve_slot_queue();
            self.follower.plan_ready(&mut self.planner);
            if self.has_stopped() {
                break;
            }
            self.follower.send(&mut self.planner);
            self.planner.local_mut().pool_mut().begin_starts();
            self.planner.local_mut().pool_mut().report();
            self.planner.log_missed_when_due();
            if self.planner.local().has_ready() {
                // More jobs are ready than one round plans.
                yield_once().await;
            } else if self.mailbox.has_more() || self.planner.local().pool().can_serve_queue() {
                // Lets the runs that were just spawned start first.
                tokio::task::yield_now().await;
            } else {
                self.notify_idle_waiters();
                self.sleep().await;
            }
        }
        self.end().await;
    }

    fn read_mailbox(&mut self) {
        self.mailbox.begin_round(self.planner.local().is_busy(), self.planner.local().moment());
        while let Some(message) = self.mailbox.next_of_round() {
            self.handle(message);
        }
    }

    fn handle(&mut self, message: Message) {
        match message {
            Message::RunEnded { job, attempt, state, info, error, note } => {
                let (id, fence, at) = (info.id, info.fence.get(), self.planner.local().now());
                self.planner.run_ended(job, &info, RunEnd { id, fence, attempt, state, at, error, note });
            }
            Message::NotifyWhenIdle(waiter) => self.shutdown.add_idle_waiter(waiter),
            Message::Poll => self.follower.poll_now(self.planner.local().moment()),
            Message::EndDrain => self.shutdown.end_drain(self.planner.local().moment()),
            Message::Stop { drain, done } => {
                // `Running::stop` sends this message. When `Running` is dropped, it sends the message a second time.
                // The second message is ignored, except after `Running::retire`.
                let until = drain.map(|drain| self.planner.local().moment() + drain);
                if self.shutdown.begin(until, done) {
                    tracing::info!(running = self.planner.local().pool().running(), "the scheduler stops");
                    self.planner.local_mut().pool_mut().close();
                }
            }
        }
    }

    /// Cancels the runs if the drain (the time that a stop leaves to runs) is over.
    fn end_drain_when_due(&mut self) {
        if self.shutdown.drain_has_ended(self.planner.local().moment()) {
            self.planner.local_mut().pool_mut().cancel_all();
        }
    }

    /// If the node is idle, notifies the callers that wait for this.
    fn notify_idle_waiters(&mut self) {
        // `is_idle` checks every job, which is slow if there are many jobs. So `is_idle` is not the first condition.
        if self.shutdown.has_idle_waiters() && self.planner.local().is_idle() && !self.follower.has_news() {
            self.shutdown.notify_idle_waiters();
        }
    }

    /// Whether a stop is complete.
    fn has_stopped(&mut self) -> bool {
        if !self.shutdown.is_stopping() {
            // The code below checks every job, which is slow if there are many jobs.
            return false;
        }
        let work = OpenWork {
            is_settled: self.planner.local().is_idle(),
            has_runs: self.planner.local().pool().running() > 0,
            has_store: self.follower.has_store(),
            is_store_down: self.follower.is_store_down(),
        };
        self.shutdown.is_over(work, self.planner.local().moment())
    }

    /// Waits for the next message or event, and handles it. If a job, a poll or the end of the drain is due before
    /// that, the wait ends.
    async fn sleep(&mut self) {
        let now = self.planner.local().moment();
        let longest = if self.planner.has_waiting() || self.shutdown.is_stopping() {
            POLL_INTERVAL
        } else if self.follower.has_store() {
            self.follower.until_next_poll(now)
        } else {
            LONGEST_SLEEP
        };
        let drain_end = self.shutdown.until_drain_end(now);
        let notified = self.follower.until_notified_poll(now);
        let earlier = [self.planner.local().until_due(), drain_end, notified];
        // The duration of this sleep.
        let rest = earlier.into_iter().flatten().fold(longest, Duration::min);
        let event = tokio::select! {
            message = self.mailbox.recv() => {
                // The dispatcher itself has a sender, so `recv` never returns `None`.
                if let Some(message) = message {
                    self.handle(message);
                }
                return;
            }
            event = self.follower.next_event() => event,
            () = tokio::time::sleep(rest) => return,
        };
        self.follower.handle(event, &mut self.planner);
    }

    /// Releases the sessions, notifies the other nodes, and answers the caller of `stop`.
    async fn end(mut self) {
        self.planner.log_missed();
        let mut result = self.follower.end(self.planner.local().jobs().concerning_others()).await;
        if self.follower.is_store_down() || self.planner.local().jobs().have_events() {
            result = result
                .and(Err(Error::unavailable("the results of this node's runs could not be written to the store")
                    .during("stop")));
        }
        self.shutdown.finish(result);
    }
}

/// Lets the other tasks of this worker thread run for a short time. Tokio's `yield_now` takes longer, because it runs
/// all ready tasks first.
async fn yield_once() {
    let mut has_waited = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_waited, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
