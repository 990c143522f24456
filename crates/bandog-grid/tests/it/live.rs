//! Live objects: their indexes, changes by several tasks, and dropped calls.

use std::collections::BTreeMap;

use bandog::{
    ErrorKind,
    grid::{ClientGrid, Grid, LiveObjects, Saved, codec},
};
use bandog_testkit::{RedisCluster, RedisServer, eventually_async};
use futures_util::TryStreamExt;

use crate::{SOON, client, dropped::poll_at_most, grid, keys};

/// An object with each kind of field.
#[derive(Debug, Clone, PartialEq, bandog::Live)]
#[live(name = "com.shop.User", index(email, age, level))]
pub(crate) struct User {
    #[live(id)]
    id: u64,
    pub(crate) email: String,
    age: u8,
    level: Option<i64>,
    #[live(name = "nickName")]
    nick_name: Option<String>,
}

/// The same in one slot.
#[derive(Debug, Clone, PartialEq, bandog::Live)]
#[live(name = "com.shop.Item", index(kind, price), one_slot)]
struct Item {
    #[live(id)]
    id: String,
    kind: String,
    price: f64,
}

/// One that the default codec of Java can write.
#[derive(Debug, PartialEq, bandog::Live)]
#[live(index(name, age))]
struct Person {
    #[live(id)]
    id: i64,
    name: String,
    age: i32,
}

/// One without indexes.
#[derive(Debug, PartialEq, bandog::Live)]
struct Note {
    #[live(id)]
    id: u32,
    text: String,
}

pub(crate) fn user(id: u64, email: &str, age: u8) -> User {
    User { id, email: email.to_owned(), age, level: None, nick_name: None }
}

/// A grid of each store. The server runs as long as the test.
async fn each_store() -> ([Grid; 2], RedisServer) {
    let server = RedisServer::start();
    ([grid("memory:").await, grid(&server.url()).await], server)
}

async fn ids(users: &LiveObjects<User>, email: &str, ages: (u8, u8)) -> [Vec<u64>; 2] {
    let by_email = users.find(User::email().eq(email)).ids().await.unwrap();
    let by_age = users.find(User::age().between(&ages.0, &ages.1)).ids().await.unwrap();
    [by_email, by_age].map(|mut ids| {
        ids.sort_unstable();
        ids
    })
}

#[tokio::test]
async fn an_object_is_inserted_loaded_saved_and_deleted() {
    let (grids, _server) = each_store().await;
    for grid in grids {
        let users = grid.live::<User>().unwrap();
        assert!(!users.contains(&7).await.unwrap() && users.load(&7).await.unwrap().is_none());
        let ann = user(7, "ann@x", 30);
        assert!(users.insert(&ann).await.unwrap());
        assert!(!users.insert(&user(7, "bob@x", 40)).await.unwrap());
        assert!(users.contains(&7).await.unwrap());
        let mut stored = users.load(&7).await.unwrap().unwrap();
        let mut other = users.load(&7).await.unwrap().unwrap();
        assert_eq!(*stored, ann);
        (stored.email, stored.level, stored.nick_name) = ("eve@x".to_owned(), Some(-3), Some("e".to_owned()));
        assert_eq!(stored.save().await.unwrap(), Saved::Done);
        assert_eq!(ids(&users, "ann@x", (0, 255)).await, [vec![], vec![7]]);
        assert_eq!(ids(&users, "eve@x", (31, 255)).await, [vec![7], vec![]]);
        other.age = 31;
        assert_eq!(other.save().await.unwrap(), Saved::Changed);
        assert_eq!(users.load(&7).await.unwrap().unwrap().into_inner(), *stored);
        // A saved copy can be saved again.
        (stored.level, stored.nick_name) = (None, None);
        assert_eq!(stored.save().await.unwrap(), Saved::Done);
        assert_eq!(users.find(User::level().lt(&0)).ids().await.unwrap(), Vec::<u64>::new());
        stored.id = 8;
        assert_eq!(stored.save().await.unwrap_err().kind(), ErrorKind::Misused);
        let changed = users.update(&7, |user| user.age += 1).await.unwrap().unwrap();
        assert_eq!((changed.age, changed.email.as_str()), (31, "eve@x"));
        assert!(users.update(&9, |user| user.age += 1).await.unwrap().is_none());
        assert!(users.delete(&7).await.unwrap() && !users.delete(&7).await.unwrap());
        assert_eq!(stored.save().await.unwrap_err().kind(), ErrorKind::Misused);
        assert_eq!(other.save().await.unwrap(), Saved::Changed);
        assert_eq!(ids(&users, "eve@x", (0, 255)).await, [const { Vec::<u64>::new() }; 2]);
    }
}

