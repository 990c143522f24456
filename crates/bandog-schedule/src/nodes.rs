//! The registered nodes: one record with the name and the time zones of each node, by its session. A session is a
//! renewed lock that proves that the node lives.
//!
//! The record serves operators only. No decision depends on it.

use std::collections::{BTreeMap, BTreeSet};

use bandog_core::{ClaimId, Error, Holding, Key, Records, Result, Row, Swap, Swapped};
use bandog_cron::Zone;
use bandog_sync::Client;
use serde::{Deserialize, Serialize};

use crate::records::{BATCH, SESSION_PREFIX, single_answer};

/// Maximum length of a node's name, in bytes of UTF-8. The name of a machine and the number of a process fit.
pub const MAX_NODE: usize = 512;

/// Checks the name of a node, also in a pause.
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

/// Number of session numbers that one call checks.
const NUMBERS: usize = 64;
/// Maximum number of attempts to write the record while other nodes write it, for example when a whole cluster starts.
const MAX_ATTEMPTS: u32 = 200;

/// A node as it registers itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NodeInfo {
    /// The lock of its session.
    session: String,
    pub(crate) node: String,
    /// The version of the time-zone table in its program.
    pub(crate) zones: String,
}

/// Nodes by their sessions' claims.
pub(crate) type NodeInfos = BTreeMap<String, NodeInfo>;

/// The registered nodes. A record that cannot be read counts as empty.
pub(crate) async fn node_infos(client: &Client) -> Result<(NodeInfos, Option<bandog_core::Version>)> {
    let record = single_answer(client.read(&[key()?], &[]).await?.records)?;
    let infos = record.as_ref().and_then(|record| serde_json::from_str(&record.value).ok());
    Ok((infos.unwrap_or_default(), record.map(|record| record.version)))
}

/// The sessions that are held. A node takes the lowest free number, so the search ends after a whole batch of free
/// numbers. The sessions of registered nodes are found at any number.
pub(crate) async fn sessions(client: &Client, infos: &NodeInfos) -> Result<Vec<Row>> {
    let mut names: BTreeSet<String> = infos.values().map(|info| info.session.clone()).collect();
    let mut sessions = Vec::new();
    for from in (1..).step_by(NUMBERS) {
        let numbers: Vec<String> = (from..from + NUMBERS).map(|number| format!("{SESSION_PREFIX}{number}")).collect();
        numbers.iter().for_each(|name| _ = names.remove(name));
        let held: Vec<Row> = client.holders(&numbers).await?.into_iter().filter(Row::is_held).collect();
        if held.is_empty() {
            break;
        }
        sessions.extend(held);
    }
    let names: Vec<String> = names.into_iter().filter(|name| name.starts_with(SESSION_PREFIX)).collect();
    for some in names.chunks(BATCH) {
        sessions.extend(client.holders(some).await?.into_iter().filter(Row::is_held));
    }
    Ok(sessions)
}

/// Registers a node, removes nodes whose sessions have expired, and returns the other nodes.
pub(crate) async fn register_node(client: Client, node: String, session: Holding) -> Result<NodeInfos> {
    let info = NodeInfo { session: session.key.to_string(), node, zones: Zone::table().to_owned() };
    for _ in 0..MAX_ATTEMPTS {
        let (mut infos, from) = node_infos(&client).await?;
        remove_expired(&client, &mut infos).await?;
        let others = infos.clone();
        infos.insert(session.id.to_string(), info.clone());
        let Ok(value) = serde_json::to_string(&infos) else { return Ok(others) };
        if let Swapped::Done(_) = single_answer(client.swap(&[Swap::new(key()?, from, value)]).await?.each)? {
            return Ok(others);
        }
    }
    Ok(NodeInfos::new())
}

/// Removes the nodes whose sessions have expired.
async fn remove_expired(client: &Client, infos: &mut NodeInfos) -> Result<()> {
    let of = |(id, info): (&String, &NodeInfo)| {
        let holding = Holding { key: Key::new(&info.session).ok()?, id: id.parse::<ClaimId>().ok()? };
        Some((id.clone(), holding))
    };
    let sessions: Vec<(String, Holding)> = infos.iter().filter_map(of).collect();
    infos.retain(|id, _| sessions.iter().any(|(known, _)| known == id));
    for some in sessions.chunks(BATCH) {
        let holdings: Vec<Holding> = some.iter().map(|(_, holding)| holding.clone()).collect();
        let held = client.read(&[], &holdings).await?.held;
        let ended = some.iter().zip(held).filter(|(_, held)| matches!(held, Ok(false)));
        ended.for_each(|((id, _), _)| _ = infos.remove(id));
    }
    Ok(())
}

/// Warns if other nodes compute ticks with another time-zone table.
pub(crate) fn warn_about_other_zones(node: &str, others: &NodeInfos) {
    let ours = Zone::table();
    let differ = others.values().filter(|other| other.zones != ours && other.node != node);
    let differ: BTreeMap<&str, &str> = differ.map(|other| (other.node.as_str(), other.zones.as_str())).collect();
    if let Some((other, theirs)) = differ.first_key_value() {
        let nodes = differ.len();
        tracing::warn!(
            node,
            nodes,
            "this program has the time zones of {ours}, and {other} those of {theirs}: in zones that have changed since \
             they may compute different ticks, and each of them runs; deploy one build to all nodes"
        );
    }
}

fn key() -> Result<Key> {
    Key::new("schedule/nodes")
}
