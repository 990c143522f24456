use super::*;
use crate::demo::plan::Plan;

fn shop() -> (tempfile::TempDir, Shop) {
    let place = tempfile::tempdir().unwrap();
    let shop = Shop::create(&place.path().join("shop.db")).unwrap();
    shop.take_orders(&Plan::new(2, 3, 5).unwrap()).unwrap();
    (place, shop)
}

fn order() -> Order {
    Order { id: 1, item: "collar".into(), units: 2 }
}

fn under(fence: u64) -> Writer {
    Writer { replica: 1, fence: Some(Fence::new(fence)) }
}

#[test]
fn a_write_with_a_smaller_fence_is_refused() {
    let (_place, shop) = shop();
    assert_eq!(shop.close(&order(), under(8)).unwrap(), Write::Done);
    assert_eq!(shop.give_back(&order(), under(8)).unwrap(), Write::Done, "one run writes many times");
    assert_eq!(shop.give_back(&order(), under(7)).unwrap(), Write::Refused);
    assert_eq!(shop.give_back(&order(), under(9)).unwrap(), Write::Done);
}

#[test]
fn a_refused_write_changes_nothing() {
    let (_place, shop) = shop();
    assert_eq!(shop.close(&order(), under(8)).unwrap(), Write::Done);
    let before = shop.count().unwrap();
    assert_eq!(shop.give_back(&order(), under(7)).unwrap(), Write::Refused);
    assert_eq!(shop.close(&Order { id: 2, ..order() }, under(7)).unwrap(), Write::Refused);
    assert_eq!(shop.count().unwrap(), before);
}

#[test]
fn a_later_run_finishes_the_work_and_excludes_the_earlier_one() {
    let (_place, shop) = shop();
    assert_eq!(shop.close(&order(), under(8)).unwrap(), Write::Done);
    let found = shop.overdue(under(9)).unwrap().unwrap();
    assert!(found.iter().any(|found| found.id == 1), "order 1 is closed, but its stock was not returned: {found:?}");
    assert_eq!(shop.give_back(&order(), under(8)).unwrap(), Write::Refused, "the later run has read the orders");
    assert!(shop.overdue(under(8)).unwrap().is_none());
    assert_eq!(shop.give_back(&order(), under(9)).unwrap(), Write::Done);
    let found = shop.overdue(under(9)).unwrap().unwrap();
    assert!(!found.iter().any(|found| found.id == 1), "{found:?}");
}

#[test]
fn stock_that_is_returned_twice_is_counted() {
    let (_place, shop) = shop();
    let naive = Writer { replica: 1, fence: None };
    for id in 1..=3 {
        let order = Order { id, ..order() };
        assert_eq!(shop.close(&order, naive).unwrap(), Write::Done);
        assert_eq!(shop.give_back(&order, naive).unwrap(), Write::Done);
    }
    assert_eq!(shop.give_back(&order(), naive).unwrap(), Write::Done);
    let counts = shop.count().unwrap();
    assert_eq!((counts.orders, counts.closed, counts.restored, counts.restored_more_than_once), (3, 3, 3, 1));
}
