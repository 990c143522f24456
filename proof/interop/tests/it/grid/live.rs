//! Live objects of both sides: Java with its default codec, and bandog with the same one.

use bandog::grid::{LiveObjects, Saved, codec::Kryo5};

use super::side::Side;

#[derive(Debug, bandog::Live)]
#[live(name = "bandog.grid.Person", index(name, age))]
struct Person {
    #[live(id)]
    id: i64,
    name: String,
    age: i32,
    nick: Option<String>,
}

type People = LiveObjects<Person, Kryo5>;

/// The ids that both sides find, by a name and by a least age.
#[track_caller]
fn find(side: &Side, name: &str, age: &str) -> [String; 2] {
    [side.java("live", "find", "0", &[name]), side.java("live", "from", "0", &[age])]
}

async fn ours(people: &People, name: &str, age: i32) -> [String; 2] {
    let by_name = people.find(Person::name().eq(name)).ids().await.unwrap();
    let by_age = people.find(Person::age().ge(&age)).ids().await.unwrap();
    [by_name, by_age].map(|mut ids| {
        ids.sort_unstable();
        ids.iter().map(i64::to_string).collect::<Vec<_>>().join(" ")
    })
}

// Promise: G26
#[tokio::test]
async fn live_objects_go_both_ways() {
    let side = Side::start(1).await;
    let people: People = side.grid().live::<Person>().unwrap().codec(Kryo5);
    let java = |verb: &str, id: &str, args: &[&str]| side.java("live", verb, id, args);
    // Ours, read and changed by Java.
    let ann = Person { id: 7, name: "Ann".into(), age: 30, nick: Some("an".into()) };
    assert!(people.insert(&ann).await.unwrap());
    assert_eq!(java("get", "7", &[]), "Ann 30 an");
    assert_eq!(find(&side, "Ann", "30"), ["7", "7"]);
    let mut loaded = people.load(&7).await.unwrap().unwrap();
    assert_eq!((java("name", "7", &["Eve"]), java("age", "7", &["40"])), ("done".into(), "done".into()));
    loaded.nick = None;
    assert_eq!(loaded.save().await.unwrap(), Saved::Changed, "Java has changed it");
    assert_eq!(
        (ours(&people, "Ann", 41).await, ours(&people, "Eve", 40).await),
        (["", ""].map(str::to_owned), ["7", "7"].map(str::to_owned))
    );
    // Theirs, read and changed by us.
    assert_eq!(java("persist", "8", &["Bob", "50"]), "done");
    assert!(java("persist", "7", &["Bob", "50"]).starts_with("error "));
    assert!(!people.insert(&Person { id: 8, name: "Ann".into(), age: 1, nick: None }).await.unwrap());
    let bob = people.load(&8).await.unwrap().unwrap();
    assert_eq!((bob.name.as_str(), bob.age, bob.nick.as_deref()), ("Bob", 50, None));
    let changed = people.update(&8, |bob| (bob.name, bob.nick) = ("Eve".into(), Some("e".into()))).await.unwrap();
    assert!(changed.is_some() && people.at(&8).age().set(&45).await.unwrap());
    assert_eq!(java("get", "8", &[]), "Eve 45 e");
    assert_eq!(
        (find(&side, "Bob", "46"), find(&side, "Eve", "41")),
        (["", ""].map(str::to_owned), ["7 8", "8"].map(str::to_owned))
    );
    assert_eq!((java("ids", "0", &[]), people.to_vec(9).await.unwrap().len()), ("7 8".into(), 2));
    // Each deletes the other's, with its indexes.
    assert_eq!(java("delete", "7", &[]), "1");
    assert!(people.delete(&8).await.unwrap());
    assert_eq!((java("get", "8", &[]), people.load(&7).await.unwrap().is_none()), ("null".into(), true));
    assert_eq!(side.keys_of(""), Vec::<String>::new());
}
