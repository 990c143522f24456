use std::time::Duration;

use bandog_testkit::{eventually, eventually_async};

use crate::SOON;

#[test]
fn a_fact_that_becomes_true_gives_its_value() {
    let mut asked = 0;
    let value = eventually(SOON, || {
        asked += 1;
        (asked == 3).then_some("found")
    });
    assert_eq!((value, asked), ("found", 3));
}

#[test]
#[should_panic(expected = "did not hold within 10ms; last seen: \"two left\"")]
fn a_fact_that_never_holds_panics_with_the_last_result() {
    eventually::<Result<(), _>>(Duration::from_millis(10), || Err("two left"));
}

#[tokio::test(start_paused = true)]
async fn the_async_form_follows_a_paused_clock() {
    let start = tokio::time::Instant::now();
    let long = Duration::from_secs(30);
    eventually_async(2 * long, async || start.elapsed() >= long).await;
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "awaited at crates/bandog-testkit/tests/it/eventually.rs:")]
async fn the_panic_of_the_async_form_names_its_caller() {
    eventually_async(Duration::from_millis(10), async || false).await;
}
