//! Nodes of other libraries in the folder of a lock: Curator's, bare ones, and nodes that never end.

use std::{num::NonZeroU32, time::Duration};

use bandog_core::{
    Answer, Claim, ClaimId, ClientId, ErrorKind, IfUnused, Inspect, Key, Kind, Leases, Level, Pattern, Step, Verdict,
};
use bandog_sync::Client;
use bandog_testkit::{ZooKeeperServer, eventually_async};
use bandog_zookeeper::{ZooKeeper, ZooKeeperOptions};
use zookeeper_client::{Acl, Acls, AuthId, CreateMode, Permission};

use crate::{SOON, backend, client, make_folder, neighbour, nodes, places, soon, take};

/// The beginning of the path of a node that Curator creates.
const CURATOR: &str = "/locks/orders/_c_2b3f71b5-76fc-41fc-83c9-f63573c55b15-lock-";

/// Whether a client of bandog has its place in the queue.
async fn waits(java: &zookeeper_client::Client) -> bool {
    places(java, "orders").await > 0
}

// Promise: Z5
#[tokio::test]
async fn curator_and_bandog_queue_for_one_lock() {
    let server = ZooKeeperServer::start();
    let java = neighbour(&server).await;
    let ours = Client::options().local_turns(1).over(backend(server.addr())).unwrap();
    make_folder(&java, "orders").await;
    let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());

    // Java holds the lock.
    let (stat, sequence) = java.create(CURATOR, b"127.0.0.1", &options).await.unwrap();
    assert!(ours.mutex("orders").try_lock().await.unwrap().is_none());
    let row = ours.show("orders").await.unwrap();
    assert!(row.is_held() && row.owner().unwrap().starts_with("_c_2b3f") && row.client().is_none(), "{row:?}");
    let mutex = ours.mutex("orders");
    let waiting = tokio::spawn(async move { mutex.lock().await });
    eventually_async(SOON, async || waits(&java).await).await;
    // Another Java client waits behind us.
    let (behind, second) = java.create(CURATOR, b"127.0.0.1", &options).await.unwrap();
    // A revocation of the holder changes its data. The lock is still held.
    java.set_data(&format!("{CURATOR}{sequence}"), b"__REVOKE__", None).await.unwrap();
    java.delete(&format!("{CURATOR}{sequence}"), None).await.unwrap();

    let guard = soon(waiting).await.unwrap().unwrap();
    let fence = i64::try_from(guard.fence().get()).unwrap();
    assert!(stat.czxid * 64 < fence && fence < behind.czxid * 64, "the order of the queue is the order of the fences");
    // A further call of our client does not pass Java, because the client releases the lock after each call.
    let mutex = ours.mutex("orders");
    let further = tokio::spawn(async move { mutex.lock().await });
    guard.release().await.unwrap();
    eventually_async(SOON, async || nodes(&java, "orders").await.len() == 2).await;
    assert!(!further.is_finished(), "Java holds the lock");
    java.delete(&format!("{CURATOR}{second}"), None).await.unwrap();
    let guard = soon(further).await.unwrap().unwrap();
    assert!(i64::try_from(guard.fence().get()).unwrap() > behind.czxid * 64 + 63);
}

// Promise: Z7
#[tokio::test]
async fn bare_nodes_and_nodes_without_an_end_block_a_lock() {
    let server = ZooKeeperServer::start();
    let (java, ours) = (neighbour(&server).await, client(server.addr()));
    make_folder(&java, "orders").await;
    let ephemeral = CreateMode::Ephemeral.with_acls(Acls::anyone_all());
    let persistent = CreateMode::Persistent.with_acls(Acls::anyone_all());
    for node in ["lock-0000000000", "0", "!abc"] {
        let path = format!("/locks/orders/{node}");
        java.create(&path, b"", &ephemeral).await.unwrap();
        assert!(ours.mutex("orders").try_lock().await.unwrap().is_none(), "{node} comes first");
        assert!(ours.evict("orders").await.unwrap().is_some());
        java.create(&path, b"", &persistent).await.unwrap();
        assert!(ours.mutex("orders").try_lock().await.unwrap().is_none(), "{node} comes first");
        let error = ours.evict("orders").await.unwrap_err();
        assert!(error.kind() == ErrorKind::Denied && error.to_string().contains("is not ephemeral"), "{error}");
        java.delete(&path, None).await.unwrap();
    }
    // Curator ignores these names, too.
    for node in ["abc", "5", "latch-0000000000"] {
        java.create(&format!("/locks/orders/{node}"), b"", &persistent).await.unwrap();
    }
    take(&ours, "orders").await.release().await.unwrap();
}

