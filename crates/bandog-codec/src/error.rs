//! The two errors. Values are secrets, so no error contains a value or bytes of it.

use std::{borrow::Cow, error::Error, fmt};

type Words = Cow<'static, str>;

/// A value has no form in a codec.
///
/// ```
/// use bandog_codec::{Encode, Kryo5};
///
/// let error = Kryo5.encode(&'🦀', &mut Vec::new()).unwrap_err();
/// assert_eq!(error.to_string(), "Kryo5: a char of Java has 16 bits, and this one needs more; write it as a String");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unencodable {
    codec: Words,
    reason: Words,
}

impl Unencodable {
    /// The reason says which form is missing, and what to do. It must not contain the value.
    pub fn new(codec: impl Into<Cow<'static, str>>, reason: impl Into<Cow<'static, str>>) -> Self {
        Self { codec: codec.into(), reason: reason.into() }
    }

    /// The name of the codec.
    pub fn codec(&self) -> &str {
        &self.codec
    }
}

impl fmt::Display for Unencodable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.codec, self.reason)
    }
}

impl Error for Unencodable {}

/// Bytes are not those of a value of the wanted type.
///
/// ```
/// use bandog_codec::{Decode, Kryo5};
///
/// let list = b"\x01\x00java.util.ArrayLis\xf4\x00";
/// let error = Decode::<String>::decode(&Kryo5, list).unwrap_err();
/// assert_eq!(error.class(), Some("java.util.ArrayList"));
/// assert_eq!(
///     error.to_string(),
///     "Kryo5: expected a String, and found an object of the Java class java.util.ArrayList; \
///      Kryo5 reads scalars only, so Java must write such objects with a JSON codec"
/// );
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Corrupt(Box<Parts>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Parts {
    codec: Words,
    expected: Words,
    found: Option<Words>,
    class: Option<String>,
    at: Option<usize>,
    advice: Option<&'static str>,
}

impl Corrupt {
    /// The value should have been this, such as `a Long (i64)`.
    pub fn new(codec: impl Into<Cow<'static, str>>, expected: impl Into<Cow<'static, str>>) -> Self {
        let (codec, expected) = (codec.into(), expected.into());
        Self(Box::new(Parts { codec, expected, found: None, class: None, at: None, advice: None }))
    }

    /// The name of the codec.
    pub fn codec(&self) -> &str {
        &self.0.codec
    }

    /// The form that was expected.
    pub fn expected(&self) -> &str {
        &self.0.expected
    }

    /// The Java class that the bytes name, if the codec cannot read this class.
    pub fn class(&self) -> Option<&str> {
        self.0.class.as_deref()
    }

    /// The kind of the value that was found. It is not the value.
    pub(crate) fn found(mut self, kind: impl Into<Words>) -> Self {
        self.0.found = Some(kind.into());
        self
    }

    pub(crate) fn of_class(mut self, class: String) -> Self {
        self.0.class = Some(class);
        self
    }

    /// The offset of the first byte that was not expected.
    pub(crate) fn at(mut self, at: usize) -> Self {
        self.0.at = Some(at);
        self
    }

    pub(crate) fn advise(mut self, advice: &'static str) -> Self {
        self.0.advice = Some(advice);
        self
    }
}

impl fmt::Display for Corrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Parts { codec, expected, found, class, at, advice } = &*self.0;
        write!(f, "{codec}: expected {expected}")?;
        if let Some(at) = at {
            write!(f, " at byte {at}")?;
        }
        match (class, found) {
            (Some(class), _) => write!(f, ", and found an object of the Java class {class}")?,
            (None, Some(found)) => write!(f, ", and found {found}")?,
            (None, None) => {}
        }
        match advice {
            Some(advice) => write!(f, "; {advice}"),
            None => Ok(()),
        }
    }
}

impl Error for Corrupt {}

/// Whether a name has the form of a Java class. Errors contain such names only, because other bytes may be a value.
pub(crate) fn is_class(name: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || ['.', '_', '$', '[', ';'].contains(&c);
    name.len() <= 300 && name.chars().all(is_word) && (name.starts_with('[') || name.trim_matches('.').contains('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_classes_are_recognized() {
        for name in ["java.lang.Long", "[Ljava.lang.Object;", "[B", "bandog.codecs.Outer$Inner"] {
            assert!(is_class(name), "{name}");
        }
        for name in ["", "secret", ".", "a b.c", "java.lang.Long\n", "é.é", &"a.".repeat(200)] {
            assert!(!is_class(name), "{name}");
        }
    }
}
