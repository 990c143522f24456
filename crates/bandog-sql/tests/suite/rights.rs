//! The rights of the page about the database.

use bandog_core::{Inspect, Kind, Leases, Pattern, Records, Renewal, Swap};

use super::{Database, Place, claim, full, open, release, renew, take};

pub(crate) async fn the_documented_rights_are_enough<D: Database>() {
    let place = Place::<D>::new();
    open(&place.server.administrator(&place.database)).ping().await.unwrap(); // It creates the tables.
    D::grant_documented_rights(&place.database);
    let (store, ours) = (place.store(), claim("k"));
    take(&store, &ours).await;
    assert!(matches!(renew(&store, &ours).await.unwrap(), Renewal::Extended { .. }));
    release(&store, &ours).await;
    let mut reader = claim("r");
    reader.kind = Kind::Read;
    take(&store, &reader).await;
    assert_eq!(store.list(&Pattern::all()).await.unwrap().len(), 1);
    assert!(store.evict(&reader.key).await.unwrap().is_some());
    assert!(store.forget(&reader.key).await.unwrap());
    let swapped = store.swap(&[Swap::new(ours.key.clone(), None, "text")]).await.unwrap();
    assert!(swapped.each[0].is_ok(), "{swapped:?}");
    assert!(store.members().await.unwrap().is_empty());
    assert!(!store.check().await.unwrap().is_empty());
    full::use_all(&place.url()).await;
}
