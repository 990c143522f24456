//! The options of `storm grid`.

use clap::{ValueEnum, builder::PossibleValuesParser, builder::TypedValueParser};

use crate::{calls::PlayArgs, settings::StoreKind};

/// Plays the data grid with random calls under faults, and checks the history of the calls.
///
/// Worker processes push, pop and take elements of queues, deques, sets and sorted sets, write and swap entries of maps,
/// values, sets, multimaps and bit sets, add to counters, take unique numbers, insert into Bloom filters, and publish and
/// receive messages; some futures are dropped. Meanwhile processes are killed and stopped for longer than a lease,
/// connections are cut and lose answers, servers are stopped, killed, emptied, full, or refuse a right, replicas take over,
/// and slots move. Each process records its calls. At the end all faults are removed, all objects are read, and the
/// history is checked: each acknowledged element was received or is there, none twice without a reason of docs/grid.md,
/// two holders never had the same element, fences increased, exact additions counted once, acknowledged writes are
/// there, each version has one successor, numbers were unique, no message was lost without a gap, each call ended in
/// time, and no helper key is left.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct GridArgs {
    /// The stores to test, one after the other [default: memory redis]
    #[arg(value_parser = stores())]
    stores: Vec<StoreKind>,
    /// Minimum number of calls on each store
    #[arg(long, default_value_t = 1_000_000, value_name = "N")]
    pub(super) ops: u64,
    #[command(flatten)]
    pub(super) plays: PlayArgs,
}

const EXAMPLES: &str = "Examples:
  cargo xtask storm grid                                    a million calls in memory and on Redis
  cargo xtask storm grid redis --ops 20000 --seed 7         a short run that can be repeated
  cargo xtask storm grid sentinel cluster --ops 200000      Redis with several servers, which fail
  cargo xtask storm grid redis --profile calm --keep /tmp/h no faults; keep the history

The exit code is 0 when nothing is wrong, 1 when a promise of docs/grid.md was broken.
The client 1000000 in the history is the one that reads all objects at the end.";

/// The stores that have objects.
const STORES: [StoreKind; 4] = [StoreKind::Memory, StoreKind::Redis, StoreKind::Sentinel, StoreKind::Cluster];

fn stores() -> impl TypedValueParser<Value = StoreKind> {
    let values = STORES.iter().filter_map(ValueEnum::to_possible_value);
    PossibleValuesParser::new(values).try_map(|name| StoreKind::from_str(&name, false))
}

impl GridArgs {
    pub(super) fn stores(&self) -> Vec<StoreKind> {
        if self.stores.is_empty() { vec![StoreKind::Memory, StoreKind::Redis] } else { self.stores.clone() }
    }
}
