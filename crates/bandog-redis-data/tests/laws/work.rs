//! Work queues under faults, without memory, without rights, and with many elements and takers.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use bandog_core::{
    ErrorKind, Key, Notifier,
    queues::{
        Bell, Change, Delivered, DeliveryId, ElementId, Extend, Extended, NewElement, OnceId, Phase, Push, Queues,
        Settle, SettleEnd, Settled, Take, TakeId, Taken, When, WorkerRow,
    },
};
use bandog_redis_data::RedisObjects;
use bandog_redis_net::{FurtherOptions, Options};
use bandog_testkit::{RedisServer, eventually_async};

use crate::at;

const SOON: Duration = Duration::from_secs(30);
const HOUR: Duration = Duration::from_secs(3600);

fn impatient(url: &str) -> Arc<RedisObjects> {
    let (options, _) = Options::from_url(url, &FurtherOptions { names: &[], shown: "" }).unwrap();
    Arc::new(RedisObjects::new(options.with_timeout(Duration::from_millis(300))).unwrap())
}

fn queue() -> Key {
    Key::new("q").unwrap()
}

fn new(payload: &str) -> NewElement {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    NewElement::new(ElementId { client: 7, number }, payload.into())
}

fn push_of(elements: Vec<NewElement>) -> [Push; 1] {
    [Push { queue: queue(), elements }]
}

async fn push(store: &dyn Queues, elements: Vec<NewElement>) {
    store.push(&push_of(elements)).await.remove(0).unwrap();
}

fn take_of(taker: u64, at_most: u32) -> Take {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let id = TakeId { taker, number: NEXT.fetch_add(1, Ordering::Relaxed) };
    Take { queue: queue(), id, is_repeated: false, at_most, lease: HOUR, deliveries: 5 }
}

async fn take(store: &dyn Queues, taker: u64, at_most: u32) -> Taken {
    store.take(&[take_of(taker, at_most)]).await.remove(0).unwrap()
}

fn delivery(element: &Delivered) -> DeliveryId {
    DeliveryId { id: element.id, fence: element.fence }
}

fn done(element: &Delivered) -> Settle {
    Settle { delivery: delivery(element), end: SettleEnd::Done(Vec::new()) }
}

async fn settle(store: &dyn Queues, settles: &[Settle]) -> Vec<Settled> {
    store.settle(&queue(), settles).await.unwrap()
}

async fn extend(store: &dyn Queues, element: &Delivered) -> Extended {
    let deliveries = vec![(delivery(element), Some("half".to_owned()))];
    store.extend(&Extend { queue: queue(), deliveries, lease: HOUR }).await.unwrap()[0]
}

fn texts(taken: &Taken) -> Vec<String> {
    taken.elements.iter().map(|element| String::from_utf8(element.payload.clone()).unwrap()).collect()
}

#[tokio::test]
async fn after_flushall_the_elements_are_absent_and_the_queue_works() {
    let server = RedisServer::start();
    let store = at(&server.url());
    push(&*store, vec![new("a"), new("b")]).await;
    let taken = take(&*store, 1, 1).await;
    server.cmd(&["FLUSHALL"]);
    assert_eq!(extend(&*store, &taken.elements[0]).await, Extended::Lost);
    assert_eq!(settle(&*store, &[done(&taken.elements[0])]).await, [Settled::Absent]);
    assert_eq!(take(&*store, 1, 10).await, Taken::default());
    push(&*store, vec![new("c")]).await;
    assert_eq!(texts(&take(&*store, 1, 10).await), ["c"]);
}

/// A server that evicts keys, and an operator, can delete a part of a queue.
#[tokio::test]
async fn elements_of_which_a_part_was_deleted_do_not_stop_the_queue() {
    let server = RedisServer::start();
    let store = at(&server.url());
    for part in ["elements", "bodies", "ready", "taken", "kept", "expiry", "fence", "order"] {
        let keyed = NewElement { order_key: Some("k".into()), ..new("keyed") };
        push(&*store, vec![new("a"), keyed.clone(), NewElement { id: new("").id, ..keyed }]).await;
        take(&*store, 1, 1).await;
        server.cmd(&["DEL", &format!("bandog:work:{{q}}:{part}")]);
        take(&*store, 1, 10).await;
        server.cmd(&["FLUSHALL"]);
        push(&*store, vec![new("next")]).await;
        let next = take(&*store, 1, 10).await;
        assert_eq!(texts(&next), ["next"], "without {part}");
        assert_eq!(settle(&*store, &[done(&next.elements[0])]).await, [Settled::Applied]);
    }
}

