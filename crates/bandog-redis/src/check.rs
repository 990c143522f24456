//! Checks the server: its settings, its clock, whether it runs our scripts, and the rights of the user. The findings
//! report what endangers locks.

mod cluster;
mod rights;
mod settings;
mod slot_share;
mod topology;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bandog_core::{Finding, Result};
use bandog_redis_net::{Keys, Master, reply::time};
use redis::{Pipeline, Value};

use self::{cluster::View, settings::Settings, slot_share::Share};
use crate::{leases::Redis, refusal};

/// Maximum difference between the server's clock and the client's clock. If the difference is greater, the finding
/// gives advice.
const MAX_CLOCK_DIFFERENCE: Duration = Duration::from_secs(1);

/// A hash that belongs to no script.
const UNKNOWN_SCRIPT: &str = "0000000000000000000000000000000000000000";

impl Redis {
    /// Checks the server's settings, its clock, and the user's rights for names with this prefix.
    pub(crate) async fn findings(&self, prefix: &str) -> Result<Vec<Finding>> {
        let masters = self.servers.masters().await?;
        let mut findings = self.settings(&masters[..]).await?;
        let version = findings.remove(0);
        findings.extend(clocks(&masters[..]).await?);
        findings.push(self.scripts().await?);
        findings.extend(self.rights_at(&masters[..], prefix).await?);
        Ok([version].into_iter().chain(self.tls()).chain(findings).collect())
    }

    /// The findings about the rights of the user. Each node of a cluster has its own list of users. Only the masters are
    /// checked.
    async fn rights_at(&self, masters: &[Master<'_>], prefix: &str) -> Result<Vec<Finding>> {
        let mut found = Vec::with_capacity(masters.len());
        for (at, master) in masters.iter().enumerate() {
            match self.rights(master.link(), prefix).await {
                Ok(findings) => found.push((master.address(), findings)),
                Err(error) if found.is_empty() && at + 1 == masters.len() => return Err(error),
                Err(error) => {
                    let says = format!("the rights could not be checked: {error}");
                    let cure = "run this command again when the node answers";
                    found.push((master.address(), vec![Finding::advice("rights", says, cure)]));
                }
            }
        }
        Ok(of_servers(found))
    }

    /// The findings about the settings of the servers. The first finding is about the version. If the nodes of a cluster
    /// have the same finding, it is reported once. If a node does not answer, the others are checked.
    async fn settings(&self, masters: &[Master<'_>]) -> Result<Vec<Finding>> {
        let in_cluster = self.format.in_cluster;
        let (mut found, mut views, mut shares, mut unchecked) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (at, master) in masters.iter().enumerate() {
            let mut pipe = Pipeline::new();
            pipe.cmd("INFO");
            for name in settings::CONFIG {
                pipe.cmd("CONFIG").arg("GET").arg(name);
            }
            let replies = match master.link().call(pipe).await {
                Ok(replies) => replies,
                Err(error) if views.is_empty() && at + 1 == masters.len() => return Err(error),
                Err(error) => {
                    let refuses = if error.is_retryable() { "does not answer" } else { "refuses this client" };
                    unchecked.push(format!("the master {} {refuses}: {error}", master.address()));
                    continue;
                }
            };
            let settings = Settings::read(&replies);
            if in_cluster {
                let version = settings.info("redis_version").map(str::to_owned);
                views.push(View::read(master.link(), master.address(), version).await);
                shares.push(Share::read(master.link(), settings.keys()).await);
            }
            let of_server = [
                vec![settings.version(), settings.eviction(), settings.persistence()],
                settings.field_ttl().into_iter().collect(),
                settings.arguments().into_iter().collect(),
                settings.replication(self.servers.options()),
                self.topology(master.link(), &settings).await,
                settings.coverage().filter(|_| in_cluster).into_iter().collect(),
            ];
            found.push((master.address(), of_server.concat()));
        }
        let mut findings = of_servers(found);
        if in_cluster {
            findings.extend(cluster::findings(&views, &unchecked));
            findings.extend(slot_share::finding(&shares));
        }
        Ok(findings)
    }

    /// Checks whether the user can load and run our scripts.
    async fn scripts(&self) -> Result<Finding> {
        let mut pipe = self.servers.scripts().load(false);
        pipe.cmd("EVALSHA").arg(UNKNOWN_SCRIPT).arg(0);
        pipe.cmd("EVAL").arg("return 1").arg(0);
        let mut replies = self.servers.call(Keys::None, pipe).await?;
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
                format!("no script can be run, so no lock can be taken: {}", refusal::server_text(hash_error)),
                "allow this user to run EVALSHA, and use a server that has not renamed this command",
            ));
        }
        let refused = replies.iter().find_map(|reply| match reply {
            Value::ServerError(error) => Some(error),
            _ => None,
        });
        Ok(match refused {
            None => Finding::fine("scripts", "the server accepts our scripts"),
            Some(error) if refusal::is_lasting(error) && matches!(runs.last(), Some(Value::Int(1))) => Finding::advice(
                "scripts",
                "scripts may not be loaded, so their text is sent with every call",
                "allow this user to run SCRIPT LOAD and EVALSHA",
            ),
            Some(error) if refusal::is_denied(error) => Finding::danger(
                "scripts",
                "this user may not load scripts, and may not run EVAL, so no lock can be taken",
                "allow this user to run SCRIPT LOAD and EVALSHA, or EVAL",
            ),
            Some(error) => Finding::danger(
                "scripts",
                format!("the server does not accept our scripts: {}", refusal::server_text(error)),
                "use a server that runs Lua scripts, because every claim is a script",
            ),
        })
    }

    /// The finding about encryption. None for an unencrypted connection to a server on this machine.
    fn tls(&self) -> Option<Finding> {
        let options = self.servers.options();
        if options.is_encrypted() {
            return Some(Finding::fine("tls", "the connection is encrypted, and the server's certificate was checked"));
        }
        let what = if options.has_password() { "the password and the names of locks" } else { "the names of locks" };
        (!options.is_local()).then(|| {
            Finding::advice(
                "tls",
                format!("{what} cross the network unencrypted"),
                format!(
                    "if others may read the traffic of this network, enable TLS on the servers and write {}://",
                    options.scheme(true)
                ),
            )
        })
    }
}