// Promise: Z8
#[tokio::test]
async fn a_folder_that_is_deleted_is_created_again() {
    let server = ZooKeeperServer::start();
    let (java, ours) = (neighbour(&server).await, client(server.addr()));
    let fence = take(&ours, "a/b").await.fence();
    soon(ours.idle()).await;
    java.delete("/locks/a%2Fb", None).await.unwrap();
    assert!(take(&ours, "a/b").await.fence() > fence);
}

/// ZooKeeper deletes an empty folder at times, also one that was used a moment ago. A fair call is not disturbed by this.
#[tokio::test]
async fn a_fair_claim_whose_folder_was_deleted_is_granted_by_its_first_request() {
    let server = ZooKeeperServer::start();
    let (java, ours) = (neighbour(&server).await, backend(server.addr()));
    let mut last = None;
    for number in 1..4 {
        let key = Key::new("orders").unwrap();
        let id = ClaimId { client: ClientId::random(), number };
        let (kind, ttl, fences) = (Kind::Fair, Duration::from_secs(30), NonZeroU32::MIN);
        let claim = Claim { fences, joins: true, ..Claim::new(key, id, kind, ttl) };
        let answer = soon(ours.apply(&[Step::Claim(claim.clone())])).await.remove(0).unwrap();
        let Answer::Claimed(Verdict::Granted { mut fences, .. }) = answer else { panic!("{answer:?}") };
        let fence = fences.take();
        assert!(fence > last, "{fence:?}");
        last = fence;
        soon(ours.apply(&[Step::Release(claim)])).await.remove(0).unwrap();
        java.delete("/locks/orders", None).await.unwrap();
    }
}