#[tokio::test]
async fn a_full_server_refuses_pushes_and_completes_elements() {
    let server = RedisServer::start();
    let store = at(&server.url());
    push(&*store, vec![new("a"), new("b"), new("c")]).await;
    let taken = take(&*store, 1, 1).await;
    server.cmd(&["CONFIG", "SET", "maxmemory", "1"]);
    let before = server.keys();
    let mixed = vec![
        NewElement { order_key: Some("k".into()), ..new("refused") },
        NewElement { once: Some(OnceId { id: "o".into(), window: HOUR }), ..new("refused") },
        new("refused"),
    ];
    let refused = store.push(&push_of(mixed.clone())).await.remove(0).unwrap_err();
    assert!(refused.kind() == ErrorKind::Unavailable && !refused.maybe_applied(), "{refused}");
    assert!(refused.to_string().contains("memory limit"), "{refused}");
    assert_eq!(server.keys(), before);
    assert_eq!(extend(&*store, &taken.elements[0]).await, Extended::Held);
    let second = take(&*store, 1, 1).await;
    assert_eq!(texts(&second), ["b"]);
    let retry = Settle { delivery: delivery(&second.elements[0]), end: SettleEnd::Retry(HOUR, "full".into()) };
    assert_eq!(settle(&*store, &[done(&taken.elements[0]), retry]).await, [Settled::Applied; 2]);
    assert_eq!(take(&*store, 1, 10).await.elements.len(), 1);
    store.change(&queue(), &Change::Pause(true)).await.unwrap();
    store.change(&queue(), &Change::Pause(false)).await.unwrap();
    server.cmd(&["CONFIG", "SET", "maxmemory", "0"]);
    assert!(take(&*store, 1, 10).await.elements.is_empty(), "nothing of the refused push is there");
    push(&*store, mixed).await;
    assert_eq!(take(&*store, 1, 10).await.elements.len(), 3);
}

#[tokio::test]
async fn calls_without_an_answer_are_repeated() {
    let server = RedisServer::start();
    let wire = server.wire();
    let store = impatient(&wire.url());
    let pushes = push_of(vec![new("a"), new("b")]);
    // The connection is there.
    eventually_async(SOON, async || store.status(&queue()).await.is_ok()).await;
    wire.drop_replies(true);
    let lost = store.push(&pushes).await.remove(0).unwrap_err();
    assert!(lost.maybe_applied(), "{lost}");
    wire.cut();
    wire.drop_replies(false);
    let repeated = async || store.push(&pushes).await.remove(0).is_ok_and(|pushed| pushed.iter().all(|p| p.is_new));
    eventually_async(SOON, repeated).await;
    let first = take_of(1, 2);
    wire.drop_replies(true);
    let lost = store.take(std::slice::from_ref(&first)).await.remove(0).unwrap_err();
    assert!(lost.maybe_applied(), "{lost}");
    wire.cut();
    wire.drop_replies(false);
    // Another take of the same taker in between.
    let mut other = None;
    eventually_async(SOON, async || {
        other = store.take(&[take_of(1, 2)]).await.remove(0).ok();
        other.is_some()
    })
    .await;
    assert!(other.unwrap().elements.is_empty());
    let taken = store.take(&[Take { is_repeated: true, ..first }]).await.remove(0).unwrap();
    assert_eq!(texts(&taken), ["a", "b"]);
    let settles: Vec<_> = taken.elements.iter().map(done).collect();
    wire.drop_replies(true);
    store.settle(&queue(), &settles).await.unwrap_err();
    wire.cut();
    wire.drop_replies(false);
    let mut answers = Vec::new();
    eventually_async(SOON, async || {
        answers = store.settle(&queue(), &settles).await.unwrap_or_default();
        !answers.is_empty()
    })
    .await;
    assert_eq!(answers, [Settled::Absent; 2]);
}

