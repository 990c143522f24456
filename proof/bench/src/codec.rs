//! Canonical JSON: the time to write and to read a value of about 100 bytes, compared with serde_json. The fastest of
//! several rounds counts, because a busy machine can only slow a round down.

use std::hint::black_box;

use bandog_codec::{Decode, Encode, TypedJson};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::json;

use crate::report::Report;

/// Number of calls between two readings of the clock.
const CALLS: usize = 1000;

/// The fields are not in the order of the alphabet, so they are sorted when they are written.
#[derive(Serialize, Deserialize, Clone)]
struct Order {
    id: u64,
    customer: String,
    amount: f64,
    paid: bool,
    items: Vec<u32>,
    note: Option<String>,
}

/// The same in the order of the alphabet.
#[derive(Serialize, Deserialize)]
struct Sorted {
    amount: f64,
    customer: String,
    id: u64,
    items: Vec<u32>,
    note: Option<String>,
    paid: bool,
}

pub(crate) fn measure(report: &mut Report) {
    let customer = "Ann Example, Ulm".to_owned();
    let order = Order { id: 4_711_000, customer, amount: 19.99, paid: true, items: vec![7, 12, 4096], note: None };
    compare(report, "a struct", &order);
    let Order { id, customer, amount, paid, items, note } = order.clone();
    compare(report, "a sorted struct", &Sorted { amount, customer, id, items, note, paid });
    compare(report, "a double of 17 digits", &Order { amount: 0.1 + 0.2, ..order.clone() });
    compare(report, "500 characters", &Order { note: Some("lorem ipsum ".repeat(40)), ..order });
}

fn compare<T: Serialize + DeserializeOwned>(report: &mut Report, what: &str, value: &T) {
    let mut to = Vec::with_capacity(1000);
    let write = report.best(CALLS, |_| {
        to.clear();
        TypedJson.encode(black_box(value), &mut to).expect("a struct has a form in JSON");
    });
    let json = to.clone();
    let serde_write = report.best(CALLS, |_| {
        to.clear();
        serde_json::to_writer(&mut to, black_box(value)).expect("a struct has a form in JSON");
    });
    let read = report.best(CALLS, |_| drop(black_box(Decode::<T>::decode(&TypedJson, black_box(&json)))));
    let serde_read = report.best(CALLS, |_| drop(black_box(serde_json::from_slice::<T>(black_box(&json)))));
    report.raw(json!({"what": "codec", "value": what, "bytes": json.len(), "write_ns": write, "read_ns": read,
        "serde_json_write_ns": serde_write, "serde_json_read_ns": serde_read}));
    let ratios = format!("×{:.2} / ×{:.2}", write / serde_write, read / serde_read);
    let against = format!("serde_json {serde_write:.0} / {serde_read:.0} ns, {ratios}");
    report.row(format!("JSON of {what}: write / read"), format!("{write:.0} / {read:.0} ns"), against, "≤ ×1.3");
}
