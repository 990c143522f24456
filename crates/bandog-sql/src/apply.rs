//! Steps: claims, passes and releases. Mutexes without a queue are decided by one statement for many names, and all other
//! locks by [`LockState`](bandog_core::LockState).

use std::collections::HashMap;

use async_trait::async_trait;
use bandog_core::{Answer, Error, Key, Kind, Result, Step, Verdict, check_pass};
use futures_util::future::join;
use tokio::sync::oneshot;

use crate::{
    fault::Fault,
    job::Request,
    leases::Context,
    listen::Channel,
    mutexes::{self, Decided, Decision},
    session::{Decides, Link},
    states,
};

/// The channel for the answers of a call.
type Reply = oneshot::Sender<Vec<Result<Answer>>>;

/// The steps of several calls.
#[derive(Default)]
pub(crate) struct Steps {
    steps: Vec<Step>,
    answers: Answers,
    /// How often a step was left out, because another transaction had locked its row.
    attempts: u32,
}

/// The answers of the steps of several calls.
#[derive(Default)]
struct Answers {
    /// The answers until now. An answer that was sent is no longer needed, but it is still an answer.
    each: Vec<Option<Result<Answer>>>,
    /// The number of steps of each call, and its channel. None after its answers were sent.
    calls: Vec<(usize, Option<Reply>)>,
}

impl Answers {
    /// Whether the step with this number has no answer.
    fn is_open(&self, number: usize) -> bool {
        self.each[number].is_none()
    }

    /// Keeps the answers of the steps with these numbers. `others` gets the numbers of the steps that the statement did not
    /// decide.
    fn decide(
        &mut self,
        numbers: &[usize],
        decisions: impl IntoIterator<Item = Option<Decision>>,
        others: &mut Vec<usize>,
    ) {
        for (number, decision) in numbers.iter().zip(decisions) {
            match decision {
                Some(Decision::Answer(answer)) => self.each[*number] = Some(Ok(answer)),
                Some(Decision::Complex) => others.push(*number),
                None => {} // The statement has failed.
            }
        }
    }

    /// Sends the answers of the calls that have all of them.
    fn send(&mut self) {
        let mut end = 0;
        for (count, reply) in &mut self.calls {
            let begin = end;
            end += *count;
            if self.each[begin..end].iter().all(Option::is_some)
                && let Some(reply) = reply.take()
            {
                // If the receiver is dropped, no caller waits for the answers.
                let _ = reply.send(self.each[begin..end].iter().flatten().cloned().collect());
            }
        }
    }
}