/// The findings of several servers. A finding that all of them have is reported once, without an address.
fn of_servers(found: Vec<(String, Vec<Finding>)>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (address, of_server) in &found {
        for finding in of_server {
            let is_common = found.iter().all(|(_, others)| others.contains(finding));
            let named = if is_common { finding.clone() } else { finding_of(address, finding.clone()) };
            if !findings.contains(&named) {
                findings.push(named);
            }
        }
    }
    findings
}

/// Compares the clock of each master with the client's clock. A master of a cluster that does not answer is left out.
async fn clocks(masters: &[Master<'_>]) -> Result<Vec<Finding>> {
    let is_cluster = masters.len() > 1;
    let mut findings = Vec::with_capacity(masters.len());
    for master in masters {
        let mut pipe = Pipeline::new();
        pipe.cmd("TIME");
        let before = since_epoch();
        let replies = match master.link().call(pipe).await {
            Ok(replies) => replies,
            Err(_) if is_cluster => continue, // The finding `cluster` reports it.
            Err(error) => return Err(error),
        };
        let after = since_epoch();
        let finding = match replies.first().and_then(time) {
            Some(server_time) => clock(server_time, before, after),
            None => Finding::advice(
                "clock",
                "the server refuses TIME",
                "allow this user to run TIME, which every claim needs",
            ),
        };
        findings.push(if is_cluster { finding_of(&master.address(), finding) } else { finding });
    }
    Ok(findings)
}

/// A finding about one of several servers.
fn finding_of(address: &str, finding: Finding) -> Finding {
    Finding { says: format!("{address}: {}", finding.says), ..finding }
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

#[cfg(test)]
mod tests;
