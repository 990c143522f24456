//! Checks the state of a Redis Cluster: whether all slots are served, failed nodes, masters without replicas, slots that
//! move, and versions.

use std::collections::{BTreeMap, BTreeSet};

use bandog_core::Finding;
use bandog_redis_net::{Link, SLOTS, reply::text};
use redis::{Pipeline, Value};

use crate::refusal;

/// Maximum number of moving slots that a finding names.
const MAX_NAMED: usize = 4;

/// The view that one master has of the cluster.
#[derive(Debug)]
pub(super) struct View {
    /// The address of the master.
    pub(super) address: String,
    /// The version of the master. None if the user has no right to ask for it.
    pub(super) version: Option<String>,
    /// The reply to `CLUSTER INFO`, or the error.
    info: Result<String, String>,
    /// The reply to `CLUSTER NODES`, or the error.
    nodes: Result<String, String>,
}

/// A line of the reply to `CLUSTER NODES`.
#[derive(Debug)]
struct NodeLine<'a> {
    id: &'a str,
    address: &'a str,
    flags: Vec<&'a str>,
    /// The id of the master of a replica.
    master: &'a str,
    /// Whether the node has slots.
    has_slots: bool,
    /// The slots that this node moves to another node or gets from one, such as `[93->-ID]`. Only the node itself says
    /// this.
    moving: Vec<&'a str>,
}

impl View {
    /// Asks this master.
    pub(super) async fn read(link: &Link, address: String, version: Option<String>) -> Self {
        let mut pipe = Pipeline::with_capacity(2);
        pipe.cmd("CLUSTER").arg("INFO");
        pipe.cmd("CLUSTER").arg("NODES");
        let read = |reply: &Value| match reply {
            Value::ServerError(error) => Err(refusal::server_text(error)),
            reply => text(reply).ok_or_else(|| refusal::unexpected_reply(reply).to_string()),
        };
        let (info, nodes) = match link.call(pipe).await.as_deref() {
            Ok([info, nodes]) => (read(info), read(nodes)),
            Ok(_) => (Err(String::from("no reply")), Err(String::from("no reply"))),
            Err(error) => (Err(error.to_string()), Err(error.to_string())),
        };
        Self { address, version, info, nodes }
    }

    /// A field of the reply to `CLUSTER INFO`.
    fn field(&self, name: &str) -> Option<&str> {
        let mut lines = self.info.as_ref().ok()?.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim_end)
    }

    fn lines(&self) -> impl Iterator<Item = NodeLine<'_>> {
        self.nodes.as_deref().unwrap_or_default().lines().filter_map(NodeLine::read)
    }
}

impl<'a> NodeLine<'a> {
    /// Reads `ID HOST:PORT@BUS,NAME FLAGS MASTER PING PONG EPOCH LINK SLOT…`.
    fn read(line: &'a str) -> Option<Self> {
        let fields: Vec<&str> = line.split(' ').collect();
        let [id, address, flags, master, _, _, _, _, slots @ ..] = &fields[..] else { return None };
        let (moving, slots): (Vec<&str>, Vec<&str>) = slots.iter().partition(|slot| slot.starts_with('['));
        Some(Self {
            id,
            address: address.split('@').next().unwrap_or(address),
            flags: flags.split(',').collect(),
            master,
            has_slots: !slots.is_empty(),
            moving,
        })
    }

    fn is(&self, flag: &str) -> bool {
        self.flags.contains(&flag)
    }
}

/// The findings about the cluster. `unchecked`: for each master that could not be checked, its address and the reason.
pub(super) fn findings(views: &[View], unchecked: &[String]) -> Vec<Finding> {
    let mut findings = vec![state(views, unchecked)];
    findings.extend([moving_slots(views), replicas(views), versions(views)].into_iter().flatten());
    findings
}