/// Connections are killed again and again. Each call is repeated until it has an answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_connections_neither_lose_nor_repeat_an_element() {
    const ELEMENTS: usize = 600;
    let server = Arc::new(RedisServer::start());
    let url = server.url();
    let pusher = tokio::spawn({
        let store = at(&url);
        async move {
            for chunk in 0..ELEMENTS / 6 {
                let elements = (0..6).map(|at| new(&(chunk * 6 + at).to_string())).collect();
                let pushes = push_of(elements);
                while store.push(&pushes).await.remove(0).is_err() {}
            }
        }
    });
    let done_count = Arc::new(AtomicU32::new(0));
    let workers: Vec<_> = (1..=3_u64)
        .map(|taker| {
            let (store, done_count) = (at(&url), done_count.clone());
            tokio::spawn(async move {
                let mut seen = Vec::new();
                while done_count.load(Ordering::SeqCst) < u32::try_from(ELEMENTS).unwrap() {
                    let mut take = take_of(taker, 7);
                    let taken = loop {
                        match store.take(std::slice::from_ref(&take)).await.remove(0) {
                            Ok(taken) => break taken,
                            Err(_) => take.is_repeated = true,
                        }
                    };
                    let settles: Vec<_> = taken.elements.iter().map(done).collect();
                    if !settles.is_empty() {
                        while store.settle(&queue(), &settles).await.is_err() {}
                    }
                    seen.extend(texts(&taken));
                    done_count.fetch_add(u32::try_from(settles.len()).unwrap(), Ordering::SeqCst);
                }
                seen
            })
        })
        .collect();
    let faults = tokio::spawn({
        let (server, done_count) = (server.clone(), done_count.clone());
        async move {
            while done_count.load(Ordering::SeqCst) < u32::try_from(ELEMENTS).unwrap() {
                tokio::time::sleep(Duration::from_millis(fastrand::u64(2..30))).await;
                server.kill_clients();
            }
        }
    });
    let mut counts = BTreeMap::<String, u32>::new();
    for worker in workers {
        for text in tokio::time::timeout(SOON * 3, worker).await.unwrap().unwrap() {
            *counts.entry(text).or_default() += 1;
        }
    }
    pusher.await.unwrap();
    faults.await.unwrap();
    assert!(counts.len() == ELEMENTS && counts.values().all(|count| *count == 1), "{counts:?}");
}

/// The number of commands that the server has run since the last call, and the time of the scripts in µs.
fn commands(server: &RedisServer) -> (u64, u64) {
    let text = server.cmd(&["INFO", "commandstats"]).text().to_owned();
    server.cmd(&["CONFIG", "RESETSTAT"]);
    let number = |line: &str, name: &str| -> u64 {
        let rest = line.split_once(&format!("{name}=")).map_or("0", |(_, rest)| rest);
        rest.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
    };
    let lines = || text.lines().filter(|line| !line.contains("_info:") && !line.contains("_config"));
    let time = lines().find(|line| line.contains("_evalsha:")).map_or(0, |line| number(line, "usec"));
    (lines().map(|line| number(line, "calls")).sum(), time)
}

