//! What an operator sees.

use bandog_core::{Fence, Pattern};

use crate::{
    Law, World,
    kit::{NAME, nothing_left, take},
};

/// Law 95: a look tells who holds a lock, with which fence, and for how long; and that nobody holds it.
pub async fn inspect<W: World>(world: &W) -> Law {
    let (a, b) = (world.client(), world.client());
    let guard = a.mutex(NAME).lease(world.slack() * 10).lock().await?;
    let row = b.show(NAME).await?;
    assert_eq!((row.name.as_str(), row.held), (NAME, true));
    let owner = row.owner.expect("a held lock has an owner");
    assert!(owner.starts_with(&format!("{}:", a.id())), "{owner}");
    assert!(bandog_core::ClientId::made(&owner));
    assert!(row.fence >= Some(guard.fence()), "{:?}", row.fence);
    let ttl = row.ttl.expect("a lease has an end");
    assert!(!ttl.is_zero() && ttl <= world.slack() * 10);

    let other = take(&a, "other").await?;
    let names = async |pattern: &str| {
        let rows = b.list(Pattern::new(pattern)).await?;
        Ok::<_, bandog_core::Error>(rows.into_iter().map(|row| row.name).collect::<Vec<_>>())
    };
    assert_eq!(names("*").await?, [NAME, "other"]);
    assert_eq!(names("o*r").await?, ["other"]);
    assert_eq!(names("oth?").await?, [""; 0]);
    let rows = b.list(Pattern::new(NAME)).await?;
    assert_eq!(rows.len(), 1);
    assert_eq!((rows[0].owner.as_deref(), rows[0].fence, rows[0].held), (Some(owner.as_str()), row.fence, true));

    guard.release().await?;
    other.release().await?;
    let row = b.show(NAME).await?;
    assert_eq!((row.held, row.owner, row.ttl), (false, None, None));
    assert!(!b.show("never").await?.held);
    assert_eq!(names("*").await?, [""; 0]);
    nothing_left(world, &[&a, &b]).await;
    Ok(())
}

/// Law 99: a hold lies in the store as the documentation says, to the byte.
pub async fn golden_layout<W: World>(world: &W) -> Law {
    let client = world.client();
    let ttl = world.slack() * 10;
    let guard = client.mutex(NAME).lease(ttl).lock().await?;
    let row = client.show(NAME).await?;
    let owner = row.owner.expect("a held lock has an owner");
    let fence = row.fence.unwrap_or(Fence::new(0)).get();
    world.layout(NAME, &owner, fence, ttl).await?;
    guard.release().await?;
    nothing_left(world, &[&client]).await;
    Ok(())
}