/// The finding about the state of the cluster.
fn state(views: &[View], unchecked: &[String]) -> Finding {
    const SUBJECT: &str = "cluster";
    const CURE: &str = "start the missing nodes or let replicas take over, create this user on the nodes that refuse it, \
                        and run `redis-cli --cluster check HOST:PORT`";
    let info = views.iter().find_map(|view| view.info.as_ref().err().map(|error| ("CLUSTER INFO", error)));
    let nodes = views.iter().find_map(|view| view.nodes.as_ref().err().map(|error| ("CLUSTER NODES", error)));
    let refused: Vec<_> = info.into_iter().chain(nodes).collect();
    if unchecked.is_empty() && !refused.is_empty() {
        let errors: Vec<_> = refused.iter().map(|(command, error)| format!("{command}: {error}")).collect();
        let commands: Vec<_> = refused.iter().map(|(command, _)| *command).collect();
        let rules: Vec<_> =
            commands.iter().map(|command| format!("+{}", command.to_lowercase().replace(' ', "|"))).collect();
        return Finding::advice(
            SUBJECT,
            format!("the state of the cluster could not be checked: {}", errors.join("; ")),
            format!("allow this user to run {}: ACL SETUSER with {}", commands.join(" and "), rules.join(" ")),
        );
    }
    let mut problems = unchecked.to_vec();
    let failed = |view: &View| view.info.is_ok() && view.field("cluster_state") != Some("ok");
    problems
        .extend(views.iter().filter(|view| failed(view)).map(|view| format!("{} says that it is down", view.address)));
    let served = |view: &View| view.field("cluster_slots_ok").and_then(|slots| slots.parse::<u16>().ok());
    if let Some(served) = views.iter().filter_map(served).min().filter(|served| *served < SLOTS) {
        problems.push(format!("{} of {SLOTS} slots are not served", SLOTS - served));
    }
    let lines: Vec<_> = views.iter().flat_map(View::lines).collect();
    let marked = |flag: &str, has_slots: bool| -> BTreeSet<&str> {
        let marked = lines.iter().filter(|line| line.is(flag) && line.has_slots == has_slots);
        marked.map(|line| line.address).collect()
    };
    problems.extend(marked("fail", true).into_iter().map(|address| format!("the master {address} has failed")));
    if !problems.is_empty() {
        let says = format!("the cluster does not serve all locks: {}", problems.join("; "));
        return Finding::danger(SUBJECT, says, CURE);
    }
    let suspected = [("fail", false), ("fail?", false), ("fail?", true)];
    let suspected: BTreeSet<&str> =
        suspected.into_iter().flat_map(|(flag, has_slots)| marked(flag, has_slots)).collect();
    if !suspected.is_empty() {
        let says = format!("these nodes do not answer other nodes: {}", join(&suspected));
        return Finding::advice(SUBJECT, says, CURE);
    }
    Finding::fine(SUBJECT, format!("all {SLOTS} slots are served by {} masters", views.len()))
}

/// The slot of a text such as `[93->-ID]`.
fn slot_of(moving: &str) -> &str {
    moving.trim_start_matches('[').split('-').next().unwrap_or_default()
}

/// The finding about slots that move. None if no slot moves.
fn moving_slots(views: &[View]) -> Option<Finding> {
    let moving = views.iter().flat_map(|view| {
        let own = view.lines().filter(|line| line.is("myself"));
        own.flat_map(|line| line.moving).map(move |slot| (slot, format!("{slot} at {}", view.address)))
    });
    let mut slots = BTreeMap::new();
    for (slot, at) in moving {
        // Both nodes of a move report the slot. The one that gives it away is named.
        if slot.contains("->-") || !slots.contains_key(slot_of(slot)) {
            slots.insert(slot_of(slot), at);
        }
    }
    (!slots.is_empty()).then(|| {
        let mut named: Vec<_> = slots.values().take(MAX_NAMED).cloned().collect();
        if slots.len() > MAX_NAMED {
            named.push(format!("and {} more", slots.len() - MAX_NAMED));
        }
        let says = format!(
            "slots that are being moved: {} ({}); most steps with their locks are refused until the move ends",
            slots.len(),
            named.join(", ")
        );
        Finding::advice("slots", says, "if no program moves them any more, run `redis-cli --cluster fix HOST:PORT`")
    })
}

/// The finding about masters without replicas. None if the nodes are not known.
fn replicas(views: &[View]) -> Option<Finding> {
    let lines: Vec<_> = views.iter().flat_map(View::lines).collect();
    let masters: BTreeMap<&str, &str> =
        lines.iter().filter(|line| line.is("master") && line.has_slots).map(|line| (line.id, line.address)).collect();
    let is_alive = |line: &&NodeLine<'_>| line.is("slave") && !line.is("fail");
    let covered: BTreeSet<&str> = lines.iter().filter(is_alive).map(|line| line.master).collect();
    let alone: BTreeSet<&str> =
        masters.iter().filter(|(id, _)| !covered.contains(*id)).map(|(_, address)| *address).collect();
    if masters.is_empty() {
        return None;
    }
    Some(if alone.is_empty() {
        Finding::fine("masters", "each master has a replica")
    } else {
        let says = format!(
            "{} of {} masters have no replica ({}): if such a master fails, its locks cannot be used until it returns",
            alone.len(),
            masters.len(),
            join(&alone)
        );
        Finding::advice(
            "masters",
            says,
            "add a replica to each master: `redis-cli --cluster add-node … --cluster-slave`",
        )
    })
}