#[tokio::test]
async fn many_delayed_dead_and_blocked_elements_do_not_slow_a_take() {
    let server = RedisServer::start();
    let store = at(&server.url());
    let round = async || {
        commands(&server);
        for _ in 0..50 {
            push(&*store, vec![new("a"), NewElement { order_key: Some("own".into()), ..new("b") }]).await;
            let taken = take(&*store, 1, 10).await;
            assert_eq!(taken.elements.len(), 2);
            settle(&*store, &taken.elements.iter().map(done).collect::<Vec<_>>()).await;
        }
        commands(&server)
    };
    let few = round().await;
    let keyed = |text: &str| NewElement { order_key: Some("k".into()), ..new(text) };
    push(&*store, (0..1000).map(|_| new("dead")).collect()).await;
    let dead = take(&*store, 1, 1000).await.elements;
    let fail = |element: &Delivered| Settle { delivery: delivery(element), end: SettleEnd::Fail("no".into()) };
    settle(&*store, &dead.iter().map(fail).collect::<Vec<_>>()).await;
    for chunk in 0..100 {
        let delayed = |_| NewElement { when: When::After(HOUR), ..new("delayed") };
        push(&*store, (0..1000).map(delayed).collect()).await;
        if chunk < 10 {
            push(&*store, (0..1000).map(|_| keyed("blocked")).collect()).await;
        }
    }
    assert_eq!(take(&*store, 1, 1).await.elements.len(), 1, "the first one of the key");
    let status = store.status(&queue()).await.unwrap();
    let counts = [Phase::Delayed, Phase::Blocked, Phase::Dead].map(|phase| status.count(phase));
    assert_eq!(counts, [100_000, 9_999, 1_000]);
    let many = round().await;
    assert!(many.0 <= few.0 + 150, "commands: {few:?} before, {many:?} with many elements");
    assert!(many.1 < few.1 * 6, "time: {few:?} before, {many:?} with many elements");
}

#[tokio::test]
async fn all_keys_of_an_empty_queue_expire() {
    let server = RedisServer::start();
    let store = at(&server.url());
    let short = Duration::from_millis(200);
    let last = NewElement { waits_for: 1, ..new("last") };
    let elements = vec![
        NewElement { once: Some(OnceId { id: "o".into(), window: HOUR }), ..new("once") },
        NewElement { keep_result: Some(HOUR), order_key: Some("k".into()), ..new("k1") },
        NewElement { keep_result: Some(short), order_key: Some("k".into()), ..new("k2") },
        NewElement { before: Some(last.id), when: When::After(short), ..new("first") },
        last,
        new("dead"),
    ];
    let ids: Vec<_> = elements.iter().map(|element| element.id).collect();
    push(&*store, elements).await;
    store.change(&queue(), &Change::Worker(WorkerRow { id: 5, ..WorkerRow::default() }, short)).await.unwrap();
    store.change(&queue(), &Change::Pause(true)).await.unwrap();
    store.change(&queue(), &Change::Pause(false)).await.unwrap();
    let mut left: BTreeSet<_> = ids.iter().copied().collect();
    eventually_async(SOON, async || {
        for element in take(&*store, 1, 10).await.elements {
            extend(&*store, &element).await;
            let end = match (element.payload.as_slice(), element.attempt) {
                (b"dead", _) => SettleEnd::Fail("no".into()),
                (_, 1) => SettleEnd::Retry(Duration::ZERO, "again".into()),
                _ => SettleEnd::Done(vec![1]),
            };
            if matches!(end, SettleEnd::Done(_) | SettleEnd::Fail(_)) {
                left.remove(&element.id);
            }
            settle(&*store, &[Settle { delivery: delivery(&element), end }]).await;
        }
        left.is_empty()
    })
    .await;
    assert_eq!(store.change(&queue(), &Change::Purge(Phase::Dead)).await.unwrap(), 1);
    for key in server.keys() {
        assert!(server.cmd(&["PTTL", &key]).int() > 0, "{key} stays");
    }
    let found = store.find(&queue(), &ids).await.unwrap();
    assert!(found[1].is_some() && found[0].is_none(), "{found:?}");
    // Nothing of a forgotten push, result or worker is left.
    server.cmd(&["ZADD", "bandog:work:{q}:expiry", "XX", "1", &expiring(&server, "r")]);
    push(&*store, vec![new("x")]).await;
    let rest = take(&*store, 1, 1).await;
    settle(&*store, &[done(&rest.elements[0])]).await;
    assert!(store.find(&queue(), &ids).await.unwrap().iter().all(Option::is_none));
}

/// A field that expires.
fn expiring(server: &RedisServer, kind: &str) -> String {
    let fields = server.cmd(&["ZRANGE", "bandog:work:{q}:expiry", "0", "-1"]).array().to_vec();
    let text = fields.iter().map(|field| field.text().to_owned()).find(|field| field.starts_with(kind));
    text.expect("a field")
}

/// What many takers have heard.
struct Listeners {
    heard: Arc<[AtomicU32]>,
    subscriptions: Vec<bandog_core::Subscription>,
}

