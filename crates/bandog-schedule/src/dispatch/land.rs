//! Answers of the store.

use std::time::{Duration, SystemTime};

use bandog_core::{Error, Holding, Moment, Result, Swapped, Swaps};
use bandog_sync::Guard;

use super::{
    Dispatch, JobId, LOOK, RETRY, Turn, at,
    carry::Hand,
    desk::{Desk, Done},
    entry::Flight,
};
use crate::{cancel::Why, meters, nodes::compare, trigger::millis};

/// Minimum interval between two outages that are logged, for a store that comes and goes.
const TELL_AGAIN: Duration = Duration::from_secs(10);
/// A wall clock that is so many seconds off the store's is told of.
const WRONG: f64 = 1.0;

impl Dispatch {
    pub(super) fn land(&mut self, done: Done) {
        match done {
            Done::Swapped { jobs, sent, result } => self.swapped(jobs, sent, result),
            Done::Read { jobs, sent, result } => {
                self.reading -= 1;
                match result {
                    Ok(reading) => {
                        self.answered(sent, reading.now);
                        self.take_in(jobs, reading.records);
                    }
                    Err(error) => self.unanswered(&error),
                }
            }
            Done::Looked { sent, holdings, result } => {
                self.is_looking = false;
                match result {
                    Ok(reading) => {
                        self.answered(sent, reading.now);
                        self.looked_around(&holdings, reading);
                    }
                    Err(error) => self.unanswered(&error),
                }
            }
            Done::News { sent, result } => {
                self.reading -= 1;
                match result {
                    Ok(reading) => {
                        self.answered(sent, reading.now);
                        self.follow_news(reading);
                    }
                    Err(error) => self.unanswered(&error),
                }
            }
            Done::Session { lease, result } => self.got_session(lease, result),
            Done::Endangered { lease, holding } => {
                let sessions = self.desk.as_mut().and_then(|desk| desk.session(lease));
                if sessions.as_ref() == Some(&holding) {
                    self.runs_of(lease).for_each(|hand| hand.cancel(Why::Lost));
                    let margin = margin(lease);
                    self.desk.iter().for_each(|desk| desk.watch_again(lease, &holding, margin));
                }
            }
            Done::Lost { lease, holding } => self.lose_session(lease, &holding),
            Done::Era(result) => self.got_era(result),
            Done::Bumped(result) => {
                self.desk.iter_mut().for_each(Desk::told);
                if let Err(error) = result {
                    // The others read everything again before long.
                    self.unanswered(&error);
                }
            }
            Done::Rung => self.rung(),
            Done::Announced(Ok(others)) => compare(&self.node, &others),
            // It is for people only; the next session is told of again.
            Done::Announced(Err(error)) => tracing::debug!(%error, "the other nodes were not told of this one"),
        }
    }

    pub(super) fn runs_of(&self, lease: Duration) -> impl Iterator<Item = &Hand> {
        let usual = self.desk.as_ref().map(|desk| desk.client().ttl());
        self.runs.values().filter(move |hand| {
            let entry = &self.entries[at(hand.job)];
            entry.is_shared && !hand.is_unclaimed() && entry.task.policy.lease.or(usual) == Some(lease)
        })
    }

    pub(super) fn lose_session(&mut self, lease: Duration, holding: &Holding) {
        let Some(desk) = &self.desk else { return };
        if desk.own().any(|own| own == (lease, holding)) {
            if self.runs_of(lease).next().is_some() {
                tracing::error!(?lease, "this node lost its session: its runs of that lease are dropped");
            } else {
                tracing::warn!(?lease, "this node lost its session: nothing ran");
            }
            self.runs_of(lease).for_each(|hand| hand.drop_now(Why::Lost));
            self.desk.iter_mut().for_each(|desk| desk.forget(lease, holding));
        }
    }