/// The finding about versions that differ. None if they are equal.
fn versions(views: &[View]) -> Option<Finding> {
    let versions: BTreeSet<&str> = views.iter().filter_map(|view| view.version.as_deref()).collect();
    (versions.len() > 1).then(|| {
        let says = format!("the masters have different versions: {}", join(&versions));
        Finding::advice("versions", says, "finish the upgrade of the nodes")
    })
}

fn join(words: &BTreeSet<&str>) -> String {
    words.iter().copied().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use bandog_core::Level;

    use super::*;

    const NODES: &str = "a1 10.0.0.1:1@2,host myself,master - 0 0 1 connected 0-8191\n\
                         b2 10.0.0.2:1@2 master - 0 0 2 connected 8192-16383\n\
                         c3 10.0.0.3:1@2 slave a1 0 0 1 connected\n\
                         d4 10.0.0.4:1@2 slave b2 0 0 2 connected\n";
    const INFO: &str = "cluster_state:ok\r\ncluster_slots_ok:16384\r\n";

    fn view(info: &str, nodes: &str) -> View {
        View { address: "10.0.0.1:1".into(), version: None, info: Ok(info.into()), nodes: Ok(nodes.into()) }
    }

    fn levels(views: &[View], unchecked: &[String]) -> Vec<(String, Level)> {
        findings(views, unchecked).into_iter().map(|finding| (finding.subject, finding.level)).collect()
    }

    #[test]
    fn each_problem_of_a_cluster_has_a_finding() {
        let fine = |subject: &str| (subject.to_owned(), Level::Fine);
        let advice = |subject: &str| (subject.to_owned(), Level::Advice);
        let danger = || ("cluster".to_owned(), Level::Danger);
        assert_eq!(levels(&[view(INFO, NODES)], &[]), [fine("cluster"), fine("masters")]);
        // A node is down.
        assert_eq!(levels(&[view(INFO, NODES)], &["10.0.0.2:1".into()])[0], danger());
        assert_eq!(levels(&[view(&INFO.replace(":ok", ":fail"), NODES)], &[])[0], danger());
        assert_eq!(levels(&[view(&INFO.replace("16384", "8192"), NODES)], &[])[0], danger());
        assert_eq!(levels(&[view(INFO, &NODES.replace(" master - 0 0 2", " master,fail - 0 0 2"))], &[])[0], danger());
        let suspected = NODES.replace("slave a1", "slave,fail? a1");
        assert_eq!(levels(&[view(INFO, &suspected)], &[]), [advice("cluster"), fine("masters")]);
        // The replica of a master has failed, or is missing.
        let failed = NODES.replace("slave a1", "slave,fail a1");
        assert_eq!(levels(&[view(INFO, &failed)], &[]), [advice("cluster"), advice("masters")]);
        let missing: String =
            NODES.lines().filter(|line| !line.contains("d4")).map(|line| format!("{line}\n")).collect();
        let found = findings(&[view(INFO, &missing)], &[]);
        assert!(found[1].says.contains("1 of 2 masters have no replica (10.0.0.2:1)"), "{found:?}");
        // A slot moves, and the versions differ.
        let moving = NODES.replace("0-8191", "0-8191 [93->-b2] [77-<-b2]");
        let other = View { version: Some("7.0.15".into()), ..view(INFO, NODES) };
        let views = [View { version: Some("7.2.4".into()), ..view(INFO, &moving) }, other];
        let found = findings(&views, &[]);
        let subjects: Vec<_> = found.iter().map(|finding| finding.subject.as_str()).collect();
        assert_eq!(subjects, ["cluster", "slots", "masters", "versions"]);
        assert!(
            found[1].says.starts_with("slots that are being moved: 2 ([77-<-b2] at 10.0.0.1:1, [93->-b2]"),
            "{found:?}"
        );
        // A missing right.
        let denied = View { nodes: Err("NOPERM".into()), ..view(INFO, NODES) };
        assert_eq!(levels(&[denied], &[]), [advice("cluster")]);
        // A master is down, and another one refuses the command.
        let denied = View { info: Err("NOPERM".into()), ..view(INFO, NODES) };
        assert_eq!(levels(&[denied], &["10.0.0.2:1".into()])[0], danger());
        // All missing rights are named at once.
        let denied = View { info: Err("NOPERM".into()), nodes: Err("NOPERM".into()), ..view(INFO, NODES) };
        let found = findings(&[denied], &[]);
        assert!(found[0].says.contains("CLUSTER INFO: NOPERM; CLUSTER NODES: NOPERM"), "{found:?}");
        assert!(found[0].cure.as_ref().unwrap().contains("+cluster|info +cluster|nodes"), "{found:?}");
    }
}
