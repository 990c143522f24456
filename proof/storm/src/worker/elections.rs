//! Candidates and observers of elections. In the history, a candidate is a call for the lock of its election.

use std::time::Duration;

use bandog::{Election, ErrorKind, Leader, Leadership};
use tokio::time;

use super::{outcome::outcome, section::hold, task::Task};
use crate::{
    history::{CallId, Event, Nanos, Outcome, Verb, nanos},
    plan::{self, ELECTIONS, TTL},
    share::Share,
};

/// Campaigns until all tasks must end.
pub(super) async fn run(mut task: Task) {
    while !task.must_end() {
        let name = task.random.usize(ELECTIONS);
        campaign(&mut task, name).await;
        task.rest().await;
    }
}

/// Campaigns once, and is the leader for some time.
async fn campaign(task: &mut Task, name: usize) {
    let call = task.context.next_call();
    // Observers report this text.
    let text = format!("{} {call}", task.context.number);
    let election = task.context.client.election(plan::name(name)).candidate(text);
    let is_dropped = task.random.u8(..6) == 0;
    let (verb, patience) = if is_dropped {
        (Verb::Dropped, Duration::from_micros(task.random.u64(..20_000)))
    } else {
        (Verb::Lock, Duration::MAX)
    };
    let (at, number, ttl) = (task.context.now(), task.number, nanos(task.ttl));
    let (share, limit, watched) = (Share::Leader, Nanos::MAX, true);
    task.context.note(&Event::Asked { call, at, task: number, name, share, verb, limit, ttl, watched });
    let answer = tokio::select! { biased;
        answer = election.campaign() => answer,
        () = time::sleep(patience) => return task.context.answered(call, Outcome::Cancelled),
    };
    match answer {
        Ok(leadership) => lead(task, name, call, leadership).await,
        Err(error) => task.context.answered(call, outcome(&error, share)),
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
            hold(&task.context, call, &leadership, length, &task.stop).await;
        }
    }
    let is_held = task.context.end(name, call, &leadership, task.random.bool());
    match task.random.u8(..20) {
        0..6 => drop(leadership),
        6 => {
            // The leadership ends even if the future is dropped.
            tokio::select! { biased;
                _ = leadership.resign() => {}
                () = tokio::task::yield_now() => {}
            }
        }
        _ => {
            let answer = leadership.resign().await;
            let outcome = answer.map_or_else(|error| outcome(&error, Share::Leader), |()| Outcome::Released);
            task.context.answered(call, outcome);
        }
    }
    if !is_held {
        tokio::task::yield_now().await;
    }
}

/// Observes elections until all tasks must end.
pub(super) async fn observe(mut task: Task) {
    while !task.must_end() {
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
        let from = task.context.now();
        let answer = if follows {
            let patience = Duration::from_millis(task.random.u64(1..200));
            tokio::select! { biased;
                answer = observer.changed() => answer,
                () = task.give_up(Some(patience)) => continue,
            }
        } else {
            election.leader().await
        };
        match answer {
            Ok(leader) => record(task, name, follows, from, leader.as_ref()),
            Err(error) if error.kind() == ErrorKind::Unavailable => time::sleep(Duration::from_millis(5)).await,
            Err(error) => eprintln!("storm: an observer: {error}"),
        }
        task.rest().await;
        if task.must_end() {
            return;
        }
    }
}

/// Records a report about the leader.
fn record(task: &Task, name: usize, follows: bool, from: Nanos, leader: Option<&Leader>) {
    let (at, number) = (task.context.now(), task.number);
    let of = leader.and_then(|leader| {
        let (client, call) = leader.text().split_once(' ')?;
        Some((leader.fence().get(), client.parse().ok()?, call.parse().ok()?))
    });
    let (fence, client, call) = of.unwrap_or_default();
    task.context.note(&Event::Observed { task: number, from, at, name, follows, fence, client, call });
}
