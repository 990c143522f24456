//! One round: asks the replicas of a server for acknowledgements.

use bandog_core::{Error, ErrorKind, Result, rounded};
use redis::{Pipeline, ServerError, Value};

use super::tasks::{Request, Rounds, ServerId, wait_limit};
use crate::{dialler::Dialler, link::Link, refusal, replication::Replication, reply::text};

/// A string that is written before the replicas are asked whether they have received the writes before it. It has a ttl.
pub const ACK: &str = "bandog:ack";

/// The ttl of the key that a round writes, in milliseconds. At the memory limit, the server refuses a new key. So the
/// key must live until the next round, which can be a third of a long ttl later.
const ACK_TTL: u64 = 24 * 3600 * 1000;

/// The field with the id of the replication history.
const HISTORY: &str = "master_replid:";

/// The connection of a task, on which it makes the rounds of a single server.
pub(super) struct ServerRounds {
    dialler: Dialler,
    link: Link,
    /// The number of the last known connection, and the id of its server.
    server: Option<(u64, ServerId)>,
    /// Whether the next round first checks the number of connected replicas. WAIT would need its whole time limit to
    /// find out that there are too few. It is true before the first round and after a round that has failed.
    checks_first: bool,
}

impl Rounds for ServerRounds {
    type Subject = ServerId;
    type Answer = ();

    async fn answer(&mut self, requests: Vec<Request<Self>>) -> bool {
        let result = self.round().await;
        self.checks_first = result.is_err();
        let mut is_other_server = false;
        for Request { subject: server, answer } in requests {
            let result = match &result {
                Ok(acknowledged) if *acknowledged == server => Ok(()),
                Ok(_) => {
                    is_other_server = true;
                    Err(Error::unavailable(
                        "the connection for acknowledgements leads to another server, or the server was a replica in between",
                    ))
                }
                Err(error) => Err(error.clone()),
            };
            // The caller may have dropped its future.
            let _ = answer.send(result);
        }
        if is_other_server {
            // This connection may be older than a failover.
            (self.link, self.server) = (Link::without_scripts(self.dialler.clone()), None);
        }
        result.is_ok()
    }
}

impl ServerRounds {
    pub(super) fn new(dialler: Dialler) -> Self {
        let link = Link::without_scripts(dialler.clone());
        Self { dialler, link, server: None, checks_first: true }
    }

    /// Waits until enough replicas have acknowledged the writes before this call. Returns the server that has asked
    /// them.
    async fn round(&mut self) -> Result<ServerId> {
        let (connection, server) = match &self.server {
            Some((connection, server)) if *connection == self.link.connection() => (*connection, server.clone()),
            Some(_) | None => self.server.insert(server_id(&self.link).await?).clone(),
        };
        if self.checks_first {
            // This does not wait. It shows whether the user may run WAIT, even if no replica is connected.
            let mut pipe = Pipeline::with_capacity(1);
            pipe.cmd("WAIT").arg(0).arg(0);
            if let Some(Value::ServerError(error)) = call(&self.link, pipe).await?.1.first() {
                return Err(refused(error));
            }
            let replication = self.replication().await?;
            let (online, required) = (replication.online(), self.dialler.options.replicas);
            if online < required.into() {
                let message = format!(
                    "{online} of the {required} replicas that must acknowledge a write are connected: {replication}; connect \
                     more replicas, or lower replicas= in the URL"
                );
                return Err(Error::new(ErrorKind::NotReplicated, message));
            }
        }
        let limit = wait_limit(&self.dialler.options);
        let mut pipe = Pipeline::with_capacity(4);
        // At the memory limit, SET is refused and PEXPIRE is not. PEXPIRE is replicated each time, if the key exists.
        pipe.cmd("SET").arg(ACK).arg("").arg("PX").arg(ACK_TTL).arg("NX");
        pipe.cmd("PEXPIRE").arg(ACK).arg(ACK_TTL);
        pipe.cmd("WAIT").arg(self.dialler.options.replicas).arg(u64::try_from(limit.as_millis()).unwrap_or(u64::MAX));
        pipe.cmd("INFO").arg("replication");
        let (answered_by, values) = call(&self.link, pipe).await?;
        if answered_by != connection {
            return Err(reconnected());
        }
        let [set, written, waited, info] = &values[..] else {
            return Err(refusal::unexpected_reply(&Value::Array(values)));
        };
        let is_written = *written == Value::Int(1);
        let needed_set = refusal::server_error(set).filter(|error| !(is_written && refusal::is_out_of_memory(error)));
        if let Some(error) = needed_set.or_else(|| [written, waited, info].into_iter().find_map(refusal::server_error))
        {
            return Err(refused(error));
        }
        let (true, Value::Int(acknowledged)) = (is_written, waited) else {
            return Err(refusal::unexpected_reply(&Value::Array(values)));
        };
        let (acknowledged, history) = (*acknowledged, text(info).unwrap_or_default());
        let server = match server.split_once(' ') {
            Some((run, known)) if known != field(&history, HISTORY)? => {
                let server = id(run, field(&history, HISTORY)?);
                self.server = Some((connection, server.clone()));
                server
            }
            Some(_) | None => server,
        };
        if acknowledged >= self.dialler.options.replicas.into() {
            return Ok(server);
        }
        let (replication, required) = (self.replication().await?, self.dialler.options.replicas);
        Err(Error::new(
            ErrorKind::NotReplicated,
            format!(
                "{acknowledged} of {required} replicas have acknowledged the write within {}: {replication}",
                rounded(limit)
            ),
        ))
    }

