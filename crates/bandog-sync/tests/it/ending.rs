//! How a client ends.

use bandog_conformance::wrap::Delayed;
use tokio::time;

use crate::kit::{client, held, memory, ms};

/// A client on the current runtime whose last handle goes before the store has answered: the release is still sent,
/// and the runtime is not kept busy meanwhile (else a paused clock would stand still for ever).
#[tokio::test(start_paused = true)]
async fn the_last_handle_goes_while_a_release_is_on_its_way() {
    let store = memory();
    let client = client(Delayed::new(store.clone(), 1, ms(50), ms(50)));
    let guard = client.mutex("orders").lock().await.unwrap();
    drop(client);
    assert_eq!(held(&store).await, ["orders"]);
    drop(guard);
    time::sleep(ms(100)).await;
    assert_eq!(held(&store).await, [""; 0]);
}
