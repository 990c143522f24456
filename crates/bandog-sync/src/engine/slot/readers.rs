//! How readers share a hold. The first reader claims the key. While its hold is *open*, further readers of this client
//! get a turn of the same hold at once, without a request to the store.
//!
//! A hold does not stay open for long, so that the readers of one client cannot keep the writers of other clients out
//! forever: it closes when its streak has lasted for its maximum duration, or when a writer of this client waits. Later
//! readers then need a new claim, which the store refuses while a writer waits. A closed hold ends with its last turn.

use super::{event::SlotContext, hold::Hold, policy::Serves, state::Slot};
use crate::terms::{HoldId, Terms};

impl Slot {
    /// The open hold, if a call with these terms can share it. Closes the hold if its time is over.
    pub(super) fn shareable_hold(&mut self, terms: Terms, cx: &SlotContext) -> Option<HoldId> {
        if self.policy.serves != Serves::Together {
            return None;
        }
        let open = self.holds.open()?;
        let id = open.id();
        if open.can_share(terms, cx.now, cx.round_trip) {
            return Some(id);
        }
        if open.streak().has_lasted(cx.now, cx.round_trip) {
            self.close_open_hold();
        }
        None
    }

    /// Starts a turn of this hold for each waiting call with the same terms. Releases the hold if it has no turn then.
    pub(super) fn serve_readers(&mut self, id: HoldId, cx: &mut SlotContext) {
        let Some((terms, fence)) = self.holds.get(id).map(|hold| (hold.terms(), hold.shared_fence())) else { return };
        for ticket in self.queue.with_terms(terms) {
            if let Some(call) = self.queue.remove(ticket).filter(|call| !call.has_gone()) {
                self.begin_turn(id, call, fence, cx);
            }
        }
        if self.holds.get(id).is_some_and(|hold| hold.turns().is_empty()) {
            self.release_hold(id, None, cx);
        }
        if self.writer_waits {
            self.close_open_hold();
        }
    }

    /// Handles the message that a writer of this client begins to wait, or that no writer waits any more.
    pub(in crate::engine) fn writer_waits(&mut self, waits: bool) {
        self.writer_waits = waits;
        if waits {
            self.close_open_hold();
        }
    }

    pub(super) fn close_open_hold(&mut self) {
        if let Some(id) = self.holds.open().map(Hold::id) {
            self.holds.change(id, Hold::close);
        }
    }
}
