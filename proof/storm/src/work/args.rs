//! The options of `storm work`.

use clap::{ValueEnum, builder::PossibleValuesParser, builder::TypedValueParser};

use crate::{calls::PlayArgs, settings::StoreKind};

/// Plays work queues with random calls and handlers under faults, and checks the history.
///
/// Worker processes push elements: several in one step, after a delay, with a priority, a key of order or an id of `once`,
/// or after other elements. Operators pause and limit the queues, remove elements and retry dead ones; some futures are
/// dropped. Workers start and stop, and their handlers succeed, fail, panic, settle the delivery themselves, last for longer
/// than the lease, block their thread, or wait until the delivery is lost. Meanwhile processes are killed and stopped for
/// longer than a lease, connections are cut and lose answers, servers are stopped, killed, emptied or full, replicas take
/// over, and slots move. Payloads and results have up to the largest size, wires are narrow, all clients lose the store for
/// seconds, packets are limited, and code of the user panics wherever it is called. Each process records its calls, and what each handler believes. At the end all faults are removed,
/// the queues are worked off, and the history is checked: no acknowledged element was lost, none was begun while another
/// handler believed that it has it, fences and attempts increased, none came again after it was done, elements with the same
/// key came one after another and in their order, limits and the number of deliveries were respected, each call ended in
/// time, and the queues are empty.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct WorkArgs {
    /// The stores to test, one after the other [default: memory redis postgres sqlite]
    #[arg(value_parser = stores())]
    stores: Vec<StoreKind>,
    /// Minimum number of calls and handlers on each store
    #[arg(long, default_value_t = 100_000, value_name = "N")]
    pub(super) ops: u64,
    #[command(flatten)]
    pub(super) plays: PlayArgs,
}

const EXAMPLES: &str = "Examples:
  cargo xtask storm work                                    100,000 calls on each of four stores
  cargo xtask storm work redis --ops 20000 --seed 7         a short run that can be repeated
  cargo xtask storm work sentinel cluster mariadb           the other stores that have work queues
  cargo xtask storm work redis --profile calm --keep /tmp/h no faults; keep the history

The exit code is 0 when nothing is wrong, 1 when a promise of docs/work.md was broken.
The client 1000000 in the history is the one that works on the queues at the end.";

/// The stores of a run that names none.
const DEFAULT: [StoreKind; 4] = [StoreKind::Memory, StoreKind::Redis, StoreKind::Postgres, StoreKind::Sqlite];

/// The stores that have work queues.
const STORES: [StoreKind; 7] = [
    StoreKind::Memory,
    StoreKind::Sqlite,
    StoreKind::Redis,
    StoreKind::Sentinel,
    StoreKind::Cluster,
    StoreKind::Postgres,
    StoreKind::Mariadb,
];

fn stores() -> impl TypedValueParser<Value = StoreKind> {
    let values = STORES.iter().filter_map(ValueEnum::to_possible_value);
    PossibleValuesParser::new(values).try_map(|name| StoreKind::from_str(&name, false))
}

impl WorkArgs {
    pub(super) fn stores(&self) -> Vec<StoreKind> {
        if self.stores.is_empty() { DEFAULT.to_vec() } else { self.stores.clone() }
    }
}