    pub(super) fn got_session(&mut self, lease: Duration, result: Result<Guard>) {
        let Some(desk) = &mut self.desk else { return };
        match desk.keep(lease, result, margin(lease)) {
            Ok(session) => {
                desk.announce(&self.node, session);
                let usual = desk.client().ttl();
                let woken = (0..)
                    .zip(&self.entries)
                    .filter(|(_, entry)| entry.is_shared && entry.task.policy.lease.unwrap_or(usual) == lease);
                self.ready.extend(woken.map(|(job, _)| (job, Turn::Usual)));
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
            self.swapped_one(job, answer);
        }
        self.serve_line();
    }

    pub(super) fn swapped_one(&mut self, job: JobId, answer: Result<Swapped>) {
        let now = self.time.now();
        let entry = &mut self.entries[at(job)];
        let Some(flight) = entry.flight.take() else { return };
        let Flight { next, plan, events } = *flight;
        self.reserved -= plan.starts;
        let is_claim = plan.not_before.is_some();
        let again = std::mem::take(&mut entry.again);
        match answer {
            Ok(Swapped::Done(version)) => {
                if is_claim {
                    meters::claimed("won");
                }
                entry.events.drain(..events);
                entry.is_told = false;
                entry.version = version;
                entry.state = Some(Box::new(next));
                let is_left = !entry.events.is_empty() || again;
                self.follow(job, &plan);
                if is_left {
                    self.ready.push_back((job, Turn::Usual));
                }
            }
            Ok(Swapped::Differs(record)) => {
                if is_claim {
                    meters::claimed("lost");
                }
                match record {
                    // One that cannot be read is looked at again with all the others.
                    Some(record) => _ = self.learn(job, Ok(record)),
                    // Forgotten, or lost: the board tells.
                    None => self.read_again(&[job]),
                }
            }
            Ok(Swapped::Early(missing)) => {
                meters::claimed("early");
                self.arm_at(job, now.saturating_add(millis(missing)).saturating_add(1));
            }
            Ok(Swapped::NotHeld) => {
                // The engine learns it at its next renewal; until then nothing is claimed.
                self.arm_at(job, now.saturating_add(millis(RETRY)));
            }
            Err(error) => {
                if is_claim {
                    meters::claimed("error");
                }
                if !error.is_retryable() && !std::mem::replace(&mut entry.is_told, true) {
                    tracing::error!(job = %entry.task.name, %error, "the job cannot be claimed");
                }
                let pause = if error.is_retryable() { self.pause } else { LOOK };
                self.arm_at(job, now.saturating_add(millis(pause)));
            }
        }
    }

    pub(super) fn answered(&mut self, sent: Moment, store: SystemTime) {
        self.time.observe(sent, store);
        let ahead = self.time.offset();
        meters::clock(ahead);
        let is_wrong = ahead.abs() > WRONG;
        if is_wrong && !self.is_clock_told {
            tracing::warn!("this machine's clock is {:.1} s off the store's; ticks follow the store's", -ahead);
        }
        self.is_clock_told = is_wrong;
        self.pause = RETRY;
        if std::mem::take(&mut self.is_away) {
            if std::mem::take(&mut self.is_away_told) {
                // At the level at which the outage was logged.
                tracing::warn!("the store answers again: ticks are claimed again");
            }
            self.read_after_outage();
        }
    }

    pub(super) fn unanswered(&mut self, error: &Error) {
        self.pause = (self.pause * 2).min(LOOK);
        if !error.is_retryable() {
            return;
        }
        self.is_away = true;
        let now = self.time.moment();
        let may_tell = self.away_told.is_none_or(|told| now.since(told) >= TELL_AGAIN);
        if may_tell && !std::mem::replace(&mut self.is_away_told, true) {
            self.away_told = Some(now);
            tracing::warn!(%error, "the store does not answer: no shared job starts until it does; runs and locks end with their leases");
        }
    }
}

/// How long before its end a session's runs are told to stop.
fn margin(lease: Duration) -> Duration {
    (lease / 6).min(Duration::from_secs(5))
}
