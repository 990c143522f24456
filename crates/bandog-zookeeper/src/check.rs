//! The health check: the servers of the URL, the session, and the duration of a write.

use std::time::Duration;

use bandog_core::{Finding, Result};
use futures_util::future::join_all;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{Instant, timeout},
};
use zookeeper_client::Client;

use crate::{host::Shared, options::ZooKeeperOptions};

/// Maximum size of the answer to a command of four letters, in bytes.
const MAX_ANSWER: u64 = 64 * 1024;
/// A write that takes longer than this part of the session is a danger: a renewal writes twice in this time.
const SLOW: u32 = 8;

/// What a server says about itself.
enum Says {
    /// Its mode: `leader`, `follower`, `observer` or `standalone`.
    Mode(String),
    /// It answers, and hides its mode.
    Nothing,
    /// It has no connection to its ensemble.
    NotServing,
    Unreachable(String),
}

/// Why there is no connection: what the first server says that does not serve. None if all of them serve.
pub(crate) async fn why_not(options: &ZooKeeperOptions, limit: Duration) -> Option<String> {
    let servers: Vec<&str> = options.servers.split(',').collect();
    let said = join_all(servers.iter().map(|server| ask(server, limit))).await;
    servers.iter().zip(said).find_map(|(server, says)| match says {
        Says::Unreachable(why) => Some(format!("{server}: {why}")),
        Says::NotServing => Some(format!("{server} has no connection to the majority of its ensemble")),
        Says::Mode(_) | Says::Nothing => None,
    })
}

impl Shared {
    pub(crate) async fn findings(&self) -> Result<Vec<Finding>> {
        let deadline = self.deadline();
        let session = self.session(deadline).await?;
        let began = Instant::now();
        self.answered(deadline, async { session.prove().await.map_err(|error| self.fault(error)) }).await?;
        let took = began.elapsed();
        let given = session.client.session_timeout();
        let mut findings = vec![about_session(self.options.session, given), about_write(took, given)];
        let servers: Vec<&str> = self.options.servers.split(',').collect();
        let asked = join_all(servers.iter().map(|server| ask(server, self.timeout())));
        let limited = join_all(servers.iter().map(|server| limit_of(server, &self.options)));
        let (said, limits) = futures_util::join!(asked, limited);
        findings.extend(servers.iter().zip(&said).map(|(server, says)| about_server(server, says)));
        findings.extend(about_ensemble(&said));
        let limits: Vec<_> = servers.iter().zip(limits).filter_map(|(server, limit)| Some((*server, limit?))).collect();
        findings.extend(about_limits(&limits));
        Ok(findings)
    }
}

fn about_session(asked: Duration, given: Duration) -> Finding {
    if asked == given {
        return Finding::fine("session", format!("a session lasts for {given:?}"));
    }
    Finding::advice(
        "session",
        format!("a session lasts for {given:?}; the client asked for {asked:?}"),
        "set minSessionTimeout and maxSessionTimeout of the servers, or ?session= in the URL",
    )
}

fn about_write(took: Duration, session: Duration) -> Finding {
    let says = format!("a write took {took:?}");
    if took < session / SLOW {
        return Finding::fine("write", says);
    }
    Finding::danger(
        "write",
        format!("{says}, and a session lasts for {session:?}, so locks can be lost without a failure"),
        "find out why the servers are slow (their disks, their network), or use a longer ?session=",
    )
}

fn about_server(server: &str, says: &Says) -> Finding {
    match says {
        Says::Mode(mode) => Finding::fine("server", format!("{server} answers ({mode})")),
        Says::Nothing => Finding::advice(
            "server",
            format!("{server} answers, and does not say what it is"),
            "allow the command srvr in 4lw.commands.whitelist",
        ),
        Says::NotServing => Finding::danger(
            "server",
            format!("{server} has no connection to the majority of its ensemble"),
            "look at its log",
        ),
        Says::Unreachable(why) => Finding::danger(
            "server",
            format!("{server} cannot be reached: {why}"),
            "start the server, or remove it from the URL; if a majority is lost, no lock is granted",
        ),
    }
}

/// Whether all servers give sessions of the same duration. None if fewer than two servers have given one.
fn about_limits(limits: &[(&str, Duration)]) -> Option<Finding> {
    let [(_, first), others @ ..] = limits else { return None };
    if others.is_empty() {
        return None;
    }
    if others.iter().all(|(_, limit)| limit == first) {
        return Some(Finding::fine("session limits", format!("all servers give sessions of {first:?}")));
    }
    let each: Vec<_> = limits.iter().map(|(server, limit)| format!("{server} gives {limit:?}")).collect();
    Some(Finding::danger(
        "session limits",
        format!(
            "the servers give sessions of different durations ({}), so two clients can hold a lock after a reconnection",
            each.join(", ")
        ),
        "set the same tickTime, minSessionTimeout and maxSessionTimeout on all servers",
    ))
}

/// The duration of the session that a server gives to this client. The session is closed at once. None if the server gives
/// none in time.
async fn limit_of(server: &str, options: &ZooKeeperOptions) -> Option<Duration> {
    let connector = Client::connector().with_session_timeout(options.session).with_fail_eagerly();
    let client = timeout(options.timeout, connector.connect(server)).await.ok()?.ok()?;
    Some(client.session_timeout())
}

/// Whether the loss of one server stops all locks. None if the servers do not say it.
fn about_ensemble(said: &[Says]) -> Option<Finding> {
    let is_alone = said.iter().any(|says| matches!(says, Says::Mode(mode) if mode == "standalone"));
    let has_leader = said.iter().any(|says| matches!(says, Says::Mode(mode) if mode == "leader"));
    if is_alone {
        return Some(Finding::advice(
            "ensemble",
            "the server is alone: while it is down, no lock is granted",
            "use an ensemble of three servers or more",
        ));
    }
    has_leader.then(|| Finding::fine("ensemble", "the leader is one of the servers of the URL"))
}

/// Sends `srvr` to a server, on a connection of its own.
async fn ask(server: &str, limit: Duration) -> Says {
    let asked = async {
        let mut stream = TcpStream::connect(server).await?;
        stream.write_all(b"srvr").await?;
        let mut answer = String::new();
        stream.take(MAX_ANSWER).read_to_string(&mut answer).await?;
        Ok::<_, std::io::Error>(answer)
    };
    match timeout(limit, asked).await {
        Err(_) => Says::Unreachable(format!("no answer within {limit:?}")),
        Ok(Err(error)) => Says::Unreachable(error.to_string()),
        Ok(Ok(answer)) => read(&answer),
    }
}

fn read(answer: &str) -> Says {
    if let Some(mode) = answer.lines().find_map(|line| line.strip_prefix("Mode: ")) {
        return Says::Mode(mode.trim().to_owned());
    }
    if answer.contains("not currently serving") { Says::NotServing } else { Says::Nothing }
}
