//! Measurements of work queues, for a person: they are ignored by default.

use std::{sync::Arc, time::Instant};

use bandog_core::{
    Backend, Key,
    queues::{DeliveryId, ElementId, NewElement, Push, Queues, Settle, SettleEnd, Take, TakeId},
};

use crate::support::{SERVER, open, raw, url};

struct Bench {
    store: Arc<dyn Queues>,
    queue: Key,
    next: u64,
    takes: u64,
}

impl Bench {
    async fn push(&mut self, pushes: u64, size: u64) {
        for _ in 0..pushes {
            let new = |number| NewElement::new(ElementId { client: 1, number }, vec![b'x'; 100]);
            let elements = (self.next..self.next + size).map(new).collect();
            self.next += size;
            self.store.push(&[Push { queue: self.queue.clone(), elements }]).await.remove(0).unwrap();
        }
    }

    /// Takes and settles elements, and returns the seconds of both.
    async fn work(&mut self, rounds: u64, size: u32) -> (f64, f64) {
        let (mut took, mut settled) = (0.0, 0.0);
        for _ in 0..rounds {
            self.takes += 1;
            let id = TakeId { taker: 1, number: self.takes };
            let lease = std::time::Duration::from_secs(60);
            let take = Take { queue: self.queue.clone(), id, is_repeated: false, at_most: size, lease, deliveries: 5 };
            let begun = Instant::now();
            let taken = self.store.take(&[take]).await.remove(0).unwrap();
            took += begun.elapsed().as_secs_f64();
            assert_eq!(taken.elements.len(), size as usize);
            let begun = Instant::now();
            let done = |element: &bandog_core::queues::Delivered| Settle {
                delivery: DeliveryId { id: element.id, fence: element.fence },
                end: SettleEnd::Done(Vec::new()),
            };
            let settles: Vec<_> = taken.elements.iter().map(done).collect();
            self.store.settle(&self.queue, &settles).await.unwrap();
            settled += begun.elapsed().as_secs_f64();
        }
        (took, settled)
    }
}

/// Elements of other phases in the same queue.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
async fn speed_beside_many_others() {
    let database = SERVER.new_database();
    let store = Backend::queues(&open(&url(&SERVER, &database))).unwrap();
    let mut bench = Bench { store, queue: Key::new("q").unwrap(), next: 1, takes: 0 };
    bench.push(10, 100).await;
    for phase in [1, 2, 3, 4] {
        SERVER.sql(
            &database,
            &format!(
                "insert into bandog.bandog_work (queue, id, phase, rank, at, place, pushed, order_key)
            select 1, md5(n::text || 'x{phase}')::uuid, {phase}, 9, 9000000000000000 + n, 1, 1,
                case when n % 10 = 0 then 'k' || n % 100 end from generate_series(1, 200000) n;
            insert into bandog.bandog_work_body (queue, id, payload)
            select 1, md5(n::text || 'x{phase}')::uuid, 'x' from generate_series(1, 200000) n"
            ),
        );
        for part in 0..3 {
            let begun = Instant::now();
            bench.push(20, 100).await;
            let pushed = begun.elapsed().as_secs_f64();
            let (took, settled) = bench.work(20, 100).await;
            eprintln!(
                "phase {phase}, {part}: push {:.0}/s, take {:.0}/s, settle {:.0}/s",
                2_000.0 / pushed,
                2_000.0 / took,
                2_000.0 / settled
            );
        }
        SERVER.sql(&database, "analyze");
    }
    let begun = Instant::now();
    let status = bench.store.status(&bench.queue).await.unwrap();
    eprintln!("push status {status:?} {:?}", begun.elapsed());
    for number in 0..20 {
        let begun = Instant::now();
        let element =
            NewElement { order_key: Some("k0".into()), ..NewElement::new(ElementId { client: 3, number }, Vec::new()) };
        bench.store.push(&[Push { queue: bench.queue.clone(), elements: vec![element] }]).await.remove(0).unwrap();
        let pushed = begun.elapsed();
        let begun = Instant::now();
        let empty = Take {
            queue: bench.queue.clone(),
            id: TakeId { taker: 5, number },
            is_repeated: false,
            at_most: 10,
            lease: std::time::Duration::from_secs(60),
            deliveries: 5,
        };
        let taken = if number == 19 { bench.store.take(&[empty]).await.remove(0).unwrap().elements.len() } else { 0 };
        eprintln!("keyed push {pushed:?}, take {taken} {:?}", begun.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
async fn speed() {
    let database = SERVER.new_database();
    let store = Backend::queues(&open(&url(&SERVER, &database))).unwrap();
    let mut bench = Bench { store, queue: Key::new("q").unwrap(), next: 1, takes: 0 };
    for (name, pinned) in [("usual", false), ("old transaction", true)] {
        let hand = raw(&SERVER, &database).await;
        if pinned {
            hand.batch_execute("begin isolation level repeatable read; select 1 from bandog.bandog_work limit 1")
                .await
                .unwrap();
        }
        for part in 0..20 {
            let begun = Instant::now();
            bench.push(100, 100).await;
            let pushed = begun.elapsed().as_secs_f64();
            let (took, settled) = bench.work(100, 100).await;
            eprintln!(
                "{name} {part}: push {:.0}/s, take {:.0}/s, settle {:.0}/s",
                10_000.0 / pushed,
                10_000.0 / took,
                10_000.0 / settled
            );
        }
    }
}
