//! Handles the answers of the store.

use std::time::{Duration, SystemTime};

use bandog_core::{Error, Holding, Moment, Result, Swapped, Swaps};
use bandog_sync::Guard;

use super::{
    Dispatcher, JobId, POLL_INTERVAL, RETRY, SlotPriority, at,
    entry::PendingSwap,
    executor::RunHandle,
    store::{StoreEvent, StoreIo},
};
use crate::{cancel::CancelReason, meters, nodes::warn_about_other_zones, trigger::duration_ms};

/// Minimum interval between two outages that are logged, for a store that is often unavailable.
const OUTAGE_LOG_INTERVAL: Duration = Duration::from_secs(10);
/// Minimum difference between the wall clock and the store's clock that is logged, in seconds.
const MAX_CLOCK_OFFSET: f64 = 1.0;

impl Dispatcher {
    pub(super) fn handle_store_event(&mut self, done: StoreEvent) {
        match done {
            StoreEvent::Swapped { jobs, sent, result } => self.swapped(jobs, sent, result),
            StoreEvent::JobsRead { jobs, sent, result } => {
                self.reads_in_flight -= 1;
                match result {
                    Ok(reading) => {
                        self.answered(sent, reading.now);
                        self.jobs_read(jobs, reading.records);
                    }
                    Err(error) => self.unanswered(&error),
                }
            }
            StoreEvent::Polled { sent, holdings, result } => {
                self.is_polling = false;
                match result {
                    Ok(reading) => {
                        self.answered(sent, reading.now);
                        self.polled(&holdings, reading);
                    }
                    Err(error) => self.unanswered(&error),
                }
            }
            StoreEvent::NewsRead { sent, result } => {
                self.reads_in_flight -= 1;
                match result {
                    Ok(reading) => {
                        self.answered(sent, reading.now);
                        self.news_read(reading);
                    }
                    Err(error) => self.unanswered(&error),
                }
            }
            StoreEvent::SessionClaimed { lease, result } => self.session_claimed(lease, result),
            StoreEvent::SessionExpiring { lease, holding } => {
                let sessions = self.store.as_mut().and_then(|store| store.session(lease));
                if sessions.as_ref() == Some(&holding) {
                    self.runs_of(lease).for_each(|run| run.cancel(CancelReason::SessionLost));
                    let margin = expiry_margin(lease);
                    self.store.iter().for_each(|store| store.watch_session_again(lease, &holding, margin));
                }
            }
            StoreEvent::SessionLost { lease, holding } => self.lose_session(lease, &holding),
            StoreEvent::EraRead(result) => self.era_read(result),
            StoreEvent::NewsPublished(result) => {
                self.store.iter_mut().for_each(StoreIo::news_published);
                if let Err(error) = result {
                    // The other nodes read all jobs again within 30 s.
                    self.unanswered(&error);
                }
            }
            StoreEvent::Notified => self.notified(),
            StoreEvent::NodeRegistered(Ok(others)) => warn_about_other_zones(&self.node, &others),
            // The registration only serves operators, and the next session repeats it.
            StoreEvent::NodeRegistered(Err(error)) => {
                tracing::debug!(%error, "this node was not registered for operators")
            }
        }
    }

    pub(super) fn runs_of(&self, lease: Duration) -> impl Iterator<Item = &RunHandle> {
        let usual = self.store.as_ref().map(|store| store.client().ttl());
        self.runs.values().filter(move |run| {
            let entry = &self.entries[at(run.job)];
            entry.is_shared && !run.is_unclaimed() && entry.definition.policy.lease.or(usual) == Some(lease)
        })
    }

    pub(super) fn lose_session(&mut self, lease: Duration, holding: &Holding) {
        let Some(store) = &self.store else { return };
        if store.own_sessions().any(|own| own == (lease, holding)) {
            if self.runs_of(lease).next().is_some() {
                tracing::error!(?lease, "this node lost its session: its runs of that lease are dropped");
            } else {
                tracing::warn!(?lease, "this node lost its session: it had no run");
            }
            self.runs_of(lease).for_each(|run| run.drop_now(CancelReason::SessionLost));
            self.store.iter_mut().for_each(|store| store.replace_session(lease, holding));
        }
    }

    pub(super) fn session_claimed(&mut self, lease: Duration, result: Result<Guard>) {
        let Some(store) = &mut self.store else { return };
        match store.keep_session(lease, result, expiry_margin(lease)) {
            Ok(session) => {
                store.register_node(&self.node, session);
                let usual = store.client().ttl();
                let woken = (0..)
                    .zip(&self.entries)
                    .filter(|(_, entry)| entry.is_shared && entry.definition.policy.lease.unwrap_or(usual) == lease);
                self.ready.extend(woken.map(|(job, _)| (job, SlotPriority::Normal)));
            }
            Err(error) => self.unanswered(&error),
        }
    }

