//! The numbers of a folder's nodes reach their end, which is 2147483647.

use bandog_testkit::{ZooKeeperServer, eventually_async};

use crate::{
    curator::{LONG, ORDERS, Place, SESSION, make_folder, nodes, sorted, wait_for_nodes},
    neighbour::{Neighbour, Program, java_with},
    objects::LockKind,
};

/// Sets the number of the next node of the lock's folder. The server does not run meanwhile.
async fn set_next(place: &Place, number: i32) {
    make_folder(&place.client().await).await;
    place.server.kill();
    let mut program = java_with(ZooKeeperServer::JAR, "curator-5.9.0", "bandog.curator.Numbers");
    let status = program.arg(place.server.data()).args([ORDERS, &number.to_string()]).status();
    assert!(status.expect("java runs").success());
    place.server.restart();
}

// Promise: Z9
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn near_the_end_of_the_numbers_curator_goes_on_and_bandog_refuses() {
    let mut place = Place::start(SESSION, &[]);
    set_next(&place, i32::MAX - 1).await;
    let url = super::url(&place.server);
    for program in [Program::Curator, Program::Curator, Program::BandogZooKeeper] {
        place.neighbours.push(Neighbour::start(program, &url, SESSION));
    }
    let client = place.client().await;
    let locks: Vec<_> =
        place.neighbours.iter().map(|neighbour| neighbour.lock(LockKind::Plain, "a", "orders")).collect();
    locks[0].lock();
    let waiting = locks[1].waits();
    wait_for_nodes(&client, 2).await;
    let numbers: Vec<_> = sorted(nodes(&client).await).iter().map(|node| node[45..].to_owned()).collect();
    assert_eq!(numbers, ["2147483646", "2147483647"]);
    // bandog takes no place in a queue whose order is not defined, and leaves no node. It repeats the claim until the call
    // ends. The node of a claim that is on its way then is deleted after the answer.
    let refused = place.neighbours[2].ask("a", &["try", "orders"]);
    assert!(refused.starts_with("error ") && refused.contains("numbers"), "{refused}");
    eventually_async(LONG, async || nodes(&client).await.len() == 2).await;
    locks[0].unlock();
    assert_eq!(waiting.answer(LONG), "held");
    locks[1].unlock();
    // In a new folder, the numbers begin again.
    client.delete(ORDERS, None).await.expect("the folder is empty");
    locks[2].lock();
    assert!(!locks[0].try_lock());
}