#[tokio::test]
async fn one_field_changes_with_its_index() {
    let (grids, _server) = each_store().await;
    for grid in grids {
        let users = grid.live::<User>().unwrap();
        let at = users.at(&7);
        assert!(!at.email().set("eve@x").await.unwrap() && !at.nick_name().clear().await.unwrap());
        assert_eq!((at.age().add(1).await.unwrap(), at.age().get().await.unwrap()), (None, None));
        users.insert(&user(7, "ann@x", 30)).await.unwrap();
        assert!(at.email().set("eve@x").await.unwrap() && at.nick_name().set("e").await.unwrap());
        assert_eq!(at.email().get().await.unwrap().as_deref(), Some("eve@x"));
        assert_eq!(ids(&users, "eve@x", (30, 30)).await, [vec![7], vec![7]]);
        assert_eq!(at.age().add(225).await.unwrap(), Some(255));
        assert_eq!(at.age().add(1).await.unwrap_err().kind(), ErrorKind::Denied);
        assert_eq!(ids(&users, "ann@x", (255, 255)).await, [vec![], vec![7]]);
        assert!(at.age().set(&1).await.unwrap());
        assert_eq!(at.level().add(i64::MIN).await.unwrap(), Some(i64::MIN), "an absent field is 0");
        // The index cannot distinguish these numbers; the search does.
        assert_eq!(users.find(User::level().gt(&i64::MIN)).ids().await.unwrap(), Vec::<u64>::new());
        assert_eq!(users.find(User::level().lt(&(i64::MIN + 1))).ids().await.unwrap(), [7]);
        assert!(at.level().clear().await.unwrap());
        assert_eq!((at.level().get().await.unwrap(), ids(&users, "", (1, 1)).await), (None, [vec![], vec![7]]));
        assert_eq!(users.find(User::level().le(&0)).ids().await.unwrap(), Vec::<u64>::new());
        let mut batch = grid.batch();
        let answers = [batch.add(at.email().set("a")), batch.add(users.contains(&7)), batch.add(users.delete(&7))];
        batch.send().await.unwrap();
        assert!(answers.into_iter().all(|answer| answer.get().unwrap()));
    }
}

#[tokio::test]
async fn conditions_are_combined() {
    let (grids, _server) = each_store().await;
    for grid in grids {
        let users = grid.live::<User>().unwrap();
        for id in 0..300 {
            users.insert(&user(id, if id % 2 == 0 { "even" } else { "odd" }, (id % 100) as u8)).await.unwrap();
        }
        let found = |condition| {
            let found = users.find(condition).stream().map_ok(|user| user.id).try_collect::<Vec<_>>();
            async {
                let mut ids = found.await.unwrap();
                ids.sort_unstable();
                ids
            }
        };
        assert_eq!(found(User::age().lt(&1)).await, [0, 100, 200]);
        assert_eq!(found(User::age().eq(&99)).await, [99, 199, 299]);
        assert_eq!(found(User::age().gt(&97).and(User::email().eq("even"))).await, [98, 198, 298]);
        assert_eq!(found(User::age().ge(&99).or(User::age().le(&0))).await, [0, 99, 100, 199, 200, 299]);
        let either = User::email().eq("odd").or(User::age().eq(&4));
        assert_eq!(found(User::age().between(&3, &5).and(either)).await.len(), 9);
        assert_eq!(found(User::email().eq("odd")).await.len(), 150);
        assert_eq!(users.find(User::email().eq("odd")).load(7).await.unwrap().len(), 7);
        let mut all: Vec<_> = users.stream().map_ok(|user| user.id).try_collect().await.unwrap();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all, (0..300).collect::<Vec<_>>());
        assert_eq!(users.to_vec(10).await.unwrap().len(), 10);
    }
}

