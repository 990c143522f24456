//! Tables of which a user may read some.

use bandog_core::{Inspect, Pattern};

use super::SERVER;
use crate::suite::{claim, open, take};

/// The server shows a user only the tables on which the user has a right.
// Promise: MY12
#[tokio::test]
async fn a_user_that_may_read_some_tables_can_list_locks() {
    let database = SERVER.new_database();
    take(&open(&SERVER.url(&database)), &claim("k")).await;
    SERVER.sql(
        &database,
        &format!(
            "create user reader@'%' identified by 'PASSWORD';
        grant select on {database}.bandog_meta to reader@'%'; grant select on {database}.bandog_lease to reader@'%';
        grant select on {database}.bandog_fence to reader@'%'"
        ),
    );
    let reader = open(&SERVER.url(&database).replace("locks:", "reader:"));
    assert_eq!(reader.list(&Pattern::all()).await.unwrap().len(), 1);
}
