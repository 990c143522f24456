//! What nodes tell of themselves: one record, in which each session stands with the node's name and its time zones.
//!
//! Nothing is decided by it.

use std::collections::{BTreeMap, BTreeSet};

use bandog_core::{ClaimId, Error, Holding, Key, Records, Result, Row, Swap, Swapped};
use bandog_cron::Zone;
use bandog_sync::Client;
use serde::{Deserialize, Serialize};

use crate::dispatch::{SESSION, only};

/// Maximum length of a node's name, in bytes of UTF-8: enough for a machine's name and a process.
pub const MAX_NODE: usize = 512;

/// A name that a node may have, and that a pause of nodes may name.
pub(crate) fn check_node(name: &str) -> Result<()> {
    let fits = (1..=MAX_NODE).contains(&name.len()) && !name.chars().any(char::is_control);
    if fits {
        return Ok(());
    }
    let length = name.len();
    Err(Error::misused(format!(
        "a node's name has 1 to {MAX_NODE} bytes without control characters, and this one has {length} bytes"
    )))
}

/// Sessions in one call.
const BATCH: usize = 256;
/// Numbers of sessions that are looked at together.
const NUMBERS: usize = 64;
/// So often the record is read again that others change at the same time, as when a whole cluster starts.
const TRIES: u32 = 200;

/// A node, as it tells of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct About {
    /// Its session's lock.
    session: String,
    pub(crate) node: String,
    /// The version of the time-zone table in its program.
    pub(crate) zones: String,
}

/// Nodes by their sessions' claims.
pub(crate) type Told = BTreeMap<String, About>;

/// What nodes have told. What cannot be read is nothing.
pub(crate) async fn told(client: &Client) -> Result<(Told, Option<bandog_core::Version>)> {
    let record = only(client.read(&[key()?], &[]).await?.records)?;
    let told = record.as_ref().and_then(|record| serde_json::from_str(&record.value).ok());
    Ok((told.unwrap_or_default(), record.map(|record| record.version)))
}

/// The sessions that are held, found by their numbers: a node takes the lowest one that is free. Those that have told
/// of themselves are found wherever they are, the others unless a whole batch of numbers before theirs is free.
pub(crate) async fn sessions(client: &Client, told: &Told) -> Result<Vec<Row>> {
    let mut names: BTreeSet<String> = told.values().map(|about| about.session.clone()).collect();
    let mut sessions = Vec::new();
    for from in (1..).step_by(NUMBERS) {
        let numbers: Vec<String> = (from..from + NUMBERS).map(|number| format!("{SESSION}{number}")).collect();
        numbers.iter().for_each(|name| _ = names.remove(name));
        let held: Vec<Row> = client.holders(&numbers).await?.into_iter().filter(|row| row.held).collect();
        if held.is_empty() {
            break;
        }
        sessions.extend(held);
    }
    let names: Vec<String> = names.into_iter().filter(|name| name.starts_with(SESSION)).collect();
    for some in names.chunks(BATCH) {
        sessions.extend(client.holders(some).await?.into_iter().filter(|row| row.held));
    }
    Ok(sessions)
}

/// Adds a node, leaves out those whose sessions have ended, and gives those that are left.
pub(crate) async fn announce(client: Client, node: String, session: Holding) -> Result<Told> {
    let about = About { session: session.key.to_string(), node, zones: Zone::table().to_owned() };
    for _ in 0..TRIES {
        let (mut told, from) = told(&client).await?;
        leave_out(&client, &mut told).await?;
        let others = told.clone();
        told.insert(session.id.to_string(), about.clone());
        let Ok(value) = serde_json::to_string(&told) else { return Ok(others) };
        if let Swapped::Done(_) = only(client.swap(&[Swap::new(key()?, from, value)]).await?.each)? {
            return Ok(others);
        }
    }
    Ok(Told::new())
}

/// Without those whose sessions have ended.
async fn leave_out(client: &Client, told: &mut Told) -> Result<()> {
    let of = |(id, about): (&String, &About)| {
        let holding = Holding { key: Key::new(&about.session).ok()?, id: id.parse::<ClaimId>().ok()? };
        Some((id.clone(), holding))
    };
    let sessions: Vec<(String, Holding)> = told.iter().filter_map(of).collect();
    told.retain(|id, _| sessions.iter().any(|(known, _)| known == id));
    for some in sessions.chunks(BATCH) {
        let holdings: Vec<Holding> = some.iter().map(|(_, holding)| holding.clone()).collect();
        let held = client.read(&[], &holdings).await?.held;
        let ended = some.iter().zip(held).filter(|(_, held)| matches!(held, Ok(false)));
        ended.for_each(|((id, _), _)| _ = told.remove(id));
    }
    Ok(())
}

/// Says that others compute ticks by other time zones.
pub(crate) fn compare(node: &str, others: &Told) {
    let ours = Zone::table();
    let differ = others.values().filter(|other| other.zones != ours && other.node != node);
    let differ: BTreeMap<&str, &str> = differ.map(|other| (other.node.as_str(), other.zones.as_str())).collect();
    if let Some((other, theirs)) = differ.first_key_value() {
        let nodes = differ.len();
        tracing::warn!(
            node,
            nodes,
            "this program has the time zones of {ours}, and {other} those of {theirs}: in zones that have changed since \
             they may find different ticks, and each of them runs; let all nodes be of one build"
        );
    }
}

fn key() -> Result<Key> {
    Key::new("schedule/nodes")
}
