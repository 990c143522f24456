//! Sentinels: they name the master, and its successor after a failover.
//!
//! One task for each store asks all sentinels all the time. A connection attempt takes the master that follows from the
//! answers. While the connection is open, the client leaves it when another master follows from later answers.
//!
//! A sentinel may be behind: it was stopped, or it is cut off from the others. So no sentinel is believed alone, as long as
//! others answer: see [`facts`].

mod discovery;
mod facts;
mod sentinel;

use std::{
    future::pending,
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use bandog_core::{Error, ErrorKind, Result, rounded};
use futures_util::FutureExt;
use redis::{Value, aio::AsyncPushSender};
use tokio::{
    sync::watch,
    time::{sleep, timeout, timeout_at},
};

pub(crate) use self::discovery::Discovery;
use self::facts::{Choice, Facts};
use crate::{
    dial::{Connection, TlsProbeBudget, dial_limit, dial_server},
    options::{Host, Options},
    reply::text,
};

/// Maximum time to wait for the other sentinels when most have answered. One of them may know of a failover that the
/// others do not know yet.
const GRACE: Duration = Duration::from_millis(50);

/// Connects to the master that the sentinels name, and logs in.
///
/// If the sentinels name several masters, each of them gets a part of the time. If they name another master in the
/// meantime, it is the next one.
///
/// # Errors
/// Those of [`dial_server`]. It is `Misused` if the sentinels do not know the master, and `Denied` if they refuse the
/// login. The message has the fault of each sentinel.
pub(crate) async fn dial(
    options: &Options,
    discovery: &Arc<Discovery>,
    pushes: Option<Arc<dyn AsyncPushSender>>,
    probes: &mut TlsProbeBudget,
) -> Result<Connection> {
    let limit = dial_limit(options);
    let (deadline, mut facts) = (Instant::now() + limit, discovery.facts());
    discovery.ask();
    let (mut tried, mut faults) = (Vec::new(), Vec::new());
    loop {
        let Ok(masters) = timeout_at(deadline.into(), masters(&mut facts)).await else {
            faults.push(Error::unavailable(format!("the sentinels did not answer within {}", rounded(limit))));
            break;
        };
        let mut untried = masters.into_iter().filter(|choice| !tried.contains(&choice.master));
        let Some(choice) = untried.next() else { break };
        let part = deadline.saturating_duration_since(Instant::now()) / u32::try_from(1 + untried.count()).unwrap_or(1);
        tried.push(choice.master.clone());
        match connect(options, discovery, choice, pushes.clone(), probes, part).await {
            Ok(connection) => return Ok(connection),
            Err(error) => faults.push(error),
        }
    }
    if tried.is_empty() || faults.len() > 1 {
        let facts = facts.borrow();
        faults.extend(facts.faults());
        let hosts: Vec<_> = facts.hosts().cloned().collect();
        return Err(no_master(options, &faults, &hosts));
    }
    Err(faults.pop().unwrap_or_else(|| no_master(options, &[], &[])))
}

/// Waits until the delay has passed or the sentinels name another master.
pub(crate) async fn wait(discovery: &Discovery, delay: Duration) {
    let first = |facts: &Facts| facts.masters().into_iter().next().map(|choice| choice.master);
    let mut facts = discovery.facts();
    let before = first(&facts.borrow());
    tokio::select! {
        () = sleep(delay) => {}
        _ = facts.wait_for(|facts| first(facts) != before) => {}
    }
}

/// Waits until the sentinels have answered. Returns the masters that the believed ones name.
async fn masters(facts: &mut watch::Receiver<Facts>) -> Vec<Choice> {
    let mut enough = facts.clone();
    let mut enough = pin!(async {
        // The sender lives as long as the store is used.
        let _ = enough.wait_for(Facts::is_sufficient).await;
        sleep(GRACE).await;
    });
    tokio::select! {
        _ = facts.wait_for(Facts::is_complete) => {}
        () = &mut enough => {}
    }
    facts.borrow().masters()
}

/// The number of known sentinels, and the faults of those that do not answer or answer wrongly. Waits at most `limit` until
/// each sentinel has answered or failed.
pub(crate) async fn health(discovery: &Discovery, limit: Duration) -> (usize, Vec<Error>) {
    discovery.start();
    let mut facts = discovery.facts();
    // After the limit, a sentinel without an answer is a fault.
    let _ = timeout(limit, facts.wait_for(Facts::is_complete)).await;
    let facts = facts.borrow();
    (facts.hosts().len(), facts.faults().into_iter().chain(facts.silent()).collect())
}

/// Connects to this master within this time. Fails if the sentinels name another master in the meantime.
async fn connect(
    options: &Options,
    discovery: &Arc<Discovery>,
    choice: Choice,
    pushes: Option<Arc<dyn AsyncPushSender>>,
    probes: &mut TlsProbeBudget,
    limit: Duration,
) -> Result<Connection> {
    let master = choice.master.clone();
    let mut moved = moved(discovery.clone(), choice).boxed();
    let connected = tokio::select! {
        connected = timeout(limit, connect_master(options, &master, pushes, probes)) => connected,
        () = &mut moved => Ok(Err(Error::unavailable(format!("{master} is not the master any more")))),
    };
    let no_answer = |_| {
        let hint = options.master_at(&master).address_hint();
        let message =
            format!("{}: the master {master} did not answer within {}{hint}", options.store(), rounded(limit));
        Error::unavailable(message)
    };
    Ok(Connection { moved, ..connected.map_err(no_answer)?? })
}

/// Connects to this server, and checks that it is a master. A sentinel may name a server that has just become a replica,
/// or a replica that is not a master yet.
async fn connect_master(
    options: &Options,
    master: &Host,
    pushes: Option<Arc<dyn AsyncPushSender>>,
    probes: &mut TlsProbeBudget,
) -> Result<Connection> {
    let dialled = dial_server(&options.master_at(master), pushes, probes).await;
    let unreachable = |error: Error| match error.kind() {
        ErrorKind::Unavailable => Error::unavailable(format!("the master {master} cannot be reached")).caused_by(error),
        _ => error,
    };
    let mut connection = dialled.map_err(unreachable)?;
    let mut hello = redis::cmd("HELLO");
    let (hello, mut mux) = (hello.arg(3), connection.mux.clone());
    // Every user may run this command, in contrast to ROLE.
    let greeting = tokio::select! {
        () = &mut connection.driver => Err(Error::unavailable("the connection broke")),
        greeting = mux.send_packed_command(hello) => greeting.map_err(crate::refusal::failed),
    };
    match role(&greeting.map_err(unreachable)?).as_deref() {
        Some("replica") => Err(Error::unavailable(format!("{master} is a replica now, and not the master"))),
        // A server or proxy that does not say its role is believed. If it is a replica, it refuses the first claim.
        Some(_) | None => Ok(connection),
    }
}

/// The role in the reply of `HELLO`.
fn role(greeting: &Value) -> Option<String> {
    let Value::Map(fields) = greeting else { return None };
    fields.iter().find(|(name, _)| text(name).as_deref() == Some("role")).and_then(|(_, role)| text(role))
}

/// Returns when the sentinels name another master than this one.
async fn moved(discovery: Arc<Discovery>, choice: Choice) {
    let mut facts = discovery.facts();
    let mut has_started = false;
    loop {
        let is_watched = {
            let facts = facts.borrow_and_update();
            if facts.have_left(&choice) {
                return;
            }
            facts.is_watched
        };
        // The runtime of the task may end before the runtime of this connection. If the new task ends, too, this runtime
        // shuts down.
        if !is_watched && !has_started {
            has_started = true;
            discovery.start();
        }
        if facts.changed().await.is_err() {
            return pending().await;
        }
    }
}

/// The texts of these faults. If the texts of several sentinels differ only in the host, the first one is followed by the
/// hosts of the others.
fn grouped(faults: &[Error], hosts: &[Host]) -> Vec<String> {
    let mut groups: Vec<(String, String, Vec<String>)> = Vec::new();
    for text in faults.iter().map(Error::without_kind) {
        let named = hosts.iter().map(Host::to_string).filter(|host| text.contains(host.as_str()));
        // A host can be the beginning of another one.
        let host = named.max_by_key(String::len);
        let pattern = host.as_ref().map_or(text.clone(), |host| text.replace(host.as_str(), "*"));
        match groups.iter_mut().find(|(other, ..)| *other == pattern) {
            Some((.., others)) => others.extend(host.filter(|host| !others.contains(host))),
            None => groups.push((pattern, text, Vec::new())),
        }
    }
    let group = |(_, text, others): (_, String, Vec<String>)| {
        if others.is_empty() { text } else { format!("{text} (and the same at {})", others.join(" and ")) }
    };
    groups.into_iter().map(group).collect()
}

/// The error if no master could be reached because of these faults. `hosts`: the sentinels.
fn no_master(options: &Options, faults: &[Error], hosts: &[Host]) -> Error {
    // If one fault may be temporary, the whole attempt can succeed later.
    let first = faults.iter().find(|fault| fault.is_retryable()).or(faults.first());
    let kind = first.map_or(ErrorKind::Unavailable, Error::kind);
    let texts = grouped(faults, hosts);
    let text = if texts.is_empty() { "no sentinel names a master".to_owned() } else { texts.join("; ") };
    let error = Error::new(kind, format!("{}: {text}", options.store()));
    if first.is_some_and(Error::is_about_login) { error.about_login() } else { error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_faults_of_several_sentinels_are_one_text() {
        let host = |port| Host { name: "10.0.0.1".into(), port };
        let hosts = [host(2637), host(26379), host(26380)];
        let refused = |port| Error::new(ErrorKind::Denied, format!("the sentinel {} refuses the login", host(port)));
        let faults = [refused(2637), refused(26379), Error::unavailable("late"), refused(26380), refused(26380)];
        assert_eq!(
            grouped(&faults, &hosts),
            [
                "the sentinel 10.0.0.1:2637 refuses the login (and the same at 10.0.0.1:26379 and 10.0.0.1:26380)",
                "late"
            ]
        );
        assert!(grouped(&[], &hosts).is_empty());
    }
}