/// Changes a user at random, and the model in the same way.
async fn change_at_random(users: &LiveObjects<User>, model: &mut BTreeMap<u64, User>, random: &mut fastrand::Rng) {
    let (id, age, email) = (random.u64(0..6), random.u8(0..5), ["a", "b", "c"][random.usize(0..3)]);
    let level = [None, Some(-1), Some(1)][random.usize(0..3)];
    let at = users.at(&id);
    let exists = model.contains_key(&id);
    let entry = model.get_mut(&id);
    match random.u8(0..8) {
        0 | 1 => {
            let new = User { level, ..user(id, email, age) };
            assert_eq!(users.insert(&new).await.unwrap(), !exists);
            model.entry(id).or_insert(new);
        }
        2 => {
            assert_eq!(users.delete(&id).await.unwrap(), exists);
            model.remove(&id);
        }
        3 => {
            assert_eq!(at.email().set(email).await.unwrap(), exists);
            entry.into_iter().for_each(|user| user.email = email.to_owned());
        }
        4 => {
            assert_eq!(at.age().set(&age).await.unwrap(), exists);
            entry.into_iter().for_each(|user| user.age = age);
        }
        5 => {
            let sum = at.level().add(1).await.unwrap();
            let expected = entry.map(|user| *user.level.insert(user.level.unwrap_or(0) + 1));
            assert_eq!(sum, expected);
        }
        6 => {
            assert_eq!(at.level().clear().await.unwrap(), exists);
            entry.into_iter().for_each(|user| user.level = None);
        }
        _ => {
            let change = |user: &mut User| (user.email, user.age, user.level) = (email.to_owned(), age, level);
            let changed = users.update(&id, change).await.unwrap();
            let expected = entry.map(|user| {
                change(user);
                user.clone()
            });
            assert_eq!(changed, expected);
        }
    }
}

// Promise: G26
#[tokio::test]
async fn indexes_agree_with_a_model() {
    let (grids, server) = each_store().await;
    for grid in grids {
        let users = grid.live::<User>().unwrap();
        let (seed, mut model) = (fastrand::u64(..), BTreeMap::new());
        let mut random = fastrand::Rng::with_seed(seed);
        for number in 0..800 {
            change_at_random(&users, &mut model, &mut random).await;
            let of = |holds: &dyn Fn(&User) -> bool| -> Vec<User> {
                model.values().filter(|user| holds(user)).cloned().collect()
            };
            let (age, email, level) = (random.u8(0..5), ["a", "b", "c"][random.usize(0..3)], random.i64(-2..3));
            let found = [
                (User::age().ge(&age), of(&|user| user.age >= age)),
                (User::email().eq(email), of(&|user| user.email == email)),
                (User::level().lt(&level), of(&|user| user.level.is_some_and(|of| of < level))),
            ];
            for (condition, expected) in found {
                let found = users.find(condition).load(99).await.unwrap();
                let mut found: Vec<_> = found.into_iter().map(|user| user.into_inner()).collect();
                found.sort_by_key(|user| user.id);
                assert_eq!(found, expected, "after operation {number} of seed {seed}");
            }
        }
        // The indexes themselves have the objects of the model, and no other.
        for id in 0..6 {
            users.delete(&id).await.unwrap();
        }
    }
    assert_eq!(keys(&server), Vec::<String>::new(), "no entry of an index is left");
}

// Promise: G26
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_change_by_16_tasks_is_lost() {
    let (grids, _server) = each_store().await;
    for grid in grids {
        let users = grid.live::<User>().unwrap();
        let new = User { level: Some(0), ..user(1, "0", 0) };
        users.insert(&new).await.unwrap();
        let task = |users: LiveObjects<User>| async move {
            for _ in 0..10 {
                let next = |user: &mut User| user.email = (user.email.parse::<u32>().unwrap() + 1).to_string();
                users.update(&1, next).await.unwrap().unwrap();
                users.at(&1).level().add(1).await.unwrap().unwrap();
            }
        };
        let tasks: Vec<_> = (0..16).map(|_| tokio::spawn(task(users.clone()))).collect();
        for task in tasks {
            task.await.unwrap();
        }
        let user = users.load(&1).await.unwrap().unwrap();
        assert_eq!((user.email.as_str(), user.level), ("160", Some(160)));
        assert_eq!(users.find(User::level().eq(&160).and(User::email().eq("160"))).ids().await.unwrap(), [1]);
        assert_eq!(users.find(User::level().ge(&0)).ids().await.unwrap(), [1]);
    }
}

// Promise: G26
#[tokio::test]
async fn dropped_calls_leave_the_index_of_the_present_value() {
    let (grids, server) = each_store().await;
    for grid in grids {
        let users = grid.live::<User>().unwrap();
        users.insert(&user(1, "0", 0)).await.unwrap();
        for call in 0..10_000_u32 {
            let polls = fastrand::usize(1..4);
            let email = (call % 7).to_string();
            let call = users.at(&1).email().set(&*email);
            poll_at_most(polls, call.into_future()).await.transpose().unwrap();
        }
        // The last dropped calls may still arrive.
        let last = users.at(&1);
        assert!(last.email().set("end").await.unwrap());
        eventually_async(SOON, || async {
            let present = last.email().get().await.unwrap().unwrap();
            users.find(User::email().eq(&*present)).ids().await.unwrap() == [1]
        })
        .await;
        users.delete(&1).await.unwrap();
    }
    assert_eq!(keys(&server), Vec::<String>::new());
}

