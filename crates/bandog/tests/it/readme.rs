//! The test that the README shows. It is repeated here because a doctest of the README would only compile it.

#[tokio::test(start_paused = true)] // tokio's feature `test-util`, in the dev-dependencies
async fn a_lease_expires() -> bandog::Result<()> {
    let store = bandog::testing::Store::new();
    let (client, other) = (store.client(), store.client()); // two processes
    let guard = client.mutex("orders").lease(std::time::Duration::from_secs(3600)).lock().await?;
    assert!(other.mutex("orders").try_lock().await?.is_none());
    guard.lost().await; // an hour of virtual time passes
    other.mutex("orders").lock().await?.release().await
}

#[test]
fn the_readme_shows_the_test_of_this_file() {
    let own = include_str!("readme.rs").split("\n\n").nth(1).unwrap();
    let readme = include_str!("../../../../README.md");
    assert!(readme.contains(&format!("```rust\n{own}\n```")), "README.md has another test than this file");
}
