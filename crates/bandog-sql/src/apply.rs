//! Steps: claims, passes and releases. Mutexes without a queue are decided by one statement for many names, and all other
//! locks by [`LockState`](bandog_core::LockState).

use std::{collections::HashMap, time::Duration};

use async_trait::async_trait;
use bandog_core::{Answer, Error, Key, Kind, Result, Step, Verdict, check_pass};
use futures_util::future::join;
use tokio::sync::oneshot;

use crate::{
    fault::Fault,
    job::Request,
    leases::Context,
    mutexes::{self, Decision},
    session::Link,
    states,
};

/// The channel for the answers of a call.
type Reply = oneshot::Sender<Vec<Result<Answer>>>;

/// The steps of several calls.
#[derive(Default)]
pub(crate) struct Steps {
    steps: Vec<Step>,
    /// The answers until now.
    answers: Vec<Option<Result<Answer>>>,
    /// The number of steps of each call, and its channel.
    calls: Vec<(usize, Reply)>,
    /// How often a step was left out, because another transaction had locked its row.
    attempts: u32,
}

/// Maximum number of attempts at a claim whose row another transaction has locked. Between two attempts is a random delay
/// of 10 ms at most.
const MAX_ATTEMPTS: u32 = 20;
/// The time after which such a claim is sent again.
const LOCKED_RETRY: Duration = Duration::from_millis(50);

/// Steps that are executed together. The order of steps of different names does not matter.
#[derive(Debug, Default)]
struct Round {
    /// The numbers of the claims and passes of mutexes, and those of their releases. Each name is there once.
    claims: Vec<usize>,
    releases: Vec<usize>,
    /// The numbers of all other steps. A name can be there several times.
    others: Vec<usize>,
}

impl Steps {
    pub(crate) fn add(&mut self, steps: Vec<Step>, reply: Reply) {
        self.calls.push((steps.len(), reply));
        self.answers.resize(self.answers.len() + steps.len(), None);
        self.steps.extend(steps);
    }

    /// Sends the answers. The steps without an answer get this error.
    pub(crate) fn finish(self, failed: Option<Error>) {
        let failed = failed.unwrap_or_else(|| Error::unavailable("the step was not executed"));
        let mut answers = self.answers.into_iter().map(|answer| answer.unwrap_or_else(|| Err(failed.clone())));
        for (count, reply) in self.calls {
            // If the receiver is dropped, no caller waits for the answers.
            let _ = reply.send(answers.by_ref().take(count).collect());
        }
    }

    /// The steps that have no answer yet, in rounds. The steps of one name keep their order.
    fn rounds(&self, decides_mutexes: bool) -> Vec<Round> {
        let mut rounds: Vec<Round> = Vec::new();
        // For each name, the number of its last round, and whether the last step can share the round with another step.
        let mut last: HashMap<&Key, (usize, bool)> = HashMap::new();
        for (number, step) in self.steps.iter().enumerate().filter(|(number, _)| self.answers[*number].is_none()) {
            let is_plain = decides_mutexes && is_plain(step);
            let round = match last.get(step.key()) {
                Some((round, true)) if !is_plain => *round,
                Some((round, _)) => round + 1,
                None => 0,
            };
            last.insert(step.key(), (round, !is_plain));
            if rounds.len() <= round {
                rounds.resize_with(round + 1, Round::default);
            }
            let round = &mut rounds[round];
            match (is_plain, step) {
                (false, _) => round.others.push(number),
                (true, Step::Release(_)) => round.releases.push(number),
                (true, Step::Claim(_) | Step::Pass { .. }) => round.claims.push(number),
            }
        }
        rounds
    }

    fn decide(&mut self, numbers: &[usize], decisions: Vec<Decision>, others: &mut Vec<usize>) {
        for (number, decision) in numbers.iter().zip(decisions) {
            match decision {
                Decision::Answer(answer) => self.answers[*number] = Some(Ok(answer)),
                Decision::Complex => others.push(*number),
            }
        }
    }

    /// Answers the claims of locked rows as busy. Other steps must be executed, so they are repeated.
    fn give_up_claims(&mut self) -> Result<(), Fault> {
        let busy = Answer::Claimed(Verdict::Busy { retry_after: LOCKED_RETRY, ahead: None });
        for (step, answer) in self.steps.iter().zip(&mut self.answers) {
            if answer.is_none() && matches!(step, Step::Claim(_)) {
                *answer = Some(Ok(busy.clone()));
            }
        }
        if self.answers.iter().all(Option::is_some) { Ok(()) } else { Err(Fault::row_locked()) }
    }

    async fn execute(&mut self, mut round: Round, link: &Link, context: &Context) -> Result<(), Fault> {
        let steps = |numbers: &[usize]| numbers.iter().map(|number| &self.steps[*number]).collect::<Vec<_>>();
        let (releases, claims) = (steps(&round.releases), steps(&round.claims));
        let (released, claimed) = join(mutexes::release(link, &releases), mutexes::claim(link, context, &claims)).await;
        let mut others = std::mem::take(&mut round.others);
        // The answers of the one statement count even if the other one has failed.
        let failed = match (released, claimed) {
            (Ok(released), Ok(claimed)) => {
                self.decide(&round.releases, released, &mut others);
                self.decide(&round.claims, claimed, &mut others);
                None
            }
            (Ok(released), Err(fault)) => {
                self.decide(&round.releases, released, &mut others);
                Some(fault)
            }
            (Err(fault), Ok(claimed)) => {
                self.decide(&round.claims, claimed, &mut others);
                Some(fault)
            }
            (Err(fault), Err(_)) => Some(fault),
        };
        if let Some(fault) = failed {
            return Err(fault);
        }
        others.sort_unstable();
        if others.is_empty() {
            return Ok(());
        }
        let steps: Vec<_> = others.iter().map(|number| &self.steps[*number]).collect();
        let answers = states::apply(link, context, &steps).await?;
        let mut is_locked = false;
        for (number, answer) in others.into_iter().zip(answers) {
            is_locked |= answer.is_none();
            self.answers[number] = answer;
        }
        if !is_locked {
            return Ok(());
        }
        self.attempts += 1;
        if self.attempts < MAX_ATTEMPTS {
            return Err(Fault::row_locked());
        }
        self.give_up_claims()
    }
}

#[async_trait]
impl Request for Steps {
    async fn run(&mut self, link: &Link, context: &Context) -> Result<(), Fault> {
        for round in self.rounds(link.statements.decide_mutexes()) {
            self.execute(round, link, context).await?;
        }
        Ok(())
    }

    fn finish(self: Box<Self>, failed: Option<Error>) {
        Self::finish(*self, failed);
    }
}

/// Whether the statements for mutexes can decide this step.
fn is_plain(step: &Step) -> bool {
    let is_mutex = matches!(step.kind(), Kind::Mutex);
    match step {
        Step::Release(_) => is_mutex,
        Step::Claim(claim) => is_mutex && claim.above.is_none(),
        Step::Pass { from, to } => is_mutex && to.above.is_none() && check_pass(from.kind, to.kind).is_ok(),
    }
}
