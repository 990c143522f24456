//! The options of a run on locks.

use crate::{
    calls::PlayArgs,
    plan::Kind,
    settings::{Profile, StoreKind},
};

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct LocksArgs {
    /// The stores to test, one after the other [default: memory sqlite redis]
    #[arg(value_enum)]
    pub(super) stores: Vec<StoreKind>,
    /// Minimum number of calls on each store
    #[arg(long, default_value_t = 1_000_000, value_name = "N")]
    pub(super) ops: u64,
    /// The kinds of calls: all of them, unless this option names some, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Kind::ALL, hide_default_value = true)]
    pub(super) kinds: Vec<Kind>,
    #[command(flatten)]
    pub(super) plays: PlayArgs,
}

impl LocksArgs {
    pub(super) fn stores(&self) -> Vec<StoreKind> {
        if self.stores.is_empty() { StoreKind::DEFAULT.to_vec() } else { self.stores.clone() }
    }

    /// Whether clients sometimes take locks away from their holders by force.
    pub(super) fn evicts(&self) -> bool {
        matches!(self.plays.profile, Profile::Server | Profile::Everything)
    }
}
