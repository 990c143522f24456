//! The orders and the stock of the shop, as a table with a column `fence`.

use std::collections::BTreeMap;

/// The orders, and how often the stock of each was returned. It should be once.
#[derive(Default)]
pub(crate) struct Stock {
    orders: BTreeMap<u32, Order>,
    /// The greatest fence that has written.
    fence: u64,
    /// The number of writes that were refused.
    refused: u32,
}

#[derive(Default)]
struct Order {
    is_closed: bool,
    returned: u32,
}

impl Stock {
    pub(crate) fn unpaid(&mut self, order: u32) {
        self.orders.insert(order, Order::default());
    }

    pub(crate) fn first_unpaid(&self) -> Option<u32> {
        self.orders.iter().find(|(_, order)| !order.is_closed).map(|(number, _)| *number)
    }

    /// Closes an order and returns its stock. A write with a fence is refused if a greater one has written; then the error
    /// is the greater one. Otherwise the result says how often this stock was returned.
    ///
    /// In SQL: `update … set …, fence = $2 where id = $1 and fence <= $2`.
    pub(crate) fn give_back(&mut self, order: u32, fence: Option<u64>) -> Result<u32, u64> {
        if fence.is_some_and(|fence| fence < self.fence) {
            self.refused += 1;
            return Err(self.fence);
        }
        self.fence = fence.unwrap_or(self.fence);
        let order = self.orders.entry(order).or_default();
        order.is_closed = true;
        order.returned += 1;
        Ok(order.returned)
    }

    /// Takes the figures of a real table.
    pub(crate) fn counted(&mut self, order: u32, returned: u32, refused: u32) {
        self.orders.insert(order, Order { is_closed: returned > 0, returned });
        self.refused += refused;
    }

    /// Each order, and how often its stock was returned.
    pub(crate) fn returned(&self) -> impl Iterator<Item = (u32, u32)> {
        self.orders.iter().map(|(number, order)| (*number, order.returned))
    }

    pub(crate) fn refused(&self) -> u32 {
        self.refused
    }
}
