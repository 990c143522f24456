//! Work queues under faults, without memory, without rights, and with many elements and takers.

mod amounts;
mod arguments;
mod faults;
mod idle;
mod kit;
mod layouts;
mod rights;
