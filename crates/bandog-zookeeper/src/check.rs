//! The health check: the servers of the URL, what they give and accept, the session, the duration of a write, and the
//! clock of the leader.

use std::{
    io,
    time::{Duration, SystemTime},
};

use bandog_core::{Clock, Error, ErrorKind, Finding, Result, rounded};
use futures_util::future::join_all;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    time::{Instant, timeout},
};
use zookeeper_client::{Client, Error as ZkError};

use crate::{host::Shared, options::ZooKeeperOptions, records::MAX_BYTES, servers::dial, session::connect, tls};

/// Maximum size of the answer to a command of four letters, in bytes.
const MAX_ANSWER: u64 = 64 * 1024;
/// A write that takes longer than this part of the session is a danger: a renewal writes twice in this time.
const SLOW: u32 = 8;
/// Differences between two clocks below this are not reported.
const CLOCK_DIFFERENCE: Duration = Duration::from_secs(1);

/// A server closes a connection without an answer if it has too many connections of this machine.
const CLOSED: &str = "it closed the connection without an answer, as if this machine had too many connections to it: \
                      raise its maxClientCnxns (60 by default), or use fewer clients";

/// The answer of a server about itself.
enum Says {
    /// Its mode: `leader`, `follower`, `observer` or `standalone`.
    Mode(String),
    /// It answers, and hides its mode.
    Nothing,
    /// It has no connection to its ensemble.
    NotServing,
    Unreachable(String),
    /// There is no connection over TLS, and a repetition cannot change it.
    Refused(Error),
}

/// Why there is no connection: what the first server says that does not serve. None if all of them serve.
pub(crate) async fn why_not(options: &ZooKeeperOptions, limit: Duration) -> Option<String> {
    let servers: Vec<&str> = options.servers.split(',').collect();
    let said = join_all(servers.iter().map(|server| ask(server, options, limit))).await;
    servers.iter().zip(said).find_map(|(server, says)| match says {
        Says::Unreachable(why) => Some(format!("{server}: {why}")),
        Says::NotServing => Some(format!("{server} has no connection to the majority of its ensemble")),
        Says::Refused(error) => Some(error.without_kind()),
        Says::Mode(_) | Says::Nothing => None,
    })
}

/// Why no server can be used over TLS. None if the URL has no TLS, or if a repetition can succeed.
pub(crate) async fn tls_refusal(options: &ZooKeeperOptions) -> Option<Error> {
    options.tls.as_ref()?;
    let said = join_all(options.servers.split(',').map(|server| ask(server, options, options.timeout))).await;
    let refusals = said.into_iter().map(|says| if let Says::Refused(error) = says { Some(error) } else { None });
    refusals.collect::<Option<Vec<_>>>()?.into_iter().next()
}

impl Shared {
    pub(crate) async fn findings(&self) -> Result<Vec<Finding>> {
        let deadline = self.deadline();
        let session = self.session(deadline).await?;
        let began = Instant::now();
        let prove = async { session.prove().await.map_err(|error| self.fault(error)) };
        let written_at = self.answered(deadline, prove).await?;
        let took = began.elapsed();
        let given = session.client.session_timeout();
        let mut findings =
            vec![about_session(self.options.session, given), about_write(took, given), about_clock(written_at, took)];
        let servers: Vec<&str> = self.options.servers.split(',').collect();
        let asked = join_all(servers.iter().map(|server| ask(server, &self.options, self.timeout())));
        let tried = join_all(servers.iter().map(|server| limits_of(server, &self.options)));
        let (said, limits) = futures_util::join!(asked, tried);
        findings.extend(servers.iter().zip(&said).map(|(server, says)| about_server(server, says)));
        findings.extend(about_ensemble(&said));
        let limits: Vec<_> = servers.iter().zip(limits).filter_map(|(server, limit)| Some((*server, limit?))).collect();
        findings.extend(about_limits(&limits));
        findings.extend(about_requests(&limits));
        Ok(findings)
    }
}

