//! A program without declared jobs. The crate `bandog`, which has the attribute, tests programs with declared jobs.

use bandog_core::ErrorKind;
use bandog_schedule::{Scheduler, declared};

// Promise: A6
#[tokio::test]
async fn a_program_without_declared_functions_gets_an_error() {
    assert!(declared().is_empty());
    let fault = Scheduler::new().declared().start().await.unwrap_err();
    assert_eq!(fault.kind(), ErrorKind::Misused);
    assert!(fault.to_string().contains("declared() found no function with #[bandog::scheduled]"), "{fault}");
    assert!(fault.to_string().contains("`use reports as _;`"), "{fault}");
}
