//! Checks the server: its settings, its clock, whether it runs our scripts, and the rights of the user. The findings
//! report what endangers locks.

mod rights;
mod settings;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bandog_core::{Finding, Result};
use redis::{Pipeline, ServerError, Value};

use self::settings::Settings;
use crate::{leases::Redis, options::Address, refusal, reply::time, script};

/// Maximum difference between the server's clock and the client's clock. If the difference is greater, the finding
/// gives advice.
const MAX_CLOCK_DIFFERENCE: Duration = Duration::from_secs(1);

/// A hash that belongs to no script.
const UNKNOWN_SCRIPT: &str = "0000000000000000000000000000000000000000";

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

    /// Reads the settings of the server.
    async fn settings(&self) -> Result<Settings> {
        let mut pipe = Pipeline::new();
        pipe.cmd("INFO");
        for name in settings::CONFIG {
            pipe.cmd("CONFIG").arg("GET").arg(name);
        }
        let replies = self.link.call(|_| pipe).await?;
        Ok(Settings::read(&replies))
    }

    /// Compares the server's clock with the client's clock.
    async fn clock(&self) -> Result<Finding> {
        let mut pipe = Pipeline::new();
        pipe.cmd("TIME");
        let before = since_epoch();
        let replies = self.link.call(|_| pipe).await?;
        let after = since_epoch();
        Ok(match replies.first().and_then(time) {
            Some(server_time) => clock(server_time, before, after),
            None => Finding::advice(
                "clock",
                "the server refuses TIME",
                "allow this user to run TIME, which every claim needs",
            ),
        })
    }

    /// Checks whether the user can load and run our scripts.
    async fn scripts(&self) -> Result<Finding> {
        let mut pipe = script::load(self.options.format);
        pipe.cmd("EVALSHA").arg(UNKNOWN_SCRIPT).arg(0);
        pipe.cmd("EVAL").arg("return 1").arg(0);
        let mut replies = self.link.call(|_| pipe).await?;
        // The last two replies belong to EVALSHA and EVAL. All earlier replies belong to SCRIPT LOAD. If the user has
        // the right to run EVALSHA, the server replies to EVALSHA that it does not know the hash. Without this right,
        // the user needs the right to run EVAL.
        let runs = replies.split_off(replies.len().saturating_sub(2));
        if let [Value::ServerError(hash_error), text_reply] = &runs[..]
            && !refusal::is_no_script(&runs[0])
            && !(refusal::is_denied(hash_error) && matches!(text_reply, Value::Int(1)))
        {
            return Ok(Finding::danger(
                "scripts",
                format!("no script can be run, so no lock can be taken: {}", server_text(hash_error)),
                "allow this user to run EVALSHA, and use a server that has not renamed this command",
            ));
        }
        let refused = replies.iter().find_map(|reply| match reply {
            Value::ServerError(error) => Some(error),
            _ => None,
        });
        Ok(match refused {
            None => Finding::fine("scripts", "the server accepts our scripts"),
            Some(error) if refusal::is_denied(error) => Finding::advice(
                "scripts",
                "this user may not load scripts, so their text is sent with every call",
                "allow this user to run SCRIPT LOAD and EVALSHA",
            ),
            Some(error) => Finding::danger(
                "scripts",
                format!("the server does not accept our scripts: {}", server_text(error)),
                "use a server that runs Lua scripts, because every claim is a script",
            ),
        })
    }

    /// The finding about encryption. None for an unencrypted connection to a server on this machine.
    fn tls(&self) -> Option<Finding> {
        match &self.options.address {
            Address::Tls { .. } => {
                Some(Finding::fine("tls", "the connection is encrypted, and the server's certificate was checked"))
            }
            Address::Tcp { .. } if !self.options.is_local() => Some(Finding::advice(
                "tls",
                "the password and the names of locks cross the network unencrypted",
                "if others may read the traffic of this network, enable TLS on the server and write rediss://",
            )),
            Address::Tcp { .. } | Address::Unix { .. } => None,
        }
    }
}

/// The finding about the difference between the server's clock and the client's clock. `before` and `after` are the
/// client's times before and after the request. The server read its clock at an unknown moment between these times.
fn clock(server_time: Duration, before: Duration, after: Duration) -> Finding {
    let round_trip = after.saturating_sub(before);
    let client_time = before + round_trip / 2;
    let (difference, word) = if server_time > client_time {
        (server_time - client_time, "ahead of")
    } else {
        (client_time - server_time, "behind")
    };
    let millis = difference.as_millis();
    if difference.saturating_sub(round_trip / 2) <= MAX_CLOCK_DIFFERENCE {
        return Finding::fine(
            "clock",
            format!("the server's clock is within a second of ours ({millis} ms {word} ours)"),
        );
    }
    Finding::advice(
        "clock",
        format!(
            "the server's clock is {millis} ms {word} ours; leases are not affected, because only the server measures \
             them, but new fences are taken from its clock: after a failover to a server whose clock is behind, fences \
             may stop rising"
        ),
        "synchronize the clocks of all servers that may take over with the same time source (chrony, ntpd)",
    )
}

/// The client's time since 1970.
fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// The text of the server's error: its code and its details.
fn server_text(error: &ServerError) -> String {
    format!("{} {}", error.code(), error.details().unwrap_or_default()).trim_end().to_owned()
}

#[cfg(test)]
mod tests;
