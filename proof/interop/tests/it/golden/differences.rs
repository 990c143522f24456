//! The lines in which bandog must differ from Java, each with its reason. `docs/redisson.md` and `docs/redis-keys.md`
//! document them. All other lines are the same.

/// A line of a golden file that bandog writes in another way.
struct Difference {
    kind: &'static str,
    section: &'static str,
    /// The line of the step.
    step: &'static str,
    java: &'static str,
    bandog: &'static str,
}

/// The sections that bandog cannot execute.
pub(crate) const LEFT_OUT: &[&str] = &[
    // A claim of bandog for more permits than the limit is `Misused`. Java waits until the limit is higher.
    "the limit changes",
    "the number changes",
];

const DIFFERENCES: &[Difference] = &[
    // The deadline of a waiter with a time limit. Java adds the time limit, because the waiter leaves the queue after it.
    // bandog adds the same time for each waiter, so that each grant can take the same time off all deadlines.
    Difference {
        kind: "fair",
        section: "a waiter gives up and another one stays",
        step: "B:1 fair try_lock_for 3s: waits",
        java: "zset, no ttl: B:1 in 60 s",
        bandog: "zset, no ttl: B:1 in 360 s",
    },
    Difference {
        kind: "fair",
        section: "a waiter gives up and another one stays",
        step: "C:1 fair lock: waits",
        java: "zset, no ttl: B:1 in 60 s",
        bandog: "zset, no ttl: B:1 in 360 s",
    },
    // Mutexes of the same name can wait too, and they are subscribed to the channel of the lock.
    Difference {
        kind: "fair",
        section: "a forced unlock",
        step: "C:1 fair forced unlock: freed; B:1 waited: held",
        java: "    message \"0\" on redisson_lock__channel:{orders}:B:1\n",
        bandog: "    message \"0\" on redisson_lock__channel:{orders}\n    \
                 message \"0\" on redisson_lock__channel:{orders}:B:1\n",
    },
    // Java does not notify readers of a downgrade, so they sleep until the ttl.
    Difference {
        kind: "read-write",
        section: "a downgrade",
        step: "A:1 downgrade: held",
        java: "",
        bandog: "    message \"1\" on redisson_rwlock:{orders}\n",
    },
    // Java leaves the hold of the reader until its ttl.
    Difference {
        kind: "read-write",
        section: "a forced unlock of a reader",
        step: "C:1 read forced unlock: freed",
        java: "    {orders}:A:1:rwlock_timeout:1 = string, ttl 60 s: \"1\"\n",
        bandog: "",
    },
    // Java publishes a number below 0, too, for which its waiters have no use.
    Difference {
        kind: "semaphore",
        section: "more and fewer permits",
        step: "C:1 add -2: set",
        java: "    message \"-1\" on redisson_sc:{orders}\n",
        bandog: "",
    },
    // If several permits are released, Java publishes their number. bandog always publishes the number of free permits.
    Difference {
        kind: "leased-semaphore",
        section: "a waiter gets two permits",
        step: "C:1 release all: freed",
        java: "message \"2\"",
        bandog: "message \"3\"",
    },
    Difference {
        kind: "leased-semaphore",
        section: "all or none",
        step: "A:1 release all: freed",
        java: "message \"2\"",
        bandog: "message \"3\"",
    },
];

/// The golden file of a kind, with the lines that bandog writes.
pub(crate) fn apply(kind: &str, mut golden: String) -> String {
    for difference in DIFFERENCES.iter().filter(|difference| difference.kind == kind) {
        let Difference { section, step, java, bandog, .. } = difference;
        let place =
            after(&golden, 0, &format!("== {section}\n")).and_then(|at| after(&golden, at, &format!("{step}\n")));
        let place = place.and_then(|at| golden[at..].find(java).map(|found| at + found));
        let place = place.unwrap_or_else(|| panic!("{kind}, {section}, {step}: there is no {java:?}"));
        golden.replace_range(place..place + java.len(), bandog);
    }
    golden
}

/// The end of the next occurrence of `text` behind `at`.
fn after(golden: &str, at: usize, text: &str) -> Option<usize> {
    golden[at..].find(text).map(|found| at + found + text.len())
}
