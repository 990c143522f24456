//! Records and latches, which this backend does not have.

use bandog_core::{Latches, Records};

use crate::host::ZooKeeper;

impl Records for ZooKeeper {}

impl Latches for ZooKeeper {}
