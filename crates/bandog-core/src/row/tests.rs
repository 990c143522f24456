use super::*;

fn member(host: &str, waits: &[&str]) -> Member {
    let waits = waits.iter().map(|name| Key::new(*name).unwrap()).collect();
    Member { host: host.into(), waits, ..Member::here(ClientId::random()) }
}

/// The hosts of the clients that wait, and `?` for a client that is not registered.
fn hosts(row: &Row) -> Vec<&str> {
    row.waiting().map(|Waiting { member, .. }| member.map_or("?", |member| &member.host)).collect()
}

#[test]
fn clients_with_a_place_come_first_in_the_order_of_the_queue() {
    let [ann, ben, eve, joe] = ["ann", "ben", "eve", "joe"].map(|host| member(host, &["x"]));
    let queue = vec![format!("{}:1", eve.id), "java:7".into(), format!("{}:4", ann.id), format!("{}:9", eve.id)];
    let mut row = Row { queue, ..Row::held(&Key::new("x").unwrap(), None, Holder::new(format!("{}:2", joe.id))) };
    row.add_members(&[joe, ann, ben, eve]);
    let waiters: Vec<_> = row.waiters.iter().map(|member| member.host.as_str()).collect();
    assert_eq!(waiters, ["eve", "ann", "ben"], "a client that holds the lock does not wait");
    assert_eq!(hosts(&row), ["eve", "?", "ann", "eve", "ben"]);
    let places: Vec<_> = row.waiting().map(|waiting| waiting.place).collect();
    assert_eq!(places[1], Some("java:7"));
    assert_eq!(places[4], None);
}

#[test]
fn a_client_that_holds_the_lock_and_has_a_place_waits_too() {
    let joe = member("joe", &[]);
    let queue = vec![format!("{}:3", joe.id)];
    let mut row = Row { queue, ..Row::held(&Key::new("x").unwrap(), None, Holder::new(format!("{}:2", joe.id))) };
    row.add_members(&[joe]);
    assert_eq!(hosts(&row), ["joe"]);
}

#[test]
fn the_first_fence_depends_on_the_kind() {
    let first = |kind: Option<Kind>| Holder { kind, ..Holder::new("java:1") }.fenced(Fence::new(1000)).fence;
    let block = u64::from(MAX_BLOCK.get());
    for kind in [None, Some(Kind::Mutex), Some(Kind::Fair), Some(Kind::Write)] {
        assert_eq!(first(kind), Some(Fence::new(1001 - block)), "{kind:?}");
    }
    assert_eq!(first(Some(Kind::Read)), Some(Fence::new(1000)));
}
