//! 100,000 jobs, and 100,000 tasks, that are due at the same instant, with the allocator mimalloc: `schedule` starts it.

use serde_json::json;

#[path = "../schedule/at_once.rs"]
mod at_once;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    println!("{}", json!({"jobs": at_once::jobs(), "tasks": at_once::tasks()}));
}
