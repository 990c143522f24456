//! The registered nodes: a single record, which contains an entry for each node. An entry has the name of the node and
//! the version of the node's time-zone table. The key of an entry is the claim of the node's session (a renewed lock
//! that proves that the node is alive).
//!
//! The record only informs operators. The scheduler makes no decision from the record.

use std::collections::{BTreeMap, BTreeSet};

use bandog_core::{ClaimId, Error, Holding, Key, Records, Result, Row, Swap, Swapped};
use bandog_cron::Zone;
use bandog_sync::Client;
use serde::{Deserialize, Serialize};

use crate::{
    presence::{self, JobNames, LiveJobs},
    records::{BATCH, SESSION_PREFIX, single_answer},
};

/// Maximum length of a node's name, in bytes of UTF-8. A machine name plus a pid always fits.
pub const MAX_NODE: usize = 512;

/// Checks the name of a node: either the name that a user gave to a scheduler, or the name of a node that an operator
/// wants to pause.
pub(crate) fn check_node(name: &str) -> Result<()> {
    let fits = (1..=MAX_NODE).contains(&name.len()) && !name.chars().any(char::is_control);
    if fits {
        return Ok(());
    }
    let length = name.len();
    Err(Error::misused(format!(
        "the name of a node must have 1 to {MAX_NODE} bytes and no control characters; this name has {length} bytes"
    )))
}

/// Number of session numbers that the function [`sessions`] checks with one call to the store.
const NUMBERS: usize = 64;
/// Maximum number of attempts to write the record while other nodes write it, for example when a whole cluster starts.
const MAX_ATTEMPTS: u32 = 200;

/// The entry of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NodeInfo {
    /// The name of the session's lock.
    session: String,
    /// The name of the node.
    pub(crate) node: String,
    /// The version of the time-zone table in the node's program.
    pub(crate) zones: String,
    /// The set of the node's jobs ([`crate::presence`]). None if the node does not report them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) jobs: Option<String>,
}

impl NodeInfo {
    /// The session. `id`: its claim. None if the entry is not valid.
    fn holding(&self, id: &str) -> Option<Holding> {
        Some(Holding { key: Key::new(&self.session).ok()?, id: id.parse::<ClaimId>().ok()? })
    }
}

/// The nodes. The key is the claim of the node's session.
pub(crate) type NodeInfos = BTreeMap<String, NodeInfo>;

/// Reads the registered nodes, and the version of their record. A record that cannot be parsed counts as empty.
pub(crate) async fn node_infos(client: &Client) -> Result<(NodeInfos, Option<bandog_core::Version>)> {
    let record = single_answer(client.records().read(&[key()?], &[]).await?.records)?;
    let infos = record.as_ref().and_then(|record| serde_json::from_str(&record.value).ok());
    Ok((infos.unwrap_or_default(), record.map(|record| record.version)))
}

/// The sessions that are held. Sessions are numbered 1, 2, 3, and so on, and a node takes the lowest free number. So
/// the search checks [`NUMBERS`] numbers in each call, and ends when none of them is held. Then the search checks the
/// sessions that the entries of registered nodes name. So the session of a registered node is found even if the number
/// of the session is high.
pub(crate) async fn sessions(client: &Client, infos: &NodeInfos) -> Result<Vec<Row>> {
    let mut names: BTreeSet<String> = infos.values().map(|info| info.session.clone()).collect();
    let mut sessions = Vec::new();
    // `from`: the first number that this call checks.
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

/// The jobs of all live nodes.
pub(crate) async fn live_jobs(client: &Client) -> Result<LiveJobs> {
    let (infos, _) = node_infos(client).await?;
    let sessions: Vec<(Holding, Option<String>)> =
        infos.iter().filter_map(|(id, info)| Some((info.holding(id)?, info.jobs.clone()))).collect();
    LiveJobs::read(client, &sessions).await
}

/// The sets of jobs that these nodes have.
fn sets(infos: &NodeInfos) -> BTreeSet<&String> {
    infos.values().filter_map(|info| info.jobs.as_ref()).collect()
}

/// Registers a node, and removes the nodes whose sessions have expired. Returns the other nodes, or an empty map after
/// [`MAX_ATTEMPTS`] attempts. `jobs`: the node's jobs, unless there are too many.
pub(crate) async fn register_node(
    client: Client,
    node: String,
    jobs: Option<JobNames>,
    session: Holding,
) -> Result<NodeInfos> {
    let set = jobs.as_ref().map(|jobs| jobs.set.clone());
    let info = NodeInfo { session: session.key.to_string(), node, zones: Zone::table().to_owned(), jobs: set };
    for _ in 0..MAX_ATTEMPTS {
        // `from`: the version of the record that the swap replaces.
        let (mut infos, from) = node_infos(&client).await?;
        let before = infos.clone();
        remove_expired(&client, &mut infos).await?;
        let others = infos.clone();
        infos.insert(session.id.to_string(), info.clone());
        let unused = sets(&before).difference(&sets(&infos)).copied().collect();
        let obsolete = presence::obsolete(&client, unused).await?;
        let Ok(value) = serde_json::to_string(&infos) else { return Ok(others) };
        if let Swapped::Done(_) = single_answer(client.records().swap(&[Swap::new(key()?, from, value)]).await?.each)? {
            // After the swap, so that no node deletes the set.
            if let Some(jobs) = jobs {
                jobs.write(&client).await?;
            }
            presence::delete(&client, obsolete).await?;
            return Ok(others);
        }
    }
    Ok(NodeInfos::new())
}

/// Removes the nodes whose sessions have expired, and the entries that are not valid.
async fn remove_expired(client: &Client, infos: &mut NodeInfos) -> Result<()> {
    let sessions: Vec<(String, Holding)> =
        infos.iter().filter_map(|(id, info)| Some((id.clone(), info.holding(id)?))).collect();
    infos.retain(|id, _| sessions.iter().any(|(known, _)| known == id));
    for some in sessions.chunks(BATCH) {
        let holdings: Vec<Holding> = some.iter().map(|(_, holding)| holding.clone()).collect();
        let held = client.records().read(&[], &holdings).await?.held;
        let ended = some.iter().zip(held).filter(|(_, held)| matches!(held, Ok(false)));
        ended.for_each(|((id, _), _)| _ = infos.remove(id));
    }
    Ok(())
}

/// Warns if the time-zone table of another node differs from the table of this node.
pub(crate) fn warn_about_other_zones(node: &str, others: &NodeInfos) {
    let ours = Zone::table();
    let differ = others.values().filter(|other| other.zones != ours && other.node != node);
    let differ: BTreeMap<&str, &str> = differ.map(|other| (other.node.as_str(), other.zones.as_str())).collect();
    if let Some((other, theirs)) = differ.first_key_value() {
        let nodes = differ.len();
        tracing::warn!(
            node,
            nodes,
            "this program has version {ours} of the time-zone table, but node {other} has version {theirs}: in \
             zones whose rules differ, the nodes compute different ticks, and all of these ticks run; deploy one \
             build to all nodes"
        );
    }
}

/// The key of the record.
fn key() -> Result<Key> {
    Key::new("schedule/nodes")
}
