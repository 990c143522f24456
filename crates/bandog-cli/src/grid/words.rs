//! The arguments of a verb.

use std::{ffi::OsString, str::FromStr};

use super::codec::Codec;
use crate::fault::Fault;

/// The arguments of a verb, and how they are read.
#[derive(Debug)]
pub(super) struct Words<'a> {
    words: &'a [OsString],
    codec: Codec,
    verb: String,
}

impl<'a> Words<'a> {
    pub(super) fn new(words: &'a [OsString], codec: Codec, verb: String) -> Self {
        Self { words, codec, verb }
    }

    /// Exactly these arguments. `names`: their names in the error.
    fn exactly<const N: usize>(&self, names: &str) -> Result<[&'a str; N], Fault> {
        let Ok(words) = <&[OsString; N]>::try_from(self.words) else {
            let (verb, count) = (&self.verb, self.words.len());
            let takes = if names.is_empty() { "no ARG" } else { names };
            return Err(Fault::usage(format!("`{verb}` takes {takes}, and {count} arguments are given")));
        };
        let mut texts = [""; N];
        for (text, word) in texts.iter_mut().zip(words) {
            *text = utf8(word)?;
        }
        Ok(texts)
    }

    pub(super) fn none(&self) -> Result<(), Fault> {
        self.exactly::<0>("").map(|_| ())
    }

    /// A key.
    pub(super) fn key(&self) -> Result<Vec<u8>, Fault> {
        let [key] = self.exactly("K")?;
        self.codec.keys().bytes(key)
    }

    /// A key and a value.
    pub(super) fn entry(&self) -> Result<(Vec<u8>, Vec<u8>), Fault> {
        let [key, value] = self.exactly("K V")?;
        Ok((self.codec.keys().bytes(key)?, self.codec.bytes(value)?))
    }

    /// A value.
    pub(super) fn value(&self) -> Result<Vec<u8>, Fault> {
        let [value] = self.exactly("V")?;
        self.codec.bytes(value)
    }

    /// A value, and another one.
    pub(super) fn two_values(&self) -> Result<[Vec<u8>; 2], Fault> {
        let [from, to] = self.exactly("FROM TO")?;
        Ok([self.codec.bytes(from)?, self.codec.bytes(to)?])
    }

    /// At least one value.
    pub(super) fn values(&self) -> Result<Vec<Vec<u8>>, Fault> {
        if self.words.is_empty() {
            return Err(Fault::usage(format!("`{}` takes at least one V", self.verb)));
        }
        self.words.iter().map(|word| self.codec.bytes(utf8(word)?)).collect()
    }

    /// A number.
    pub(super) fn number<T: FromStr>(&self, name: &str) -> Result<T, Fault> {
        let [number] = self.exactly(name)?;
        parsed(name, number)
    }

    /// A number and a value.
    pub(super) fn number_and_value<T: FromStr>(&self, name: &str) -> Result<(T, Vec<u8>), Fault> {
        let [number, value] = self.exactly(&format!("{name} V"))?;
        Ok((parsed(name, number)?, self.codec.bytes(value)?))
    }

    /// Two numbers, called N and P.
    pub(super) fn numbers<T: FromStr, U: FromStr>(&self) -> Result<(T, U), Fault> {
        let [first, second] = self.exactly("N P")?;
        Ok((parsed("N", first)?, parsed("P", second)?))
    }
}

fn utf8(word: &OsString) -> Result<&str, Fault> {
    word.to_str().ok_or_else(|| Fault::usage(format!("{word:?} is not UTF-8")))
}

fn parsed<T: FromStr>(name: &str, word: &str) -> Result<T, Fault> {
    word.parse().map_err(|_| Fault::usage(format!("{name} is {word:?}, which is no number that is allowed here")))
}
