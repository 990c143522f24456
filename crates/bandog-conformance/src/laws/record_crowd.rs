//! Concurrent swaps of one record, by tasks, clients and processes.

use bandog_core::{Error, Records, Swapped};
use bandog_sync::Client;
use bandog_testkit::eventually_async;
use futures_util::future::join_all;

use crate::{
    Law, World,
    child::Child,
    kit::{MAX_WAIT, within},
    record_kit::{RECORD, add_one, get, key, line, sum, swap, write},
};

/// Law 141: of several concurrent swaps from the same version, exactly one swap is done. The other swaps return the
/// record that the successful swap wrote.
// Promise: R1
pub async fn record_one_winner<W: World>(world: &W) -> Law {
    const ROUNDS: usize = 40;
    world.records()?; // This law applies only if the backend supports records.
    let clients = [world.client(), world.client(), world.client(), world.client()];
    let mut from = None;
    for round in 0..ROUNDS {
        let names: Vec<String> = (0..clients.len()).map(|number| format!("{round} by {number}")).collect();
        let race = clients.iter().zip(&names).map(|(client, name)| swap(client, write(RECORD, from, name)));
        let answers: Vec<Swapped> = join_all(race).await.into_iter().collect::<Result<_, _>>()?;
        let won = |number: &usize| matches!(answers[*number], Swapped::Done(_));
        let winners: Vec<_> = (0..answers.len()).filter(won).collect();
        let [winner] = winners[..] else { panic!("{} swaps were done instead of one: {answers:?}", winners.len()) };
        let record = get(&clients[0], RECORD).await?.expect("the record was not written");
        assert_eq!(record.value, names[winner]);
        for (number, answer) in answers.into_iter().enumerate() {
            let expected = if number == winner {
                Swapped::Done(Some(record.version))
            } else {
                Swapped::Differs(Some(record.clone()))
            };
            assert_eq!(answer, expected);
        }
        from = Some(record.version);
    }
    Ok(())
}

/// Law 142: if many tasks add to the number in one record at the same time, no addition and no line of the history is
/// lost.
// Promise: R1
pub async fn record_additions<W: World>(world: &W) -> Law {
    const TASKS: usize = 8;
    const ADDITIONS: u64 = 15;
    world.records()?;
    let clients = [world.client(), world.client(), world.client(), world.client()];
    let task = |number: usize| {
        let client = clients[number % clients.len()].clone();
        tokio::spawn(add(client, number.to_string(), ADDITIONS))
    };
    for task in (0..TASKS).map(task).collect::<Vec<_>>() {
        within(MAX_WAIT * 2, "a task", task).await.expect("the task has panicked")?;
    }
    assert_eq!(sum(&clients[0]).await?, TASKS as u64 * ADDITIONS);
    let each: Vec<_> = (0..TASKS).map(|task| line(&task.to_string(), &ADDITIONS.to_string())).collect();
    assert_eq!(clients[1].records().history(&key(RECORD)).await?, each);
    Ok(())
}

/// Law 143: if several processes add to the number in one record at the same time, no addition and no line of the
/// history is lost. If a process is killed, each addition of this process was done completely or not at all.
// Promise: R1, R2, RS2
pub async fn record_additions_of_processes<W: World>(world: &W) -> Law {
    const ADDITIONS: u64 = 25;
    world.records()?;
    let client = world.client();
    let mut children = [Child::start(world, MAX_WAIT)?, Child::start(world, MAX_WAIT)?, Child::start(world, MAX_WAIT)?];
    for (number, child) in children.iter_mut().enumerate() {
        child.send(&format!("swap {ADDITIONS} {number}"));
    }
    within(MAX_WAIT, "the additions of the parent", add(client.clone(), "parent".into(), ADDITIONS)).await?;
    for child in &children {
        child.says("swapped");
    }
    assert_eq!(sum(&client).await?, ADDITIONS * 4);

    children[0].send("swap 1000000 killed");
    children[1].send("swap 1000000 killed too");
    eventually_async(MAX_WAIT, async || matches!(sum(&client).await, Ok(sum) if sum > ADDITIONS * 5)).await;
    children.iter().for_each(Child::kill);
    within(MAX_WAIT, "an addition after a kill", add_one(&client, "parent", ADDITIONS)).await?;
    let sum_and_lines = async || -> Result<(u64, u64), Error> {
        let lines = client.records().history(&key(RECORD)).await?;
        Ok((sum(&client).await?, lines.iter().map(|line| line.value.parse::<u64>().unwrap_or_default()).sum()))
    };
    // The last swaps of the killed processes can reach the store between the two reads. So the check is repeated.
    eventually_async(MAX_WAIT, async || matches!(sum_and_lines().await, Ok((sum, lines)) if sum == lines)).await;
    Ok(())
}

/// Makes `times` additions of one to the number in the record. The line of `slot` counts these additions.
async fn add(client: Client, slot: String, times: u64) -> Result<(), Error> {
    for before in 0..times {
        add_one(&client, &slot, before).await?;
    }
    Ok(())
}
