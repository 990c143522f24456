//! Checks the server for dangers to locks: its settings, its clock, the scripts and the user's rights.

mod rights;
mod settings;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bandog_core::{Finding, Result};
use redis::{Pipeline, ServerError, Value};

use self::settings::Settings;
use crate::{leases::Redis, options::Address, refusal, reply::time, script};

/// Maximum difference of the clocks without a finding.
const OFF: Duration = Duration::from_secs(1);

/// A script that no server knows.
const NO_SCRIPT: &str = "0000000000000000000000000000000000000000";

impl Redis {
    /// Checks the server's settings, its clock, and the user's rights for names with this prefix.
    pub(crate) async fn findings(&self, prefix: &str) -> Result<Vec<Finding>> {
        let settings = self.settings().await?;
        Ok([
            vec![settings.version()],
            self.tls().into_iter().collect(),
            vec![settings.eviction(), settings.persistence()],
            settings.replication(),
            vec![self.clock().await?, self.scripts().await?, self.rights(prefix).await?],
        ]
        .concat())
    }

    async fn settings(&self) -> Result<Settings> {
        let mut pipe = Pipeline::new();
        pipe.cmd("INFO");
        for name in settings::CONFIG {
            pipe.cmd("CONFIG").arg("GET").arg(name);
        }
        let replies = self.link.call(|_| pipe).await?;
        Ok(Settings::read(&replies))
    }

    async fn clock(&self) -> Result<Finding> {
        let mut pipe = Pipeline::new();
        pipe.cmd("TIME");
        let before = since_epoch();
        let replies = self.link.call(|_| pipe).await?;
        let after = since_epoch();
        Ok(match replies.first().and_then(time) {
            Some(theirs) => clock(theirs, before, after),
            None => Finding::advice("clock", "the server refuses TIME", "let this user run TIME, as claims must"),
        })
    }

    async fn scripts(&self) -> Result<Finding> {
        let mut pipe = script::load();
        pipe.cmd("EVALSHA").arg(NO_SCRIPT).arg(0);
        pipe.cmd("EVAL").arg("return 1").arg(0);
        let mut replies = self.link.call(|_| pipe).await?;
        let runs = replies.split_off(replies.len().saturating_sub(2));
        if let [Value::ServerError(by_name), by_text] = &runs[..]
            && !refusal::is_no_script(&runs[0])
            && !(refusal::is_denied(by_name) && matches!(by_text, Value::Int(1)))
        {
            return Ok(Finding::danger(
                "scripts",
                format!("no script can be run, so no lock can be taken: {}", server_text(by_name)),
                "let this user run EVALSHA, on a server that has not renamed it",
            ));
        }
        let refused = replies.iter().find_map(|reply| match reply {
            Value::ServerError(error) => Some(error),
            _ => None,
        });
        Ok(match refused {
            None => Finding::fine("scripts", "the server takes our scripts"),
            Some(error) if refusal::is_denied(error) => Finding::advice(
                "scripts",
                "this user may not load scripts, so their text is sent with every call",
                "let it run SCRIPT LOAD and EVALSHA",
            ),
            Some(error) => Finding::danger(
                "scripts",
                format!("the server does not take our scripts: {}", server_text(error)),
                "use a server that runs Lua scripts: every lock is taken by one",
            ),
        })
    }

    /// Whether the connection is encrypted. None for a server on this machine.
    fn tls(&self) -> Option<Finding> {
        match &self.options.address {
            Address::Tls { .. } => {
                Some(Finding::fine("tls", "the connection is encrypted, and the server's certificate was checked"))
            }
            Address::Tcp { .. } if !self.options.is_local() => Some(Finding::advice(
                "tls",
                "password and names of locks cross the network in the clear",
                "where the network is not your own, let the server listen with TLS and write rediss://",
            )),
            Address::Tcp { .. } | Address::Unix { .. } => None,
        }
    }
}

/// The difference between the two clocks. The request's round trip limits the accuracy.
fn clock(theirs: Duration, before: Duration, after: Duration) -> Finding {
    let trip = after.saturating_sub(before);
    let ours = before + trip / 2;
    let (apart, word) = if theirs > ours { (theirs - ours, "ahead of") } else { (ours - theirs, "behind") };
    let millis = apart.as_millis();
    if apart.saturating_sub(trip / 2) <= OFF {
        return Finding::fine(
            "clock",
            format!("the server's clock is within a second of ours ({millis} ms {word} it)"),
        );
    }
    Finding::advice(
        "clock",
        format!(
            "the server's clock is {millis} ms {word} ours; leases are not affected, because only the server counts them, \
             but fences begin with its time: after a failover to a server whose clock is behind they may stop rising"
        ),
        "let every server that may take over follow the same time source (chrony, ntpd)",
    )
}

fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// The server's text of an error.
fn server_text(error: &ServerError) -> String {
    format!("{} {}", error.code(), error.details().unwrap_or_default()).trim_end().to_owned()
}

#[cfg(test)]
mod tests;
