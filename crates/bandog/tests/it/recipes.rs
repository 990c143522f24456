//! A test that docs/recipes.md shows. It is repeated here because a doctest would only compile it.

use std::time::Duration;

use bandog::testing;

#[tokio::test(start_paused = true)]
async fn a_lease_expires() -> bandog::Result<()> {
    let store = testing::Store::new();
    let (client, other) = (store.client(), store.client()); // two processes
    let guard = client.mutex("orders").lease(Duration::from_secs(3600)).lock().await?;
    assert!(other.mutex("orders").try_lock().await?.is_none());
    guard.lost().await; // shortly before the hour is over
    assert!(other.mutex("orders").try_lock_for(Duration::from_secs(60)).await?.is_some());
    Ok(())
}

#[test]
fn the_recipes_show_the_test_of_this_file() {
    let own = include_str!("recipes.rs").split("\n\n").find(|part| part.contains("fn a_lease_expires")).unwrap();
    let recipes = include_str!("../../../../docs/recipes.md");
    assert!(recipes.contains(&format!("{own}\n```")), "docs/recipes.md has another test than this file");
}
