//! Why a value cannot be written or read. Messages of types can contain the value, so they are dropped.

use std::{borrow::Cow, fmt};

use serde::{
    de::{self, Expected, Unexpected},
    ser,
};

/// Why a value cannot be written.
#[derive(Debug)]
pub(super) struct Refusal(pub(super) Cow<'static, str>);

/// Why a value cannot be read.
#[derive(Debug)]
pub(super) struct Fault(pub(super) Box<Parts>);

#[derive(Debug, Default)]
pub(super) struct Parts {
    pub(super) expected: Cow<'static, str>,
    pub(super) found: Option<&'static str>,
    pub(super) class: Option<String>,
    pub(super) at: Option<usize>,
}

impl Fault {
    pub(super) fn new(expected: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Parts { expected: expected.into(), ..Parts::default() }))
    }

    fn found(mut self, found: &'static str) -> Self {
        self.0.found = Some(found);
        self
    }
}

impl ser::Error for Refusal {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self("the Serialize implementation of the type has failed".into())
    }
}

impl de::Error for Fault {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self::new("a value that the type accepts")
    }

    fn invalid_type(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new(expected.to_string()).found(kind(unexpected))
    }

    fn invalid_value(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new(expected.to_string()).found(match unexpected {
            Unexpected::Unsigned(_) | Unexpected::Signed(_) => "an integer out of its range",
            other => kind(other),
        })
    }

    fn invalid_length(_: usize, expected: &dyn Expected) -> Self {
        Self::new(expected.to_string()).found("another length")
    }

    fn unknown_variant(_: &str, expected: &'static [&'static str]) -> Self {
        Self::new(format!("one of the variants {}", expected.join(", "))).found("another name")
    }

    fn unknown_field(_: &str, expected: &'static [&'static str]) -> Self {
        Self::new(format!("one of the properties {}", expected.join(", "))).found("another name")
    }

    fn missing_field(field: &'static str) -> Self {
        Self::new(format!("the property {field}"))
    }

    fn duplicate_field(field: &'static str) -> Self {
        Self::new(format!("the property {field} once"))
    }
}

fn kind(unexpected: Unexpected<'_>) -> &'static str {
    match unexpected {
        Unexpected::Bool(_) => "a boolean",
        Unexpected::Unsigned(_) | Unexpected::Signed(_) => "an integer",
        Unexpected::Float(_) => "a number with decimals",
        Unexpected::Char(_) | Unexpected::Str(_) => "text",
        Unexpected::Bytes(_) => "bytes",
        Unexpected::Unit | Unexpected::Option => "null",
        Unexpected::Seq => "a list",
        Unexpected::Map => "an object",
        Unexpected::UnitVariant => "a variant without data",
        _ => "a value of another type",
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {}", self.0.expected)
    }
}

impl std::error::Error for Refusal {}

impl std::error::Error for Fault {}
