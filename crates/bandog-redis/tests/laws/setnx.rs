//! All laws, with mutexes that are strings.

use bandog_conformance::conformance;

use crate::{DataFormat, OnRedis};

conformance!(OnRedis<Setnx>);

struct Setnx;

impl DataFormat for Setnx {
    const NAME: &'static str = "redis with layout=setnx";
    const QUERY: &'static str = "?layout=setnx";
    const TYPE: &'static str = "string";
}