    pub(super) fn swapped(&mut self, jobs: Vec<JobId>, sent: Moment, result: Result<Swaps>) {
        let each = match result {
            Ok(swaps) => {
                self.answered(sent, swaps.now);
                swaps.each
            }
            Err(error) => {
                self.unanswered(&error);
                jobs.iter().map(|_| Err(error.clone())).collect()
            }
        };
        for (job, answer) in jobs.into_iter().zip(each) {
            self.job_swapped(job, answer);
        }
        self.serve_slot_queue();
    }

    pub(super) fn job_swapped(&mut self, job: JobId, answer: Result<Swapped>) {
        let now = self.time.now();
        let entry = &mut self.entries[at(job)];
        let Some(pending) = entry.pending.take() else { return };
        let PendingSwap { next, plan, events } = *pending;
        self.reserved -= plan.starts;
        let is_claim = plan.not_before.is_some();
        let was_ready = std::mem::take(&mut entry.is_ready);
        match answer {
            Ok(Swapped::Done(version)) => {
                if is_claim {
                    meters::claimed("won");
                }
                entry.events.drain(..events);
                entry.is_fault_logged = false;
                entry.version = version;
                entry.state = Some(Box::new(next));
                let has_more_events = !entry.events.is_empty() || was_ready;
                self.apply(job, &plan);
                if has_more_events {
                    self.ready.push_back((job, SlotPriority::Normal));
                }
            }
            Ok(Swapped::Differs(record)) => {
                if is_claim {
                    meters::claimed("lost");
                }
                match record {
                    // A record that cannot be read is read again with all the others.
                    Some(record) => _ = self.take_record(job, Ok(record)),
                    // The job was forgotten, or the store has lost it. The board says which.
                    None => self.read_jobs(&[job]),
                }
            }
            Ok(Swapped::Early(missing)) => {
                meters::claimed("early");
                self.schedule_at(job, now.saturating_add(duration_ms(missing)).saturating_add(1));
            }
            Ok(Swapped::NotHeld) => {
                // The engine notices at its next renewal. Until then this node claims nothing.
                self.schedule_at(job, now.saturating_add(duration_ms(RETRY)));
            }
            Err(error) => {
                if is_claim {
                    meters::claimed("error");
                }
                if !error.is_retryable() && !std::mem::replace(&mut entry.is_fault_logged, true) {
                    tracing::error!(job = %entry.definition.name, %error, "the job cannot be claimed");
                }
                let pause = if error.is_retryable() { self.retry_delay } else { POLL_INTERVAL };
                self.schedule_at(job, now.saturating_add(duration_ms(pause)));
            }
        }
    }

    pub(super) fn answered(&mut self, sent: Moment, store: SystemTime) {
        self.time.observe(sent, store);
        let ahead = self.time.offset();
        meters::clock(ahead);
        let is_wrong = ahead.abs() > MAX_CLOCK_OFFSET;
        if is_wrong && !self.is_clock_logged {
            tracing::warn!("this machine's clock is {:.1} s off the store's; ticks follow the store's", -ahead);
        }
        self.is_clock_logged = is_wrong;
        self.retry_delay = RETRY;
        if std::mem::take(&mut self.is_store_down) {
            if std::mem::take(&mut self.is_outage_logged) {
                // The same level as the log entry of the outage.
                tracing::warn!("the store answers again: ticks are claimed again");
            }
            self.read_after_outage();
        }
    }

    pub(super) fn unanswered(&mut self, error: &Error) {
        self.retry_delay = (self.retry_delay * 2).min(POLL_INTERVAL);
        if !error.is_retryable() {
            return;
        }
        self.is_store_down = true;
        let now = self.time.moment();
        let may_log = self.outage_logged_at.is_none_or(|logged_at| now.since(logged_at) >= OUTAGE_LOG_INTERVAL);
        if may_log && !std::mem::replace(&mut self.is_outage_logged, true) {
            self.outage_logged_at = Some(now);
            tracing::warn!(%error, "the store does not answer: no shared job starts until it does; runs and locks expire with their leases");
        }
    }
}

/// Time between the cancellation of a session's runs and the session's expiry.
fn expiry_margin(lease: Duration) -> Duration {
    (lease / 6).min(Duration::from_secs(5))
}
