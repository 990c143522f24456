//! The answers of the store: each goes to the part of the engine that waits for it. The metrics, the health checks and the
//! log learn from each answer whether the store can be reached.

use bandog_core::{Answer, Error, ErrorKind, Kind, Moment, Result, Step, Verdict};

use super::{actor::Engine, calls::Completion, outages::OutageLog, slot::Event};
use crate::{
    lane::{Lane, SlotId},
    terms::HoldId,
};

impl Engine {
    /// Handles the end of a request.
    pub(super) fn complete(&mut self, completion: Completion) {
        match completion {
            Completion::Applied { asked_at, steps, answers } => {
                if answers.iter().any(Result::is_ok) {
                    self.measure_round_trip(asked_at);
                }
                for (step, answer) in steps.iter().zip(answers) {
                    self.step_answered(asked_at, step, answer);
                }
            }
            Completion::Renewed { asked_at, claims, answers } => {
                for (claim, answer) in claims.into_iter().zip(answers) {
                    let (slot, hold) = (SlotId::of_claim(&claim), claim.id.number);
                    // The renewal of a hold that has been released meanwhile may fail for this reason alone.
                    if answer.is_ok() || self.has_hold(&slot, hold) {
                        self.record_answer("renew", &answer);
                    }
                    self.on(&slot, Event::Renewed { hold, asked_at, answer });
                }
            }
            Completion::Subscribed { slot, subscription } => self.on(&slot, Event::Subscribed(subscription)),
            Completion::RecordSubscribed { id, subscription } => self.record_subscribed(id, subscription),
            Completion::Registered(result) => self.registered(result),
            Completion::Searched(result) => self.searched(result),
            Completion::Pinged { reply, result } => {
                self.record_answer("ping", &result);
                // The caller may have dropped its future.
                let _ = reply.send(result);
            }
            Completion::Probed(answer) => self.probed(answer),
            Completion::QueryEnded => {}
        }
    }

    /// Whether this slot has this hold, or a place of this claim that waits.
    fn has_hold(&mut self, slot: &SlotId, hold: HoldId) -> bool {
        self.change(slot, |slot, _| slot.has_hold(hold)).unwrap_or(false)
    }

    /// Passes the answer to a step on to the key's slot or to the pending releases.
    fn step_answered(&mut self, asked_at: Moment, step: &Step, answer: Result<Answer>) {
        self.record_answer(step.verb(), &answer);
        match step {
            Step::Claim(claim) | Step::Pass { to: claim, .. } => {
                let mut answer = answer.and_then(|answer| match answer {
                    Answer::Claimed(verdict) => Ok(verdict),
                    Answer::Released(_) => Err(mismatch(step)),
                });
                if let (Kind::Fair, Ok(Verdict::Granted { followers, .. })) = (claim.kind, &mut answer) {
                    self.fair_calls.granted(&claim.key, claim.id.number, std::mem::take(followers));
                }
                if let (Step::Pass { from, .. }, Ok(Verdict::Granted { .. })) = (step, &answer) {
                    self.releases.ended((**from).clone(), self.cx.now);
                }
                let slot = SlotId::of_step(step);
                let has_older_call = match slot.lane {
                    Lane::Fair(ticket) => self.fair_calls.has_older(&slot.key, ticket),
                    Lane::Mutex | Lane::Read | Lane::Write | Lane::Permits(_) => false,
                };
                self.on(&slot, Event::Claimed { claim: claim.id.number, asked_at, answer, has_older_call });
            }
            Step::Release(claim) => {
                let answer = answer.and_then(|answer| match answer {
                    Answer::Released(released) => Ok(released),
                    Answer::Claimed(_) => Err(mismatch(step)),
                });
                self.release_answered(&SlotId::of_claim(claim), claim.id.number, answer);
            }
        }
    }

    /// Records for the metrics, the health checks and the log whether the store has answered a request. `verb` names
    /// the request.
    pub(super) fn record_answer<T>(&mut self, verb: &'static str, answer: &Result<T>) {
        let fault = answer.as_ref().err();
        if fault.is_some() {
            self.metrics.error(verb);
        }
        let outage_error = fault.filter(|error| error.is_retryable() || error.is_about_login());
        self.cx.answered |= outage_error.is_none();
        let now = self.cx.now;
        let log = match outage_error {
            Some(error) => {
                self.store_health.failed(now, error);
                let client = self.turn_client();
                let is_logged_elsewhere = || client.is_some_and(|client| client.has_outage_reporter());
                if self.cx.answered { self.outages.not_answered(now, is_logged_elsewhere) } else { OutageLog::Nothing }
            }
            None => {
                self.store_health.answered(now);
                self.outages.answered()
            }
        };
        match (log, outage_error) {
            (OutageLog::Began, Some(error)) if error.kind() == ErrorKind::NotReplicated => {
                tracing::warn!(%error, "the store answers, but too few of its replicas do");
            }
            (OutageLog::Began, Some(error)) if error.is_about_login() => {
                tracing::warn!(
                    %error,
                    "the server refuses the credentials of this client: correct the password; each held lock stays valid until its deadline"
                );
            }
            (OutageLog::Began, Some(error)) => {
                tracing::warn!(%error, "the store does not answer; each held lock stays valid until its deadline");
            }
            (OutageLog::Ended, _) => tracing::info!("the store answers again"),
            (OutageLog::Began | OutageLog::Nothing, _) => {}
        }
    }

    /// Updates the average round trip with the round trip of an answered request.
    fn measure_round_trip(&mut self, asked_at: Moment) {
        self.cx.round_trip = self.cx.round_trip * 7 / 8 + self.cx.now.since(asked_at) / 8;
    }
}

/// The error for an answer that does not fit the step, for example a release that is answered like a claim.
fn mismatch(step: &Step) -> Error {
    let message = "the backend gave an answer that does not fit the request";
    Error::new(ErrorKind::Corrupt, message).during(step.verb()).at(step.key()).ambiguous()
}