impl Listeners {
    /// Takers with the numbers from 1 on.
    async fn subscribe(store: &dyn Queues, count: usize) -> Self {
        let heard: Arc<[AtomicU32]> = (0..count).map(|_| AtomicU32::new(0)).collect();
        let mut subscriptions = Vec::new();
        for at in 0..count {
            let heard = heard.clone();
            let notifier = Notifier::new(move || _ = heard[at].fetch_add(1, Ordering::SeqCst));
            let bell = Bell::Ready { queue: queue(), taker: at as u64 + 1 };
            subscriptions.push(store.subscribe_bell(&bell, notifier).await.unwrap());
        }
        Self { heard, subscriptions }
    }

    fn counts(&self) -> Vec<u32> {
        self.heard.iter().map(|count| count.load(Ordering::SeqCst)).collect()
    }

    fn total(&self) -> u32 {
        self.counts().iter().sum()
    }

    /// Waits until all messages that were sent so far have arrived.
    async fn settle(&self, server: &RedisServer) {
        let last = self.heard.len();
        let before = self.heard[last - 1].load(Ordering::SeqCst);
        server.cmd(&["PUBLISH", &format!("bandog:work:{{q}}:taker:{last:016x}"), ""]);
        eventually_async(SOON, async || self.heard[last - 1].load(Ordering::SeqCst) > before).await;
        self.heard[last - 1].fetch_sub(1, Ordering::SeqCst);
    }
}

const IDLE: &str = "bandog:work:{q}:idle";

#[tokio::test]
async fn a_push_wakes_one_idle_taker() {
    let server = RedisServer::start();
    let (store, pusher) = (at(&server.url()), at(&server.url()));
    // The last one only listens.
    let listeners = Listeners::subscribe(&*store, 21).await;
    for taker in 1..=20 {
        assert!(take(&*store, taker, 1).await.elements.is_empty());
    }
    // They stay idle also on a machine under load.
    server.cmd(&["PERSIST", IDLE]);
    for taker in 1..=20_u32 {
        server.cmd(&["ZADD", IDLE, "XX", &format!("90000000000000{taker:02}"), &format!("{taker:016x}")]);
    }
    push(&*pusher, vec![new("a")]).await;
    listeners.settle(&server).await;
    assert_eq!((listeners.counts()[19], listeners.total()), (1, 1), "the taker that has asked last");
    assert_eq!(texts(&take(&*store, 20, 1).await), ["a"]);
    // Of many elements each taker wakes the next one.
    push(&*pusher, (0..5).map(|at| new(&at.to_string())).collect()).await;
    listeners.settle(&server).await;
    assert_eq!((listeners.counts()[18], listeners.total()), (1, 2));
    let first = take(&*store, 19, 2).await;
    listeners.settle(&server).await;
    assert_eq!((first.has_more, listeners.counts()[17], listeners.total()), (true, 1, 3));
    assert_eq!(take(&*store, 18, 10).await.elements.len(), 3);
    // It could have taken more, so it is idle. One that does not listen any more is passed over.
    let mut listeners = listeners;
    listeners.subscriptions.remove(17);
    let is_gone =
        async || server.cmd(&["PUBSUB", "NUMSUB", "bandog:work:{q}:taker:0000000000000012"]).array()[1].int() == 0;
    eventually_async(SOON, is_gone).await;
    settle(&*pusher, &[Settle { delivery: delivery(&first.elements[0]), end: SettleEnd::HandBack }]).await;
    listeners.settle(&server).await;
    assert_eq!((listeners.counts()[16], listeners.total()), (1, 4), "{:?}", listeners.counts());
    // Takers that have not asked for two seconds have gone.
    let idle = server.cmd(&["ZRANGE", IDLE, "0", "-1"]).array().to_vec();
    assert!(idle.len() > 10, "{idle:?}");
    for taker in idle {
        server.cmd(&["ZADD", IDLE, "XX", "1", taker.text()]);
    }
    push(&*pusher, vec![new("b")]).await;
    listeners.settle(&server).await;
    assert_eq!(listeners.total(), 4);
    assert_eq!(server.cmd(&["EXISTS", IDLE]).int(), 0);
}

