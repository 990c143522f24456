//! Candidates and observers of elections. In the history, a candidate is a call for the lock of its election.

use std::time::Duration;

use bandog::{Election, Leader, Leadership, Result};
use tokio::time;

use super::{
    section::hold,
    task::{Task, is_unavailable},
};
use crate::{
    calls::{Context as _, Outcome},
    history::CallId,
    locks::{
        history::{Name, Op, Verb},
        share::Share,
    },
    plan::{self, ELECTIONS, TTL},
};

/// Campaigns until all tasks must end.
pub(super) async fn run(mut task: Task) {
    while !task.must_stop() {
        let name = task.random.usize(ELECTIONS);
        campaign(&mut task, name).await;
        task.rest().await;
    }
}

/// Campaigns once, and is the leader for some time.
async fn campaign(task: &mut Task, name: usize) {
    let is_dropped = task.random.u8(..6) == 0;
    let (verb, patience) = if is_dropped {
        (Verb::Dropped, Duration::from_micros(task.random.u64(..20_000)))
    } else {
        (Verb::Lock, Duration::MAX)
    };
    let call = task.begin(name, Op::lock(Share::Leader, verb, task.context.args.ttl(), true), Duration::MAX);
    // Observers report this text.
    let text = format!("{} {call}", task.context.number);
    let election = task.context.client.election(plan::name(name)).candidate(text);
    let answer = tokio::select! { biased;
        answer = election.campaign() => answer,
        () = time::sleep(patience) => return task.context.recorder.end(call, Outcome::Cancelled),
    };
    match answer {
        Ok(leadership) => lead(task, name, call, leadership).await,
        Err(error) => _ = task.failed(name, call, &error),
    }
}

/// Is the leader for some time: usually not long, rarely for longer than the ttl.
async fn lead(task: &mut Task, name: usize, call: CallId, leadership: Leadership) {
    task.context.begin(name, call, &leadership);
    match task.random.u8(..100) {
        0..60 => {}
        60..80 => tokio::task::yield_now().await,
        80..99 => time::sleep(Duration::from_millis(task.random.u64(..4))).await,
        _ => {
            let length = TTL.mul_f64(0.3 + 1.5 * task.random.f64());
            hold(task, call, &leadership, length).await;
        }
    }
    let is_held = task.context.end(name, call, &leadership, task.random.bool());
    match task.random.u8(..20) {
        0..6 => drop(leadership),
        chosen => _ = task.release((name, call), chosen == 6, leadership.resign()).await,
    }
    if !is_held {
        tokio::task::yield_now().await;
    }
}

/// Observes elections until all tasks must end.
pub(super) async fn observe(mut task: Task) {
    while !task.must_stop() {
        let name = task.random.usize(ELECTIONS);
        let election = task.context.client.election(plan::name(name));
        follow(&mut task, name, &election).await;
    }
}

/// Reports some changes of the leader, and asks for the present leader from time to time.
async fn follow(task: &mut Task, name: usize, election: &Election) {
    let mut observer = election.observe();
    let last = task.random.u8(10..200);
    for _ in 0..last {
        let follows = task.random.u8(..4) > 0;
        let patience = Duration::from_millis(task.random.u64(1..200));
        let call = task.begin(name, Op::Leader { follows }, Duration::MAX);
        let outcome = if follows {
            tokio::select! { biased;
                answer = observer.changed() => reported(name, answer),
                () = task.give_up(Some(patience)) => Outcome::Cancelled,
            }
        } else {
            reported(name, election.leader().await)
        };
        task.context.recorder.end(call, outcome);
        if outcome == Outcome::Cancelled {
            continue;
        }
        if is_unavailable(outcome) {
            time::sleep(Duration::from_millis(5)).await;
        }
        task.rest().await;
        if task.must_stop() {
            return;
        }
    }
}

/// The outcome of a question for the leader.
fn reported(name: usize, answer: Result<Option<Leader>>) -> Outcome {
    let leader = match answer {
        Ok(Some(leader)) => leader,
        Ok(None) => return Outcome::No,
        Err(error) => return super::context::Context::failed(Name(name), &error),
    };
    // A text that no candidate has is reported as a leader that is unknown.
    let of = leader.text().split_once(' ').and_then(|(client, call)| Some((client.parse().ok()?, call.parse().ok()?)));
    let (client, call) = of.unwrap_or((u32::MAX, CallId::MAX));
    Outcome::Leader { fence: leader.fence().get(), client, call }
}
