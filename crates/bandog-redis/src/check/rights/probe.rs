//! A command that is checked, and the server's answer.

use bandog_redis_net::reply::text;
use redis::Value;

use crate::names;

/// The name of the lock and of the record for which the rights are checked. The prefix of the client's names is put
/// before this name.
pub(super) const NAME: &str = "bandog:probe";
/// Number of commands that can run scripts: EVALSHA and EVAL. The user needs only one of these commands.
pub(super) const SCRIPT_COMMANDS: usize = 2;

/// The feature that needs a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Calls of scripts, by hash or by text.
    Scripts,
    /// Claims, renewals and releases.
    Locks,
    /// Notifications to waiters.
    Subscriptions,
    /// Offers. An offer reserves a released lock for a short time for clients that have waited for a second or more.
    Offers,
    /// Fair mutexes, read-write locks and semaphores.
    OtherKinds,
    /// The index of clients. It shows operators the locks for which each client waits.
    Index,
    /// `show`, `ls` and `release --force`.
    Inspection,
    /// Records, which schedules use.
    Records,
    /// Count-down latches.
    Latches,
    /// Acknowledgements of replicas, which `replicas=` requires for each grant.
    Replicas,
    /// Steps for a slot of a cluster that is being moved.
    MovingSlots,
    /// Notifications of elements of queues.
    Elements,
}

/// The server's answer for one command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DryRunResult {
    /// The user has the right to run the command with this key or channel.
    Granted,
    /// The user has no right to run the command.
    NoCommand,
    /// The user has the right to run the command, but not to use the key or the channel.
    NoName,
}

/// A command that is checked, and the feature that needs it.
pub(super) struct RightsProbe {
    pub(super) purpose: Purpose,
    pub(super) command: Vec<String>,
}

impl RightsProbe {
    pub(super) fn new(purpose: Purpose, command: &[&str]) -> Self {
        Self { purpose, command: command.iter().map(ToString::to_string).collect() }
    }

    /// If the command uses a channel, it becomes the command for a sharded channel.
    pub(super) fn shard(&mut self) {
        if let Some(name) = self.command.first_mut()
            && ["PUBLISH", "SUBSCRIBE", "UNSUBSCRIBE"].contains(&name.as_str())
        {
            name.insert(0, 'S');
        }
    }

    /// The first word of the command.
    pub(super) fn name(&self) -> String {
        self.command.first().cloned().unwrap_or_default()
    }

    /// The words of an ACL rule that allow the keys or the channel of this command. A word that contains the name of the
    /// probed lock allows all names with the same beginning.
    pub(super) fn patterns(&self) -> Vec<String> {
        let (sign, names) = match &self.command[..] {
            [script, _, _, keys @ ..] if script.starts_with("EVAL") => ('~', keys),
            [command, keys @ ..] if command == "DEL" => ('~', keys),
            [command, channel, ..] if command.ends_with("PUBLISH") || command.ends_with("SUBSCRIBE") => {
                ('&', std::slice::from_ref(channel))
            }
            [_, key, ..] => ('~', std::slice::from_ref(key)),
            [] | [_] => ('~', &[][..]),
        };
        names.iter().map(|name| format!("{sign}{}", pattern(name))).collect()
    }
}

/// The pattern for all keys or channels that begin as this one does. A brace before the name is left out, because names
/// with braces of their own do not get it.
fn pattern(name: &str) -> String {
    match name.split_once(NAME) {
        Some((start, _)) => format!("{}*", start.strip_suffix('{').unwrap_or(start)),
        None if name.starts_with(names::REGISTRY) => format!("{}*", names::REGISTRY),
        None => name.to_owned(),
    }
}

/// Reads the reply of ACL DRYRUN.
pub(super) fn right(reply: &Value) -> DryRunResult {
    match text(reply).as_deref() {
        Some("OK") => DryRunResult::Granted,
        Some(refusal) if refusal.contains(" to run ") => DryRunResult::NoCommand,
        Some(_) | None => DryRunResult::NoName,
    }
}