#[tokio::test]
async fn without_the_right_to_subscribe_a_bell_is_silent() {
    let server = RedisServer::start();
    server.cmd(&["ACL", "SETUSER", "few", "on", ">PASSWORD", "~*", "&*", "+@all", "-subscribe", "-publish"]);
    let store = at(&server.url().replace("redis://", "redis://few:PASSWORD@"));
    let bell = Bell::Ready { queue: queue(), taker: 1 };
    let subscription = store.subscribe_bell(&bell, Notifier::new(|| {})).await.unwrap();
    assert!(subscription.is_silent());
    assert!(take(&*store, 1, 1).await.elements.is_empty());
    push(&*store, vec![new("a")]).await;
    assert_eq!(texts(&take(&*store, 1, 1).await), ["a"]);
}

#[tokio::test]
async fn a_user_of_a_prefix_has_the_rights_of_the_page() {
    let server = RedisServer::start();
    let page = include_str!("../../../../docs/redis-keys.md");
    let (_, rights) = page.split_once("\n## Work queues\n").unwrap();
    let (rights, _) = rights.split_once("\n## ").unwrap();
    let words = rights.split(|c: char| c.is_whitespace() || c == '`' || c == ',' || c == ';');
    let words = words.map(|word| word.trim_end_matches('.')).filter(|word| word.len() > 2);
    let mut acl = vec!["ACL", "SETUSER", "few", "on", ">PASSWORD", "resetchannels"];
    acl.extend(words.filter(|word| word.starts_with(['~', '&', '+'])));
    server.cmd(&acl);
    let store = at(&server.url().replace("redis://", "redis://few:PASSWORD@"));
    let queue = Key::new("orders:q").unwrap();
    let bell = Bell::Ready { queue: queue.clone(), taker: 1 };
    let subscription = store.subscribe_bell(&bell, Notifier::new(|| {})).await.unwrap();
    assert!(!subscription.is_silent());
    let all = [
        NewElement { order_key: Some("k".into()), keep_result: Some(HOUR), ..new("a") },
        NewElement { once: Some(OnceId { id: "o".into(), window: HOUR }), ..new("b") },
        NewElement { when: When::After(Duration::from_millis(1)), ..new("c") },
    ];
    let pushes = [Push { queue: queue.clone(), elements: all.to_vec() }];
    store.push(&pushes).await.remove(0).unwrap();
    let mut taken = Vec::new();
    eventually_async(SOON, async || {
        let take = Take { queue: queue.clone(), ..take_of(1, 10) };
        taken.extend(store.take(&[take]).await.remove(0).unwrap().elements);
        taken.len() == 3
    })
    .await;
    let deliveries = taken.iter().map(|element| (delivery(element), Some("half".to_owned()))).collect();
    store.extend(&Extend { queue: queue.clone(), deliveries, lease: HOUR }).await.unwrap();
    let fail = Settle { delivery: delivery(&taken[1]), end: SettleEnd::Fail("no".into()) };
    let retry = Settle { delivery: delivery(&taken[2]), end: SettleEnd::Retry(Duration::ZERO, "no".into()) };
    store.settle(&queue, &[done(&taken[0]), fail, retry]).await.unwrap();
    store.find(&queue, &[taken[0].id]).await.unwrap();
    store.status(&queue).await.unwrap();
    for phase in Phase::IN_QUEUE {
        let page = store.elements(&queue, phase, &bandog_core::structures::Cursor::default(), 1).await.unwrap();
        if let Some(next) = page.1 {
            store.elements(&queue, phase, &next, 1).await.unwrap();
        }
    }
    for change in [
        Change::Pause(true),
        Change::Settings(bandog_core::queues::QueueSettings::default()),
        Change::Retry(Vec::new()),
        Change::Remove(vec![taken[1].id]),
        Change::Purge(Phase::Ready),
        Change::Worker(WorkerRow::default(), HOUR),
    ] {
        store.change(&queue, &change).await.unwrap();
    }
    let listed = store.queues(&bandog_core::Pattern::all(), &bandog_core::structures::Cursor::default(), 100).await;
    assert_eq!(listed.unwrap().1, None);
}