/// Maximum number of attempts at a step whose row another transaction has locked. The delays between them are short, because
/// all requests behind this one wait: 25 ms together, on average.
const MAX_ATTEMPTS: u32 = 8;

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
    /// The number of steps.
    pub(crate) fn len(&self) -> usize {
        self.steps.len()
    }

    pub(crate) fn add(&mut self, steps: Vec<Step>, reply: Reply) {
        self.answers.calls.push((steps.len(), Some(reply)));
        self.answers.each.resize(self.answers.each.len() + steps.len(), None);
        self.steps.extend(steps);
    }

    /// Sends the answers. The steps without an answer get this error.
    pub(crate) fn finish(mut self, failed: Option<Error>) {
        let failed = failed.unwrap_or_else(|| Error::unavailable("the step was not executed"));
        for answer in self.answers.each.iter_mut() {
            answer.get_or_insert_with(|| Err(failed.clone()));
        }
        self.answers.send();
    }

    /// The steps that have no answer yet, in rounds. The steps of one name keep their order.
    fn rounds(&self, is_plain: impl Fn(&Step) -> bool) -> Vec<Round> {
        let mut rounds: Vec<Round> = Vec::new();
        // For each name, the number of its last round, and whether the last step can share the round with another step.
        let mut last: HashMap<&Key, (usize, bool)> = HashMap::new();
        for (number, step) in self.steps.iter().enumerate().filter(|(number, _)| self.answers.is_open(*number)) {
            let is_plain = is_plain(step);
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

    /// Answers the claims of which a poll has just seen that they are still busy. The other steps change their locks, perhaps.
    fn answer_from_polls(&mut self, context: &Context) {
        let mut steps: HashMap<&Key, u32> = HashMap::new();
        self.steps.iter().for_each(|step| *steps.entry(step.key()).or_default() += 1);
        for (step, answer) in self.steps.iter().zip(&mut self.answers.each).filter(|(_, answer)| answer.is_none()) {
            let busy_for = match step {
                Step::Claim(claim) if steps[&claim.key] == 1 => context.listener.busy_for(claim),
                Step::Claim(_) | Step::Pass { .. } | Step::Release(_) => None,
            };
            match busy_for {
                Some(retry_after) => *answer = Some(Ok(Answer::Claimed(Verdict::Busy { retry_after, ahead: None }))),
                None => context.listener.forget_lease(step.key()),
            }
        }
    }

    /// Answers the steps of these numbers that have no answer, because their rows are locked.
    fn give_up(&mut self, numbers: &[usize]) {
        for number in numbers {
            let step = &self.steps[*number];
            self.answers.each[*number].get_or_insert_with(|| states::given_up(step));
        }
    }

    /// Executes a round. Returns whether another transaction has locked a row. The steps of such rows get no answer.
    async fn execute(&mut self, mut round: Round, link: &Link, context: &Context) -> Result<bool, Fault> {
        let Self { steps, answers, .. } = self;
        let of = |numbers: &[usize]| numbers.iter().map(|number| &steps[*number]).collect::<Vec<_>>();
        let (releases, claims) = (of(&round.releases), of(&round.claims));
        let mut others = std::mem::take(&mut round.others);
        // The answers of the one statement count even if the other one has failed. Those of the releases are sent at once, so
        // their callers do not wait for the claims.
        let released = async {
            let Decided { decisions, failed } = mutexes::release(link, &releases).await;
            answers.decide(&round.releases, decisions, &mut others);
            answers.send();
            failed
        };
        let (not_released, claimed) = match link.decides {
            // See `mysql/blocks`: there, no statement may follow one whose answer is not there.
            Decides::UsualSteps => match released.await {
                Some(fault) => return Err(fault),
                None => (None, mutexes::claim(link, context, &claims).await),
            },
            Decides::AllSteps | Decides::Nothing => join(released, mutexes::claim(link, context, &claims)).await,
        };
        answers.decide(&round.claims, claimed.decisions, &mut others);
        if let Some(fault) = not_released.or(claimed.failed) {
            return Err(fault);
        }
        others.sort_unstable();
        if others.is_empty() {
            return Ok(false);
        }
        answers.send();
        let steps: Vec<_> = others.iter().map(|number| &self.steps[*number]).collect();
        let answers = states::apply(link, context, &steps).await?;
        let mut is_locked = false;
        for (number, answer) in others.into_iter().zip(answers) {
            is_locked |= answer.is_none();
            self.answers.each[number] = answer;
        }
        Ok(is_locked)
    }
}

#[async_trait]
impl Request for Steps {
    async fn run(&mut self, link: &Link, context: &Context) -> Result<(), Fault> {
        self.answer_from_polls(context);
        let is_alone = self.steps.len() == 1;
        for round in self.rounds(|step| is_plain(link, context, step, is_alone)) {
            let numbers = [&round.claims[..], &round.releases, &round.others].concat();
            if self.execute(round, link, context).await? {
                // The steps of the next rounds come after those that have no answer yet.
                self.attempts += 1;
                if self.attempts < MAX_ATTEMPTS {
                    return Err(Fault::row_locked());
                }
                self.give_up(&numbers);
            }
        }
        Ok(())
    }

    fn finish(self: Box<Self>, failed: Option<Error>) {
        Self::finish(*self, failed);
    }
}

/// Whether the statements for mutexes can decide this step.
fn is_plain(link: &Link, context: &Context, step: &Step, is_alone: bool) -> bool {
    if !matches!(step.kind(), Kind::Mutex) {
        return false;
    }
    match (link.decides, step) {
        (Decides::Nothing, _) => false,
        // A lock for which this process subscribes is held, probably.
        (Decides::UsualSteps, Step::Claim(claim)) => {
            claim.above.is_none() && !context.listener.has(Channel::of_lock(&claim.key))
        }
        (Decides::UsualSteps, Step::Release(_)) => true,
        (Decides::UsualSteps, Step::Pass { from, to }) => {
            is_alone && to.above.is_none() && check_pass(from.kind, to.kind).is_ok()
        }
        (Decides::AllSteps, Step::Claim(claim)) => claim.above.is_none(),
        (Decides::AllSteps, Step::Release(_)) => true,
        (Decides::AllSteps, Step::Pass { from, to }) => to.above.is_none() && check_pass(from.kind, to.kind).is_ok(),
    }
}