fn about_session(asked: Duration, given: Duration) -> Finding {
    if asked == given {
        return Finding::fine("session", format!("a session lasts for {}", rounded(given)));
    }
    Finding::advice(
        "session",
        format!("a session lasts for {}; the client asked for {}", rounded(given), rounded(asked)),
        "set minSessionTimeout and maxSessionTimeout of the servers, or ?session= in the URL",
    )
}

fn about_write(took: Duration, session: Duration) -> Finding {
    let says = format!("a write took {}", rounded(took));
    if took < session / SLOW {
        return Finding::fine("write", says);
    }
    Finding::danger(
        "write",
        format!("{says}, and a session lasts for {}, so locks can be lost without a failure", rounded(session)),
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
            "check its log",
        ),
        Says::Refused(error) => {
            Finding::danger("server", error.to_string(), "mend the certificates, or remove the server from the URL")
        }
        Says::Unreachable(why) => Finding::danger(
            "server",
            format!("{server} cannot be reached: {why}"),
            "start the server, or remove it from the URL; if a majority is lost, no lock is granted",
        ),
    }
}

/// No lock depends on this clock. `took`: the duration of the write.
fn about_clock(written_at: SystemTime, took: Duration) -> Finding {
    let ours = Clock::system().wall();
    let difference = ours.duration_since(written_at).or_else(|_| written_at.duration_since(ours)).unwrap_or_default();
    if difference < CLOCK_DIFFERENCE + took {
        return Finding::fine("clock", "the clock of the leader agrees with the clock of this machine");
    }
    Finding::advice(
        "clock",
        format!("the clocks of the leader and of this machine differ by {} s", difference.as_secs()),
        "synchronize both clocks; jobs start by the clock of the leader, and no lock depends on it",
    )
}

/// Whether all servers give sessions of the same duration. None if fewer than two servers have given one.
fn about_limits(limits: &[(&str, Limits)]) -> Option<Finding> {
    let [(_, first), others @ ..] = limits else { return None };
    if others.is_empty() {
        return None;
    }
    if others.iter().all(|(_, limits)| limits.session == first.session) {
        let session = rounded(first.session);
        return Some(Finding::fine("session limits", format!("all servers give sessions of {session}")));
    }
    let gives = |(server, limits): &(&str, Limits)| format!("{server} gives {}", rounded(limits.session));
    let each: Vec<_> = limits.iter().map(gives).collect();
    Some(Finding::danger(
        "session limits",
        format!(
            "the servers give sessions of different durations ({}), so two clients can hold a lock after a reconnection",
            each.join(", ")
        ),
        "set the same tickTime, minSessionTimeout and maxSessionTimeout on all servers",
    ))
}

/// Whether the servers accept the largest request that this client sends. None if no server shows it.
fn about_requests(limits: &[(&str, Limits)]) -> Option<Finding> {
    let known = || limits.iter().filter_map(|(server, limits)| Some((*server, limits.accepts_records?)));
    let refusing: Vec<_> = known().filter(|(_, accepts)| !accepts).map(|(server, _)| server).collect();
    if refusing.is_empty() {
        let text = format!("requests of {} KiB are accepted", MAX_BYTES / 1024);
        return known().next().map(|_| Finding::fine("jute.maxbuffer", text));
    }
    Some(Finding::danger(
        "jute.maxbuffer",
        format!(
            "{} accepts no request of {} KiB, so writes of long records and claims of many permits fail there",
            refusing.join(", "),
            MAX_BYTES / 1024
        ),
        "set the Java property jute.maxbuffer of all servers to 1048575, the default, or more",
    ))
}

/// The limits of a server for this client.
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// The duration of the session.
    session: Duration,
    /// Whether it accepts a request as large as the largest record. None if it is not known.
    accepts_records: Option<bool>,
}

