//! The replies to steps: each step gets its own answer.

use std::time::Instant;

use bandog_core::{Answer, Claim, Kind, Released, Result, Step};
use bandog_redis_net::{Keys, Replies};
use redis::Value;

use super::Redis;
use crate::{
    answers::{queued, verdict},
    names::ClaimChannel,
    refusal,
    script::{self, Group},
};

impl Redis {
    /// Puts the reply to each step into `answers`, at the position of this step. A group contains the positions of the
    /// steps that one command has sent, and `replies` contains one reply for each group. Returns the groups that must be
    /// sent again.
    pub(super) fn distribute(
        &self,
        steps: &[Step],
        groups: Vec<Group>,
        replies: Replies,
        answers: &mut [Option<Result<Answer>>],
    ) -> Vec<Group> {
        let mut again = Vec::new();
        for (group, reply) in groups.into_iter().zip(replies) {
            let value = match reply {
                Ok(value) => value,
                Err(error) => {
                    for position in group {
                        let step = &steps[position];
                        answers[position] = Some(Err(error.clone().during(step.verb()).at(step.key())));
                    }
                    continue;
                }
            };
            match value {
                Value::Array(replies) if group.len() > 1 && group.len() == replies.len() => {
                    for (position, reply) in group.into_iter().zip(replies) {
                        answers[position] = Some(self.answer(&steps[position], reply));
                    }
                }
                // If the user lacks the right for one key, Redis refuses the whole call before it runs. So each step is
                // sent again, in its own command.
                Value::ServerError(error) if group.len() > 1 && refusal::is_out_of_reach(&error) => {
                    again.extend(group.into_iter().map(|position| vec![position]));
                }
                value => {
                    for position in group {
                        answers[position] = Some(self.answer(&steps[position], value.clone()));
                    }
                }
            }
        }
        again
    }

    /// Claims whose keys have another type than a lock of their kind: replaces their errors by errors that name the kind
    /// of lock that was found. If the server does not answer or the user lacks the rights, the error names no kind.
    pub(super) async fn name_other_kinds(
        &self,
        steps: &[Step],
        deadline: Instant,
        answers: &mut [Option<Result<Answer>>],
    ) {
        let mut wrong = Vec::new();
        for (step, answer) in steps.iter().zip(answers) {
            let Some(Err(error)) = answer else { continue };
            if let Step::Claim(claim) | Step::Pass { to: claim, .. } = step
                && refusal::is_of_wrong_type(error)
            {
                wrong.push((step, claim, error));
            }
        }
        if wrong.is_empty() {
            return;
        }
        let query = script::ask_for_type(wrong.iter().map(|(_, claim, _)| &claim.key));
        let replies = self
            .servers
            .call_scripts(deadline, Keys::FirstArguments, |_| query.clone())
            .await
            .and_then(Replies::into_values);
        let replies = replies.unwrap_or_default();
        for (position, (step, claim, error)) in wrong.into_iter().enumerate() {
            let (text, mode) = (replies.get(2 * position), replies.get(2 * position + 1));
            let (family, layout) = (claim.kind.family(), self.format.layout);
            *error = refusal::other_kind(&claim.key, family, layout, text, mode).during(step.verb()).at(&claim.key);
        }
    }

    /// Reads the reply to one step.
    fn answer(&self, step: &Step, value: Value) -> Result<Answer> {
        let answer = match (step, value) {
            (_, Value::ServerError(error)) => Err(refusal::refused(&error)),
            (Step::Claim(claim) | Step::Pass { to: claim, .. }, Value::Int(reply)) => {
                verdict(claim, reply, None).map(Answer::Claimed)
            }
            (Step::Claim(claim), Value::Array(parts)) => queued(claim, &parts).map(Answer::Claimed),
            (Step::Release(claim), value) => self.released(claim, value).map(Answer::Released),
            (_, value) => Err(refusal::unexpected_reply(&value)),
        };
        answer.map_err(|error| error.during(step.verb()).at(step.key()))
    }

    /// Reads the reply of a script that releases locks.
    fn released(&self, claim: &Claim, reply: Value) -> Result<Released> {
        match reply {
            // This claim holds the lock no longer, and other claims hold it. No client was notified.
            Value::Int(-3) => Ok(Released::Freed { others: None }),
            Value::Int(-4) => Ok(Released::LeftQueue),
            // The lock is free, but this user has no right to publish the release.
            Value::Int(-2) => {
                self.warn_publish_denied();
                Ok(Released::Freed { others: None })
            }
            Value::Int(-1) => Ok(Released::NotHeld),
            Value::Int(receivers) => {
                let receivers = u32::try_from(receivers).map_err(|_| refusal::unexpected_reply(&reply))?;
                // If this backend is subscribed to the channel, it is one of the receivers. The script of fair locks counts
                // only the receivers of other clients.
                let is_counted = receivers > 0 && !matches!(claim.kind, Kind::Fair);
                let ours = is_counted && self.servers.is_subscribed(&ClaimChannel(claim).to_string());
                let others = self.servers.counts_all_receivers().then(|| receivers - u32::from(ours));
                Ok(Released::Freed { others })
            }
            reply => Err(refusal::unexpected_reply(&reply)),
        }
    }

    /// Warns that this user has no right to publish releases. The warning is logged once for each connection.
    pub(crate) fn warn_publish_denied(&self) {
        if self.publish_warned.is_new(self.servers.connection()) {
            let store = self.servers.store();
            tracing::warn!(%store, "this user may not publish, so waiters poll instead of being woken");
        }
    }
}