// Promise: G26
#[tokio::test]
async fn the_layout_is_that_of_redisson() {
    let server = RedisServer::start();
    let users = grid(&server.url()).await.live::<User>().unwrap();
    let ann = User { nick_name: Some("an".to_owned()), ..user(7, "ann@x", 30) };
    users.insert(&ann).await.unwrap();
    let object = "redisson_live_object:{37}:com.shop.User";
    let fields = server.cmd(&["HMGET", object, "redisson_live_object", "email", "age", "nickName"]).texts();
    assert_eq!(fields, ["\"1\"", "\"ann@x\"", "30", "\"an\""]);
    assert_eq!(server.cmd(&["HLEN", object]).int(), 4);
    let ages = server.cmd(&["ZRANGE", "redisson_live_object_index:{com.shop.User}:age", "0", "-1"]).texts();
    let names = server.cmd(&["HKEYS", "redisson_live_object_index:{com.shop.User}:email"]).texts();
    assert_eq!((ages, names), (vec!["7".to_owned()], vec!["\"ann@x\"".to_owned()]));

    // Java changes an object without this client: a loaded copy notices it, and a search skips a stale entry.
    let mut stored = users.load(&7).await.unwrap().unwrap();
    server.cmd(&["HSET", object, "age", "31"]);
    stored.nick_name = None;
    assert_eq!(stored.save().await.unwrap(), Saved::Changed);
    assert_eq!(users.find(User::age().eq(&30)).ids().await.unwrap(), Vec::<u64>::new());
    server.cmd(&["DEL", object]);
    assert_eq!(users.find(User::email().eq("ann@x")).ids().await.unwrap(), Vec::<u64>::new());

    server.cmd(&["HSET", object, "redisson_live_object", "\"1\"", "age", "31"]);
    assert_eq!(users.load(&7).await.unwrap_err().kind(), ErrorKind::Corrupt, "a field is missing");
    let people = grid(&server.url()).await.live::<Person>().unwrap().codec(codec::Kryo5);
    assert!(people.insert(&Person { id: 7, name: "Ann".to_owned(), age: 30 }).await.unwrap());
    assert_eq!(people.find(Person::name().eq("Ann")).load(9).await.unwrap()[0].age, 30);
    assert_eq!(people.at(&7).age().add(1).await.unwrap_err().kind(), ErrorKind::Denied);
    assert!(people.at(&7).age().set(&31).await.unwrap());
    assert_eq!(people.find(Person::age().ge(&31)).ids().await.unwrap(), [7]);
    assert_eq!(people.to_vec(9).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_class_in_one_slot_is_searched_on_a_cluster() {
    let cluster = RedisCluster::start(3, 0);
    let grid = client(&cluster.url()).await.grid();
    let users = grid.live::<User>().unwrap();
    let error = users.insert(&user(7, "ann@x", 30)).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Misused && error.to_string().contains("#[live(one_slot)]"), "{error}");
    let notes = grid.live::<Note>().unwrap();
    for id in 0..20 {
        assert!(notes.insert(&Note { id, text: "n".to_owned() }).await.unwrap());
    }
    assert_eq!(notes.to_vec(99).await.unwrap().len(), 20);
    let items = grid.live::<Item>().unwrap();
    for id in 0..20 {
        let item = Item { id: format!("i{id}"), kind: "tool".to_owned(), price: f64::from(id) / 2.0 };
        assert!(items.insert(&item).await.unwrap());
    }
    assert_eq!(items.find(Item::price().le(&0.6).and(Item::kind().eq("tool"))).ids().await.unwrap().len(), 2);
    assert!(items.at(&"i3".to_owned()).price().set(&0.1).await.unwrap());
    assert_eq!(items.find(Item::price().lt(&0.6)).ids().await.unwrap().len(), 3);
    assert_eq!(items.to_vec(99).await.unwrap().len(), 20);
    for id in 0..20 {
        assert!(items.delete(&format!("i{id}")).await.unwrap() && notes.delete(&id).await.unwrap());
    }
    assert!(cluster.iter().all(|node| node.keys().is_empty()));
}
