//! The element of the queue, and the calls that the program and its test share.

use bandog::{
    Client,
    grid::{ClientGrid, List},
    work::{ClientWork, WorkQueue},
};
use serde::{Deserialize, Serialize};

/// A parcel that a worker sends.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Parcel {
    /// The customer, to whom parcels are sent in their order.
    pub customer: String,
    /// The number of the parcel, from 0 for each customer.
    pub number: u32,
}

/// The queue of the parcels.
///
/// # Errors
/// The store has no work queues.
pub fn parcels(client: &Client) -> bandog::Result<WorkQueue<Parcel>> {
    client.work_queue("parcels")
}

/// The parcels that were sent, with the fence of the delivery. It stands for the effect of the work.
///
/// # Errors
/// The store has no lists.
pub fn sent(client: &Client) -> bandog::Result<List<(Parcel, u64)>> {
    client.grid().list("sent")
}

/// Pushes this number of parcels for each customer. Parcels with the same key are delivered one after the other.
///
/// # Errors
/// The store does not answer, or refuses the push.
pub async fn push(client: &Client, customers: &[String], count: u32) -> bandog::Result<()> {
    let parcels = parcels(client)?;
    for number in 0..count {
        for customer in customers {
            parcels.push(&Parcel { customer: customer.clone(), number }).key(customer).await?;
        }
    }
    Ok(())
}