    /// The state of the replicas.
    async fn replication(&self) -> Result<Replication> {
        Ok(Replication::read(&info(&self.link, "replication").await?.1))
    }
}

/// The error if answers may come from different connections. Between them, the server may have lost its data.
pub(super) fn reconnected() -> Error {
    Error::unavailable("the connection to Redis was opened again, so it is unknown whether the replicas have the write")
}

/// The id of the server, and the number of the connection that leads to it.
pub(super) async fn server_id(link: &Link) -> Result<(u64, ServerId)> {
    let mut pipe = Pipeline::with_capacity(2);
    pipe.cmd("INFO").arg("server").cmd("INFO").arg("replication");
    let (connection, values) = call(link, pipe).await?;
    if let Some(error) = values.iter().find_map(refusal::server_error) {
        return Err(refused(error));
    }
    let info: Vec<String> = values.iter().filter_map(text).collect();
    let [server, replication] = &info[..] else { return Err(refusal::unexpected_reply(&Value::Array(values))) };
    Ok((connection, id(field(server, "run_id:")?, field(replication, HISTORY)?)))
}

fn id(run: &str, history: &str) -> ServerId {
    format!("{run} {history}").into()
}

/// The value of a field in a section of the reply to INFO. `name` ends with a colon.
fn field<'a>(info: &'a str, name: &str) -> Result<&'a str> {
    let value = info.lines().find_map(|line| line.trim_end().strip_prefix(name));
    let missing =
        || Error::new(ErrorKind::Unsupported, format!("replicas= needs the field {name} in the reply to INFO"));
    value.ok_or_else(missing)
}

/// A section of the reply to INFO, and the number of the connection that has answered.
async fn info(link: &Link, section: &str) -> Result<(u64, String)> {
    let mut pipe = Pipeline::with_capacity(1);
    pipe.cmd("INFO").arg(section);
    let (connection, values) = call(link, pipe).await?;
    match values.first() {
        Some(Value::ServerError(error)) => Err(refused(error)),
        Some(value) => Ok((connection, text(value).ok_or_else(|| refusal::unexpected_reply(value))?)),
        None => Err(refusal::unexpected_reply(&Value::Nil)),
    }
}

/// Sends commands. Returns also the number of the connection that has answered.
async fn call(link: &Link, pipe: Pipeline) -> Result<(u64, Vec<Value>)> {
    let before = link.connection();
    let values = link.call(pipe).await?;
    Ok((link.answered_since(before).ok_or_else(reconnected)?, values))
}

/// The error for a refused command of a round.
fn refused(error: &ServerError) -> Error {
    if refusal::is_lasting(error) {
        let message = format!("replicas= needs the commands PEXPIRE, SET, WAIT and INFO, and the key {ACK}");
        return Error::new(ErrorKind::Denied, message).caused_by(error.clone());
    }
    refusal::refused(error)
}
