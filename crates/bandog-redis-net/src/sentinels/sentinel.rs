//! A connection to one sentinel.

use std::{
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use bandog_core::{
    Error,
    ErrorKind::{Denied, Unavailable},
    Result, rounded,
};
use futures_util::{FutureExt, future::Fuse};
use redis::{
    Pipeline, PushInfo, PushKind, RedisError, ServerError, Value,
    aio::{MultiplexedConnection, SendError},
};
use tokio::{
    sync::{Notify, watch},
    time::{sleep, timeout},
};

use super::facts::Answer;
use crate::{
    dial::{Connection, TlsProbeBudget, dial_server},
    options::{Host, Options},
    refusal,
    reply::{list, text},
};

/// Maximum time for an answer of one sentinel, even if the timeout of a request is longer. It includes the time to
/// connect.
const MAX_ANSWER_TIME: Duration = Duration::from_millis(500);
/// Interval at which a sentinel is asked, in case its message does not arrive.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Minimum interval at which a sentinel is asked while connections to the master are needed.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(100);
/// The channel on which sentinels publish each change of a master's address.
const SWITCH_CHANNEL: &str = "+switch-master";

/// A connection to one sentinel, with a subscription to changes of masters.
pub(super) struct Sentinel {
    pub(super) host: Host,
    /// The id of the sentinel, which is the same at all of its addresses. None if it refuses to name it.
    id: Option<String>,
    mux: MultiplexedConnection,
    driver: Fuse<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// Notified by each message of the subscription.
    switched: Arc<Notify>,
    /// Maximum time for an answer.
    limit: Duration,
    /// Whether the last request was not answered in time.
    is_silent: bool,
}

impl Sentinel {
    /// Connects to this sentinel and asks it for the master with this name.
    pub(super) async fn open(options: &Options, host: &Host, name: &str) -> Result<(Self, Answer)> {
        let limit = (options.timeout / 4).min(MAX_ANSWER_TIME);
        let opened = timeout(limit, Self::connect(options.clone().with_timeout(limit), host, limit)).await;
        let (mut sentinel, since) = opened.unwrap_or_else(|_| Err(no_answer(host, limit)))?;
        sentinel.limit = limit.saturating_sub(since.elapsed());
        let answer = sentinel.ask(name).await?;
        sentinel.limit = limit;
        Ok((sentinel, answer))
    }

    /// Connects, subscribes to changes of masters, and asks for the id. Returns the time before.
    async fn connect(options: Options, host: &Host, limit: Duration) -> Result<(Self, Instant)> {
        let (since, switched) = (Instant::now(), Arc::new(Notify::new()));
        let notified = switched.clone();
        let pushed = Arc::new(move |push: PushInfo| {
            if matches!(push.kind, PushKind::Message) {
                notified.notify_one();
            }
            Ok::<(), SendError>(())
        });
        let dialled = dial_server(&options, Some(pushed), &mut TlsProbeBudget::none()).await;
        let Connection { mux, driver, .. } = dialled.map_err(|error| refused_login(host, error))?;
        let (host, driver) = (host.clone(), driver.fuse());
        let mut sentinel = Self { host, id: None, mux, driver, switched, limit, is_silent: false };
        let (mut mux, mut other, mut my_id) = (sentinel.mux.clone(), sentinel.mux.clone(), redis::cmd("SENTINEL"));
        my_id.arg("MYID");
        // If the user has no right to subscribe, the sentinel is only polled. Before version 6.2, it has no id.
        let both = async { Ok(tokio::join!(mux.subscribe(SWITCH_CHANNEL), other.send_packed_command(&my_id))) };
        if let Ok((_, Ok(id))) = sentinel.drive(both).await {
            sentinel.id = text(&id);
        }
        Ok((sentinel, since))
    }

    /// Waits until the sentinel should be asked again: a master has changed, a connection to the master is needed, the
    /// connection to the sentinel has ended, or the poll interval has passed.
    pub(super) async fn wait_for_news(&mut self, needs: &mut watch::Receiver<u64>) {
        let needed = async {
            sleep(MIN_POLL_INTERVAL).await;
            let _ = needs.changed().await;
        };
        tokio::select! {
            () = &mut self.driver => {}
            () = self.switched.notified() => {}
            () = needed => {}
            () = sleep(POLL_INTERVAL) => {}
        }
    }

    /// Asks for the master with this name.
    pub(super) async fn ask(&mut self, name: &str) -> Result<Answer> {
        // The epoch is read before the address. If a failover happens between the two, the new address has the old epoch
        // until the next answer. The other way round, the old address would have the new epoch, and would be believed.
        let replies = self.request(&["MASTER", "GET-MASTER-ADDR-BY-NAME", "SENTINELS"], Some(name)).await?;
        let [facts, address, others] = &replies[..] else { return Err(self.unexpected(&Value::Array(replies))) };
        if let Some(error) = refusal::server_error(address) {
            return Err(self.refused(error));
        }
        let parts: Vec<String> = list(address).iter().filter_map(text).collect();
        let Some(master) = pair(parts.first(), parts.get(1)) else {
            return Err(match address {
                Value::Nil => self.unknown_master(name).await,
                other => self.unexpected(other),
            });
        };
        let others =
            list(others).iter().filter_map(|other| pair(field(other, "ip").as_ref(), field(other, "port").as_ref()));
        let epoch = field(facts, "config-epoch").and_then(|epoch| epoch.parse().ok());
        Ok(Answer { master, epoch, others: others.collect(), id: self.id.clone() })
    }

    /// Whether the last request was not answered in time, although the connection is open.
    pub(super) fn is_silent(&self) -> bool {
        self.is_silent
    }

    /// Sends these subcommands of `SENTINEL` in one request, each with this argument.
    async fn request(&mut self, commands: &[&str], argument: Option<&str>) -> Result<Vec<Value>> {
        let mut pipe = Pipeline::new();
        commands.iter().for_each(|command| _ = pipe.cmd("SENTINEL").arg(*command).arg(argument));
        let (mut mux, count, limit) = (self.mux.clone(), pipe.len(), self.limit);
        let answered = timeout(limit, self.drive(mux.send_packed_commands(&pipe, 0, count))).await;
        self.is_silent = answered.is_err();
        match answered {
            Ok(Ok(replies)) => Ok(replies),
            Ok(Err(error)) => {
                let message = format!("the connection to the sentinel {} broke", self.host);
                Err(Error::unavailable(message).caused_by(error))
            }
            Err(_) => Err(no_answer(&self.host, limit)),
        }
    }

    /// Runs a request together with the connection.
    async fn drive<T>(
        &mut self,
        request: impl Future<Output = std::result::Result<T, RedisError>>,
    ) -> std::result::Result<T, RedisError> {
        tokio::select! {
            biased;
            answer = request => answer,
            () = &mut self.driver => Err((redis::ErrorKind::Io, "the connection has ended").into()),
        }
    }

    /// The error for a master that the sentinel does not know. It lists the masters that the sentinel knows.
    async fn unknown_master(&mut self, name: &str) -> Error {
        let masters = self.request(&["MASTERS"], None).await.unwrap_or_default();
        let known: Vec<String> = masters
            .iter()
            .flat_map(list)
            .filter_map(|master| field(master, "name"))
            .map(|one| format!("{one:?}"))
            .collect();
        let known = if known.is_empty() { "no master".into() } else { known.join(", ") };
        Error::misused(format!("the sentinel {} does not know the master {name:?}; it knows {known}", self.host))
    }

    fn refused(&self, error: &ServerError) -> Error {
        let host = &self.host;
        let (code, details) = (error.code(), error.details().unwrap_or_default());
        if details.starts_with("unknown command") {
            return Error::misused(format!(
                "{host} is not a sentinel; for one server, write redis://{host}, and for its sentinels, their port (26379)"
            ))
            .caused_by(error.clone());
        }
        match code {
            "NOAUTH" => refused_login(host, refusal::refused(error)),
            "NOPERM" => {
                let rights = "+sentinel|get-master-addr-by-name +sentinel|master +sentinel|sentinels +subscribe \
                              &+switch-master";
                Error::new(Denied, format!("the user lacks a right at the sentinel {host}; it needs {rights}"))
                    .caused_by(error.clone())
            }
            _ => Error::new(Unavailable, format!("the sentinel {host} replied with an error")).caused_by(error.clone()),
        }
    }

    fn unexpected(&self, reply: &Value) -> Error {
        Error::unavailable(format!("the sentinel {} sent an unexpected reply: {reply:?}", self.host))
    }
}

fn no_answer(host: &Host, limit: Duration) -> Error {
    Error::unavailable(format!("the sentinel {host} did not answer within {}", rounded(limit)))
}

/// The error if a sentinel refuses the login.
fn refused_login(host: &Host, error: Error) -> Error {
    match error.kind() {
        Denied => {
            let message = format!(
                "the sentinel {host} refuses the login; ?sentinel_user=USER&sentinel_password=PASSWORD is the login at the \
                 sentinels, and the user and password before the hosts are the login at the master"
            );
            let refused = Error::new(Denied, message);
            let refused = if error.is_about_login() { refused.about_login() } else { refused };
            refused.caused_by(error)
        }
        _ => error,
    }
}

/// The value of a field in a map of RESP3 or in a flat list of RESP2.
fn field(facts: &Value, name: &str) -> Option<String> {
    match facts {
        Value::Map(fields) => {
            fields.iter().find(|(key, _)| text(key).as_deref() == Some(name)).and_then(|(_, value)| text(value))
        }
        facts => list(facts)
            .chunks_exact(2)
            .find(|pair| text(&pair[0]).as_deref() == Some(name))
            .and_then(|pair| text(&pair[1])),
    }
}

/// The host with this name and this port.
fn pair(name: Option<&String>, port: Option<&String>) -> Option<Host> {
    Some(Host { name: name?.clone(), port: port?.parse().ok()? })
}

#[cfg(test)]
mod tests;