/// The limits of a server, from a session that is closed at once. None if the server gives none in time.
async fn limits_of(server: &str, options: &ZooKeeperOptions) -> Option<Limits> {
    let (client, _) = timeout(options.timeout, connect(options, server)).await.ok()?.ok()?;
    let accepts_records = timeout(options.timeout, accepts_records(&client)).await.ok().flatten();
    Some(Limits { session: client.session_timeout(), accepts_records })
}

/// Whether a server accepts a request as large as the largest record. The request changes nothing, because the root never
/// has this version. None if the server cannot be reached.
async fn accepts_records(client: &Client) -> Option<bool> {
    let mut transaction = client.new_multi_writer();
    transaction.add_check_version("/", i32::MAX).ok()?;
    transaction.add_set_data("/", &vec![0; MAX_BYTES], None).ok()?;
    match transaction.commit().await.map_err(ZkError::from) {
        // A server closes the connection if a request is too large. Then a small request succeeds.
        Err(ZkError::ConnectionLoss) => client.check_stat("/").await.ok().map(|_| false),
        Ok(_) | Err(_) => Some(true),
    }
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
async fn ask(server: &str, options: &ZooKeeperOptions, limit: Duration) -> Says {
    match ask_once(server, options, limit).await {
        // A server with TLS waits for more than four letters.
        Says::Unreachable(_)
            if options.tls.is_none() && timeout(limit / 4, tls::is_spoken_by(server)).await == Ok(true) =>
        {
            Says::Unreachable("it requires TLS: write zookeeper+tls:// in the URL".into())
        }
        says => says,
    }
}

async fn ask_once(server: &str, options: &ZooKeeperOptions, limit: Duration) -> Says {
    let asked = async {
        let stream = dial(server).await.map_err(unreachable)?;
        let Some(tls) = &options.tls else { return exchange(stream).await.map_err(unreachable) };
        let store = options.store();
        let stream = tls.shake_hands(&store, server, stream).await?;
        // Some servers check the certificate of the client only after the handshake.
        exchange(stream).await.map_err(|error| tls.refusal(&store, &error).unwrap_or_else(|| unreachable(error)))
    };
    match timeout(limit, asked).await {
        Err(_) => Says::Unreachable(format!("no answer within {}", rounded(limit))),
        Ok(Err(error)) if error.kind() == ErrorKind::Unavailable => Says::Unreachable(error.without_kind()),
        Ok(Err(error)) => Says::Refused(error),
        Ok(Ok(answer)) => read(&answer),
    }
}

fn unreachable(error: io::Error) -> Error {
    match error.kind() {
        // The server has closed the connection before it has read the question.
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Error::unavailable(CLOSED),
        _ => Error::unavailable(error.to_string()),
    }
}

async fn exchange(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<Vec<u8>> {
    stream.write_all(b"srvr").await?;
    stream.flush().await?;
    let mut answer = Vec::new();
    stream.take(MAX_ANSWER).read_to_end(&mut answer).await?;
    Ok(answer)
}

fn read(answer: &[u8]) -> Says {
    if answer.is_empty() {
        return Says::Unreachable(CLOSED.into());
    }
    let answer = String::from_utf8_lossy(answer);
    if let Some(mode) = answer.lines().find_map(|line| line.strip_prefix("Mode: ")) {
        return Says::Mode(mode.trim().to_owned());
    }
    if answer.contains("not currently serving") { Says::NotServing } else { Says::Nothing }
}

#[cfg(test)]
mod tests {
    use bandog_core::Level;

    use super::*;

    #[test]
    fn a_clock_is_reported_if_the_write_cannot_explain_the_difference() {
        let now = Clock::system().wall();
        let apart = |millis, took| {
            let by = Duration::from_millis(millis);
            [now + by, now - by].map(|at| about_clock(at, Duration::from_millis(took)).level)
        };
        assert_eq!(apart(900, 100), [Level::Fine; 2]);
        assert_eq!(apart(3900, 3000), [Level::Fine; 2]);
        assert_eq!(apart(90_000, 3000), [Level::Advice; 2]);
    }
}