// Promise: Z26
#[tokio::test]
async fn a_folder_with_an_acl_is_denied_without_its_user_and_open_with_it() {
    let server = ZooKeeperServer::start();
    let connector = zookeeper_client::Client::connector().with_auth("digest", b"joe:secret");
    let owner = connector.connect(&server.addr().to_string()).await.unwrap();
    owner.create("/locks", b"", &CreateMode::Persistent.with_acls(Acls::creator_all())).await.unwrap();
    for login in ["", "joe:wrong@"] {
        let stranger = client(format!("{login}{}", server.addr()));
        let error = soon(stranger.mutex("orders").try_lock()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{login}");
        assert!(error.to_string().contains("user:password@"), "{error}");
    }
    assert!(owner.list_children("/locks").await.unwrap().is_empty());
    let ours = client(format!("joe:secret@{}", server.addr()));
    take(&ours, "orders").await.release().await.unwrap();
}

/// Curator does not exclude these kinds from each other on one path.
#[tokio::test]
async fn a_name_in_use_by_another_kind_is_denied_until_it_is_free() {
    let server = ZooKeeperServer::start();
    let (java, ours) = (neighbour(&server).await, client(server.addr()));
    make_folder(&java, "orders").await;
    let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
    let prefix = CURATOR.replace("lock-", "__READ__");
    let (_, sequence) = java.create(&prefix, b"127.0.0.1", &options).await.unwrap();
    assert_eq!(ours.mutex("orders").try_lock().await.unwrap_err().kind(), ErrorKind::Denied);
    let row = ours.show("orders").await.unwrap();
    assert_eq!(row.kind, Some(bandog_core::Kind::Read), "{row:?}");
    // A reader of ours holds the lock beside Java's.
    let reader = ours.rwlock("orders").try_read().await.unwrap().expect("readers share the lock");
    assert!(ours.rwlock("orders").try_write().await.unwrap().is_none());
    assert_eq!(ours.show("orders").await.unwrap().holders.len(), 2);
    assert!(ours.evict("orders").await.unwrap().is_some());
    soon(reader.lost()).await;
    assert!(java.check_stat(&format!("{prefix}{sequence}")).await.unwrap().is_none());
    take(&ours, "orders").await.release().await.unwrap();
}

/// A client that is refused, because the lock is of another kind, has a node for a moment.
// Promise: Z19
#[tokio::test]
async fn a_node_of_another_kind_does_not_refuse_a_call_that_waits() {
    let server = ZooKeeperServer::start();
    let (java, ours, theirs) = (neighbour(&server).await, client(server.addr()), client(server.addr()));
    let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
    let prefix = CURATOR.replace("lock-", "__READ__");
    for is_fair in [false, true] {
        let held = take(&theirs, "orders").await;
        let (_, sequence) = java.create(&prefix, b"127.0.0.1", &options).await.unwrap();
        let mutex = if is_fair { ours.mutex("orders").fair() } else { ours.mutex("orders") };
        let waiting = tokio::spawn(async move { mutex.lock().await });
        eventually_async(SOON, async || waits(&java).await).await;
        held.release().await.unwrap();
        // The node of the other kind is the first one now. A round trip of our client shows that the call waits on.
        eventually_async(SOON, async || nodes(&java, "orders").await.len() == 2).await;
        take(&ours, "another").await.release().await.unwrap();
        java.delete(&format!("{prefix}{sequence}"), None).await.unwrap();
        soon(waiting).await.unwrap().unwrap().release().await.unwrap();
        eventually_async(SOON, async || nodes(&java, "orders").await.is_empty()).await;
    }
}

/// The waiting node of a client is deleted, and its next claim gets a place behind another client.
#[tokio::test]
async fn a_refused_claim_whose_node_becomes_a_place_says_that_it_waits() {
    let server = ZooKeeperServer::start();
    let (java, ours) = (neighbour(&server).await, client(server.addr()));
    make_folder(&java, "orders").await;
    let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
    let (_, first) = java.create(CURATOR, b"127.0.0.1", &options).await.unwrap();
    let mutex = ours.mutex("orders");
    let waiting = tokio::spawn(async move { mutex.lock().await });
    eventually_async(SOON, async || waits(&java).await).await;
    let (_, second) = java.create(CURATOR, b"127.0.0.1", &options).await.unwrap();
    for node in nodes(&java, "orders").await.iter().filter(|node| !node.starts_with("_c_2b3f71b5")) {
        java.delete(&format!("/locks/orders/{node}"), None).await.unwrap();
    }
    java.delete(&format!("{CURATOR}{first}"), None).await.unwrap();
    eventually_async(SOON, async || waits(&java).await).await;
    java.delete(&format!("{CURATOR}{second}"), None).await.unwrap();
    soon(waiting).await.unwrap().unwrap().release().await.unwrap();
}

// Promise: Z20
#[tokio::test]
async fn nodes_of_other_programs_are_neither_listed_nor_deleted() {
    let server = ZooKeeperServer::start();
    let (java, ours) = (neighbour(&server).await, client(server.addr()));
    let held = take(&ours, "orders").await;
    let persistent = CreateMode::Persistent.with_acls(Acls::anyone_all());
    for (path, data) in [("controller", "{}"), ("flag", ""), ("brokers", ""), ("brokers/0", "{}")] {
        java.create(&format!("/locks/{path}"), data.as_bytes(), &persistent).await.unwrap();
    }
    let listed: Vec<_> = ours.list(Pattern::all()).await.unwrap().into_iter().map(|row| row.name.to_string()).collect();
    assert_eq!(listed, ["orders"]);
    assert!(!ours.forget("orders").await.unwrap() && !ours.forget("brokers").await.unwrap());
    for name in ["controller", "flag"] {
        assert!(ours.forget(name).await.unwrap());
        assert!(java.check_stat(&format!("/locks/{name}")).await.unwrap().is_some(), "{name} was deleted");
    }
    held.release().await.unwrap();
    assert!(ours.forget("orders").await.unwrap());
    assert!(java.check_stat("/locks/orders").await.unwrap().is_none());
}

/// L31 beside other programs: at the top of the tree, their empty folders look like those of locks.
#[tokio::test]
async fn names_are_forgotten_only_in_a_folder_of_locks() {
    let server = ZooKeeperServer::start();
    let java = neighbour(&server).await;
    let persistent = CreateMode::Persistent.with_acls(Acls::anyone_all());
    for path in ["/brokers", "/brokers/0", "/locks"] {
        java.create(path, b"", &persistent).await.unwrap();
    }
    java.delete("/brokers/0", None).await.unwrap();
    let url = format!("zookeeper://{}?session=20s", server.addr());
    let top = ZooKeeper::new(ZooKeeperOptions::from_url(&url).unwrap());
    let pages = top.names_page(&Pattern::all(), Duration::ZERO, None).await.map(|page| page.keys);
    let usages = top.usage(&[Key::new("brokers").unwrap()], Duration::ZERO, IfUnused::Forget).await.map(|_| Vec::new());
    for refused in [pages, usages] {
        let error = refused.unwrap_err();
        assert!(error.kind() == ErrorKind::Unsupported && error.to_string().contains("names no folder"), "{error}");
    }
    assert!(java.check_stat("/brokers").await.unwrap().is_some(), "a folder of another program was deleted");

    for number in 0..300 {
        let folder = format!("/locks/old-{number}");
        java.create(&folder, b"", &persistent).await.unwrap();
    }
    let page = backend(server.addr()).names_page(&Pattern::new("old-1*"), Duration::ZERO, None).await.unwrap();
    assert!(page.seen >= 300 && page.keys.len() == 111 && page.next.is_none(), "the folders are listed once: {page:?}");
}

#[tokio::test]
async fn a_check_reports_servers_that_give_sessions_of_different_durations() {
    let (one, two) = (ZooKeeperServer::start(), ZooKeeperServer::start_with(&["maxSessionTimeout=5000"]));
    for (hosts, is_danger) in
        [(format!("{},{}", one.addr(), one.addr()), false), (format!("{},{}", one.addr(), two.addr()), true)]
    {
        let findings = client(&hosts).check().await.unwrap();
        let about = findings.iter().find(|finding| finding.subject == "session limits").expect("a finding");
        assert_eq!(about.level == Level::Danger, is_danger, "{findings:?}");
    }
}

#[tokio::test]
async fn a_check_reports_a_server_that_refuses_long_records() {
    for (property, level) in [("jute.maxbuffer=500000", Level::Danger), ("jute.maxbuffer=600000", Level::Fine)] {
        let server = ZooKeeperServer::start_with_properties(&[property]);
        let client = client(server.addr());
        let findings = client.check().await.unwrap();
        let about = findings.iter().find(|finding| finding.subject == "jute.maxbuffer").expect("a finding");
        assert_eq!(about.level, level, "{property}: {findings:?}");
        let clock = findings.iter().find(|finding| finding.subject == "clock").expect("a finding");
        assert_eq!(clock.level, Level::Fine, "{findings:?}");
        // The check has changed nothing, and the client works on.
        take(&client, "orders").await.release().await.unwrap();
    }
}

/// The folder forbids the deletion of nodes for some time.
#[tokio::test]
async fn a_place_that_could_not_be_deleted_is_deleted_soon_after() {
    let server = ZooKeeperServer::start();
    let (java, ours) = (neighbour(&server).await, client(server.addr()));
    make_folder(&java, "orders").await;
    let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
    java.create(CURATOR, b"127.0.0.1", &options).await.unwrap();
    let mutex = ours.mutex("orders");
    let waiting = tokio::spawn(async move { mutex.lock().await });
    eventually_async(SOON, async || waits(&java).await).await;
    let rights = Permission::READ | Permission::WRITE | Permission::CREATE | Permission::ADMIN;
    java.set_acl("/locks/orders", &[Acl::new(rights, AuthId::anyone())], None).await.unwrap();
    waiting.abort();
    soon(ours.idle()).await;
    // The round trips of this client end after its attempt to delete the place.
    for _ in 0..3 {
        ours.show("another").await.unwrap();
    }
    assert!(waits(&java).await);
    java.set_acl("/locks/orders", &[Acl::new(Permission::ALL, AuthId::anyone())], None).await.unwrap();
    eventually_async(SOON, async || !waits(&java).await).await;
}

/// The names of all nodes are in one answer, which is then larger than half a megabyte.
// Promise: Z29
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_waits_behind_ten_thousand_nodes() {
    const NODES: usize = 10_000;
    const CHUNK: usize = 500;
    let server = ZooKeeperServer::start();
    // On a loaded machine, the server takes long for requests of this size.
    let connector = zookeeper_client::Client::connector().with_session_timeout(SOON);
    let java = connector.connect(&server.addr().to_string()).await.unwrap();
    let url = format!("zookeeper://{}/locks?session={}s", server.addr(), SOON.as_secs());
    let backend = ZooKeeper::new(ZooKeeperOptions::from_url(&url).unwrap().timeout(SOON / 2));
    let ours = Client::options().over(backend).unwrap();
    make_folder(&java, "orders").await;
    let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
    for _ in 0..NODES / CHUNK {
        let mut transaction = java.new_multi_writer();
        (0..CHUNK).for_each(|_| transaction.add_create(CURATOR, b"127.0.0.1", &options).unwrap());
        transaction.commit().await.unwrap();
    }
    assert!(ours.mutex("orders").try_lock().await.unwrap().is_none());
    let mutex = ours.mutex("orders");
    let waiting = tokio::spawn(async move { mutex.lock().await });
    eventually_async(SOON, async || waits(&java).await).await;
    assert_eq!(ours.show("orders").await.unwrap().queue.len(), NODES);
    let mut foreign = nodes(&java, "orders").await;
    foreign.retain(|node| node.starts_with(CURATOR.rsplit('/').next().unwrap()));
    foreign.sort();
    for some in foreign.chunks(CHUNK) {
        assert!(!waiting.is_finished());
        let mut transaction = java.new_multi_writer();
        some.iter().for_each(|node| transaction.add_delete(&format!("/locks/orders/{node}"), None).unwrap());
        transaction.commit().await.unwrap();
    }
    soon(waiting).await.unwrap().unwrap().release().await.unwrap();
}
