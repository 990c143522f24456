//! Steps: claims, passes and releases. Mutexes without a queue are decided by one statement for many names, and all other
//! locks by [`LockState`](bandog_core::LockState).

use std::{collections::HashMap, iter::repeat_n, time::Instant};

use async_trait::async_trait;
use bandog_core::{Answer, Error, Key, Kind, Result, Step, Verdict, check_pass};
use futures_util::future::join;
use tokio::sync::oneshot;

use crate::{
    channel::Channel,
    context::Context,
    decisions::{Decided, Decision},
    fault::Fault,
    job::Request,
    mutexes,
    session::{Decides, Link},
    states,
};

/// The channel for the answers of a call.
type Reply = oneshot::Sender<Vec<Result<Answer>>>;

/// The steps of several calls. Each [`Request::run`] executes some of them, and further calls can be added in between.
#[derive(Default)]
pub(crate) struct Steps {
    steps: Vec<Step>,
    answers: Answers,
    /// How often the present round was repeated, because another transaction had locked a row.
    attempts: u32,
    /// How many rounds of releases the claims have waited for.
    waited: u32,
}

/// The answers of the steps of several calls.
#[derive(Default)]
struct Answers {
    /// The answers until now. An answer that was sent is no longer needed, but it is still an answer.
    each: Vec<Option<Result<Answer>>>,
    calls: Vec<Call>,
}

struct Call {
    /// The number of its steps.
    steps: usize,
    deadline: Instant,
    /// None after its answers were sent.
    reply: Option<Reply>,
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
        for call in &mut self.calls {
            let begin = end;
            end += call.steps;
            if self.each[begin..end].iter().all(Option::is_some)
                && let Some(reply) = call.reply.take()
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

/// Maximum number of rounds of releases that claims wait for. There can be releases all the time.
const MAX_WAITED: u32 = 2;

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

    /// Adds a call. Steps that have not begun by this deadline are not executed.
    pub(crate) fn add(&mut self, steps: Vec<Step>, deadline: Instant, reply: Reply) {
        self.answers.calls.push(Call { steps: steps.len(), deadline, reply: Some(reply) });
        self.answers.each.resize(self.answers.each.len() + steps.len(), None);
        self.steps.extend(steps);
    }

    /// Sends the answers of the calls that have all of them, and keeps the other calls for the next round. If the deadline of a
    /// call has passed, its other steps get the error `late`. Returns whether there are calls for the next round.
    pub(crate) fn keep_open_calls(&mut self, late: impl Fn() -> Error) -> bool {
        let (Answers { each, calls }, now) = (&mut self.answers, Instant::now());
        let mut answers = each.iter_mut();
        for call in calls {
            let is_late = call.deadline <= now;
            answers.by_ref().take(call.steps).filter(|_| is_late).for_each(|answer| {
                answer.get_or_insert_with(|| Err(late()));
            });
        }
        self.answers.send();
        let Answers { each, calls } = &mut self.answers;
        let are_open = calls.iter().flat_map(|call| repeat_n(call.reply.is_some(), call.steps));
        let (mut of_steps, mut of_answers) = (are_open.clone(), are_open);
        self.steps.retain(|_| of_steps.next().unwrap_or(true));
        each.retain(|_| of_answers.next().unwrap_or(true));
        calls.retain(|call| call.reply.is_some());
        !self.steps.is_empty()
    }

    /// Sends the answers. The steps without an answer get this error.
    pub(crate) fn finish(mut self, failed: Option<Error>) {
        let failed = failed.unwrap_or_else(|| Error::unavailable("the step was not executed"));
        for answer in self.answers.each.iter_mut() {
            answer.get_or_insert_with(|| Err(failed.clone()));
        }
        self.answers.send();
    }

    /// The next steps. The steps of one name keep their order, so most of them are in different rounds.
    fn next_round(&self, is_plain: impl Fn(&Step) -> bool) -> Round {
        let mut round = Round::default();
        // Whether a further step of this name can be in this round.
        let mut has_room: HashMap<&Key, bool> = HashMap::new();
        for (number, step) in self.steps.iter().enumerate().filter(|(number, _)| self.answers.is_open(*number)) {
            let is_plain = is_plain(step);
            let fits = has_room.get(step.key()).is_none_or(|has_room| *has_room && !is_plain);
            has_room.insert(step.key(), fits && !is_plain);
            match (is_plain, step) {
                _ if !fits => {}
                (false, _) => round.others.push(number),
                (true, Step::Release(_)) => round.releases.push(number),
                (true, Step::Claim(_) | Step::Pass { .. }) => round.claims.push(number),
            }
        }
        round
    }

    /// Answers the claims of which a poll has just seen that they are still busy. The other steps may change their
    /// locks.
    fn answer_from_polls(&mut self, context: &Context) {
        let mut steps: HashMap<&Key, u32> = HashMap::new();
        self.steps.iter().for_each(|step| *steps.entry(step.key()).or_default() += 1);
        for (step, answer) in self.steps.iter().zip(&mut self.answers.each).filter(|(_, answer)| answer.is_none()) {
            let busy_for = match step {
                Step::Claim(claim) if steps[&claim.key] == 1 => context.subscriptions.busy_for(claim),
                Step::Claim(_) | Step::Pass { .. } | Step::Release(_) => None,
            };
            match busy_for {
                Some(retry_after) => *answer = Some(Ok(Answer::Claimed(Verdict::Busy { retry_after, ahead: None }))),
                None => context.subscriptions.forget_lease(step.key()),
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
        let (not_released, claimed) = join(released, mutexes::claim(link, context, &claims)).await;
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
    /// Executes the next round.
    async fn run(&mut self, link: &Link, context: &Context) -> Result<(), Fault> {
        self.answer_from_polls(context);
        let is_alone = self.steps.len() == 1;
        let mut round = self.next_round(|step| is_plain(link, context, step, is_alone));
        let mut claims_wait = false;
        if link.decides == Decides::UsualSteps {
            if self.attempts > 0 {
                // Another transaction has locked a row, which may be that of a release. No claim waits for it.
                round.others.append(&mut round.releases);
            }
            // See `mysql/blocks`: there, no statement follows a block whose answer is not there. So the claims wait for the
            // releases, and are executed together with those that arrive meanwhile.
            let is_divided = !round.releases.is_empty() && !round.claims.is_empty();
            claims_wait = is_divided && self.waited < MAX_WAITED;
            if claims_wait {
                round.claims.clear();
                round.others.clear();
            } else if is_divided {
                round.releases.clear();
            }
        }
        let numbers = [&round.claims[..], &round.releases, &round.others].concat();
        let executed = self.execute(round, link, context).await;
        // A poll that was sent before the end of the round can have read a lock before the round has changed it.
        numbers.iter().for_each(|number| context.subscriptions.forget_lease(self.steps[*number].key()));
        if executed? {
            // The steps of the next rounds come after those that have no answer yet.
            self.attempts += 1;
            if self.attempts < MAX_ATTEMPTS {
                return Err(Fault::row_locked());
            }
            self.give_up(&numbers);
        }
        self.attempts = 0;
        self.waited = if claims_wait { self.waited + 1 } else { 0 };
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
            claim.above.is_none() && !context.subscriptions.has(Channel::of_lock(&claim.key))
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
